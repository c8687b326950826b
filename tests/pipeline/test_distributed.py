"""Rank and world size come from torch.distributed when it is initialised; the shares of the ranks make up the batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from plans import items

SCRIPT = """
import json, sys, torch
from plans import PLANS
rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
loader = PLANS["neighbor"]().loader()
json.dump([[batch.seeds.tolist(), batch.num_global_seeds] for batch in loader], sys.stdout)
torch.distributed.destroy_process_group()
"""


def test_ranks_of_a_process_group(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(rank), "2", str(tmp_path / "meeting")],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    shares = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    whole = list(items().loader())
    assert len(shares[0]) == len(shares[1]) == len(whole)
    for batch, first, second in zip(whole, *shares, strict=True):
        assert torch.equal(torch.tensor(first[0] + second[0]), batch.seeds)
        assert first[1] == second[1] == len(batch.seeds)
