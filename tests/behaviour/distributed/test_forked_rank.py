"""A process that a rank forks, as a tool may in a training loop, is no rank: it says nothing and waits for none."""

from __future__ import annotations

import json
import os

import pytest
from ranks import run_processes

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")]

RANKS = """
import json, os, signal, sys, time, warnings, torch
import headrace as hr
from plans import graph, items, store

warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside threads
rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)

def exchange(batch):
    return batch.exchange(1, torch.ones(len(batch.exchanges[1].owned), 4)).sum().item()

def status(child):
    until = time.monotonic() + 20.0
    while time.monotonic() < until:
        pid, code = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(code)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"

plan, seen, children, told = items().sample_neighbor(graph(), [4, 3]), [], [], []
with plan.loader(cooperative=True) as loader:
    for batch in loader:
        exchange(batch)
        if rank == 1 and batch.index in (2, 4):
            child = os.fork()
            if child == 0:
                if batch.index == 4:
                    try:
                        exchange(batch)
                    except hr.PeerError:
                        sys.exit(4)
                sys.exit(3)
            children.append(status(child))
        seen.append(batch.index)
print(json.dumps({"seen": seen, "children": children}), flush=True)
torch.distributed.destroy_process_group()
"""


def test_the_child_of_a_rank_ends_and_the_ranks_go_on(tmp_path):
    first, second = (json.loads(text) for text in run_processes(RANKS, 2, tmp_path / "meeting"))
    assert first["seen"] == second["seen"] == list(range(len(first["seen"])))
    assert len(first["seen"]) > 5
    assert second["children"] == [3, 4]
