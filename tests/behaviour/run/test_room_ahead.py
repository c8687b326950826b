"""Batches run ahead of the training loop only as far as there is memory for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

_TRAINING = """
import resource, sys, time
import numpy as np, torch
import headrace as hr

def data_in_use():
    text = open("/proc/self/status").read()
    return int(text.split("VmData:")[1].split()[0]) << 10

rows = 1 << 15
random = np.random.default_rng(0)
np.save(sys.argv[1], random.standard_normal((rows, 256), np.float32))
graph = hr.Graph.from_csc(np.arange(rows + 1) * 8, random.integers(0, rows, 8 * rows))
model = torch.nn.Linear(256, 4)
optimiser = torch.optim.Adam(model.parameters())
store = hr.FeatureStore(node={"x": hr.DiskFeature(sys.argv[1])})
plan = hr.ItemSampler(rows, batch_size=1 << 10).sample_neighbor(graph, [8, 8]).fetch_feature(store, node=["x"])
plan = plan.prefetch(workers=2, depth=24)
held = data_in_use()
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_DATA, (held + (int(sys.argv[2]) << 20),) * 2)
most = 0
for batch in plan.loader():
    model(batch.x).mean().backward()
    optimiser.step()
    optimiser.zero_grad()
    time.sleep(0.05)  # of work, in which others are made
    most = max(most, data_in_use() - held)
print(batch.digest(), batch.x.nbytes >> 20, most >> 20)
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.uninstrumented
def test_training_from_disk_keeps_a_limit_of_its_process(tmp_path):
    """By ``ulimit -d``, less than the batches take that prefetch(depth=24) may hold."""

    def train(*limit: str) -> list[str]:
        command = [sys.executable, "-c", _TRAINING, str(tmp_path / "x.npy"), *limit]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    digest, num_bytes, taken = train()
    limit = 12 * int(num_bytes)
    assert int(taken) > limit  # else the limit tests nothing
    limited = train(str(limit))
    assert limited[0] == digest
    assert int(limited[2]) <= limit
