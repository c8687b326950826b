"""Steps that repeat need no agreement of ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ranks import run_processes

STEADY = """
import json, sys, torch
import headrace as hr
from headrace.pipeline.distributed.comm import world_comm
from sharded_parting import train

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
comm, counts = world_comm(), []
for steps in (3, 9):
    comm.begin()
    before = comm._num_meetings, comm.num_collectives
    train(comm, steps=steps)
    counts.append((comm._num_meetings - before[0], comm.num_collectives - before[1]))
print(json.dumps(counts), flush=True)
torch.distributed.destroy_process_group()
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_steps_that_repeat_need_no_agreement(tmp_path: Path):
    for text in run_processes(STEADY, 2, tmp_path / "meeting"):
        (meetings, few), (more_meetings, many) = json.loads(text)
        assert more_meetings == meetings > 0
        assert many > 2 * few
