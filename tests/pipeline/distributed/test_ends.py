"""How programs end: threads end by themselves, and before the channels that they use."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ranks import run_processes

# Its processes have limits of their own, of which a test may need several.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


LEAVING = """
import sys, torch
import headrace as hr
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.run import shutdown
from plans import graph, items, store

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
plan = items(batch_size=7).sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"])
loader = plan.loader(cooperative=True, machine=Machine(cores=4))
for batch in loader:
    if batch.index == 3:
        break
shutdown._interrupt = lambda thread: print(f"{thread.name} did not end by itself", flush=True)
print("left", flush=True)
"""


def test_a_program_that_ends_in_the_midst_of_an_epoch_ends_at_once(tmp_path):
    """Its threads make what all ranks make, and stop behind it; those that wait for another one find out."""
    assert run_processes(LEAVING, 2, tmp_path / "meeting") == ["left\n"] * 2


def test_workers_end_before_channels_whatever_is_imported_first():
    script = """
import threading, time
import headrace.pipeline.distributed.comm, headrace.pipeline.run.prefetch_node
from headrace.pipeline.distributed.closing import closes_channels
from headrace.pipeline.run.shutdown import start_worker

def work():
    told.wait()
    time.sleep(0.3)
    print("worker")

told = threading.Event()
closes_channels(lambda: print("channels"))
closes_channels(lambda: 1 / 0)
start_worker(threading.Thread(target=work, daemon=True), told.set)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["worker", "channels"]
    assert "ZeroDivisionError" in result.stderr
