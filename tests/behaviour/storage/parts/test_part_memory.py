"""What a rank holds of a part: no tensor, array or mapped file with an entry for each node, nor for each second one."""

from __future__ import annotations

import sys

import pytest
import torch
from ranks import run_processes

import headrace as hr

SIDE, NUM_PARTS = 600, 4
_RANK = """
import gc, sys, warnings
from pathlib import Path
import numpy as np, torch
import headrace as hr

rank, num_parts, meeting, folder, strategy = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=num_parts)
data = hr.open_dataset(folder)
num_nodes = data.graph.num_nodes
if strategy == "sar":
    place = hr.sar.ShardedGraph(data.graph)
    means = place.aggregate(data.store.node["x"].read(place.owned).rows, reduce="mean")
    batches = [place, means]
else:
    plan = hr.ItemSampler(data.items["train"], batch_size=64, shuffle=True, seed=0).sample_neighbor(data.graph, [5, 5])
    plan = plan.fetch_feature(data.store, node=["x"])
    with plan.loader(cooperative=strategy == "cooperative") as loader:
        batches = [batch for _, batch in zip(range(3), loader)]
    assert all(torch.equal(batch.x[:, 0], batch.n_id.float()) for batch in batches)
gc.collect()
warnings.simplefilter("ignore")  # of what is looked at
held = [one for one in gc.get_objects() if isinstance(one, (torch.Tensor, np.ndarray))]
sizes = sorted(((one.numel() if isinstance(one, torch.Tensor) else one.size), str(one.dtype)) for one in held)
assert sizes[-1][0] < num_nodes / 2, (sizes[-5:], num_nodes)
mapped = {}
for line in Path("/proc/self/maps").read_text().splitlines():
    if line.endswith(".npy"):
        path = line[line.index("/"):]
        mapped[path] = np.load(path, mmap_mode="r").size
assert mapped and max(mapped.values()) < num_nodes / 2, (mapped, num_nodes)
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("strategy", ["plain", "cooperative", "sar"])
@pytest.mark.parametrize("kind", ["range", "hash", "table"])
def test_no_rank_has_an_entry_for_each_second_node(tmp_path, kind, strategy):
    """A grid whose nodes have an edge from the left and one from above, so that a part has nearly N / 2 edges."""
    if not sys.platform.startswith("linux"):
        pytest.skip("reads what Linux maps")
    ids = torch.arange(SIDE * SIDE).view(SIDE, SIDE)
    src = torch.cat([ids[:, :-1].flatten(), ids[:-1].flatten()])
    dst = torch.cat([ids[:, 1:].flatten(), ids[1:].flatten()])
    whole = hr.Graph.from_coo(src, dst)
    store = hr.FeatureStore(node={"x": torch.arange(SIDE * SIDE).float()[:, None]})
    hr.save_dataset(tmp_path / "data", whole, store, items={"train": torch.arange(0, SIDE * SIDE, 97)}, progress=False)
    strips = ids % SIDE // (SIDE // NUM_PARTS)
    partition = {
        "range": hr.Partition.range(whole.num_nodes, NUM_PARTS),
        "hash": hr.Partition.hash(whole.num_nodes, NUM_PARTS),
        "table": hr.Partition.of(strips.flatten(), NUM_PARTS),
    }[kind]
    hr.open_dataset(tmp_path / "data").partition(partition, tmp_path / "parts", whole=[], progress=False)
    run_processes(_RANK, NUM_PARTS, tmp_path / "meeting", str(tmp_path / "parts"), strategy)
