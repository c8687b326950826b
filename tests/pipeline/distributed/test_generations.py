"""Ranks meet and agree on new groups, also when one of them fails meanwhile."""

from __future__ import annotations

import json
import threading
import time

import pytest
from ranks import run_processes

import headrace as hr
from headrace.testing import LocalGroup

# Its processes have limits of their own, of which a test may need several.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


LATE = """
import json, sys, time, torch
import headrace as hr
from headrace.pipeline.distributed.comm import world_comm

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
comm = world_comm()

class Slow:
    \"\"\"The job's store, as rank 1 sees it: when all have arrived, a thread of its own fails before it looks on.\"\"\"

    def __init__(self, store):
        self.store, self.late = store, rank == 1

    def __getattr__(self, name):
        return getattr(self.store, name)

    def add(self, key, value):
        arrived = self.store.add(key, value)
        if self.late and "begin" in key and arrived == world_size:
            self.late = False
            time.sleep(1.0)  # the others have looked by now
            comm.fail("a thread of rank one is out of order")
        return arrived

comm._generations.store, heard = Slow(comm._generations.store), ""
comm.begin()
try:
    if rank == 0:
        comm.all_gather(rank)
except hr.PeerError as error:
    heard = str(error)
comm.begin()
json.dump([heard, comm.all_gather(rank)], sys.stdout)
"""


def test_ranks_agree_on_new_groups_when_one_fails_as_they_meet(tmp_path):
    """The failure is not forgotten with those before the meeting, and the next meeting mends the channel."""
    texts = run_processes(LATE, 2, tmp_path / "meeting", failing=True)
    (heard, ranks), (_, same) = (json.loads(text) for text in texts)
    assert heard == "rank 1 failed:\na thread of rank one is out of order"
    assert ranks == same == [0, 1]


def test_threads_as_ranks_hear_of_a_failure_as_they_meet():
    first, second = LocalGroup(2, timeout=20.0).comms
    waiting = threading.Thread(target=first.begin)
    waiting.start()
    while not first._shared.meetings:
        time.sleep(0.01)
    first.fail("a thread of rank zero is out of order")
    second.begin()
    waiting.join()
    with pytest.raises(hr.PeerError, match="rank 0 failed:\na thread of rank zero"):
        second.all_gather(1)
