"""Rows that ranks of one machine keep for each other, in shared memory of CPUs in the place of that of GPUs."""

from __future__ import annotations

import pytest
from ranks import run_processes

#: What each process begins with.
BEGIN = """
import gc, json, os, signal, sys, time, torch
import headrace as hr
from headrace.ops import TierSizes
rank, world_size, meeting, *arguments = sys.argv[1:]
rank, world_size = int(rank), int(world_size)
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
x = torch.randn(50, 3, generator=torch.Generator().manual_seed(2))
order = torch.randperm(50, generator=torch.Generator().manual_seed(1))

def tiers(*sizes, rows=x, num_devices=world_size):
    sizes, devices = TierSizes(*sizes, num_devices=num_devices), [hr.Place("cuda", rank)]
    return hr.TieredFeature(rows, order, sizes, devices=devices, stand_ins=True, peers=True)

def refusal(make):
    try:
        make()
    except hr.HeadraceError as error:
        kinds = hr.InputError, hr.PlanError, hr.StateError, hr.PeerError, hr.HeadraceError
        return f"{next(kind for kind in kinds if isinstance(error, kind)).__name__}: {error}"
    raise AssertionError("nothing was refused")
"""


def run(program: str, world_size: int, tmp_path, **options) -> list[str]:
    return run_processes(BEGIN + program, world_size, tmp_path / "meeting", **options)


SHARED = """
kept = tiers(4, 46, 0)
if rank == 1:
    kept._shared[1][4] = -7.0  # no copy: others see what is written there
torch.distributed.barrier()
moved = int((order == 4 + 1).nonzero())
assert kept.read(torch.tensor([moved])).rows.tolist() == [[-7.0, -7.0, -7.0]]
maps = lambda: open("/proc/self/maps").read().count("memfd:headrace")
assert maps() == world_size
kept.close()
gc.collect()
assert maps() == 0
print(refusal(lambda: kept.read(torch.tensor([1]))))
"""


@pytest.mark.slow
def test_memory_is_shared_and_given_back(tmp_path):
    for printed in run(SHARED, 3, tmp_path):
        assert printed.startswith("InputError: TieredFeature: expected reads before close()")


NUMBERED = """
from headrace.pipeline.storage import peers
peers.gpu_name = lambda device: f"GPU {(int(device[-1]) + rank) % 2}"  # each sees its own first
print(refusal(lambda: tiers(3, 20, 0)))
"""


@pytest.mark.slow
def test_gpus_with_other_numbers_are_refused(tmp_path):
    first, second = run(NUMBERED, 2, tmp_path)
    assert "InputError: TieredFeature: expected cuda:1 to be the same GPU in all processes, got another one" in first
    assert "on rank 1; start all ranks with the same CUDA_VISIBLE_DEVICES" in first
    assert "expected cuda:0 to be the same GPU in all processes" in second


APART = """
from headrace.pipeline.storage import peers
peers.reaches = lambda device, table: rank == 0  # one GPU has no access to the other
print(refusal(lambda: tiers(3, 20, 0)))
"""


@pytest.mark.slow
def test_gpus_that_do_not_reach_each_other_are_refused_on_all_ranks(tmp_path):
    first, second = run(APART, 2, tmp_path)
    assert first.startswith("PeerError: TieredFeature: rank 1 could not share its rows, or open those of others:\n")
    _, _, message = second.strip().partition(": ")
    assert message.startswith("TieredFeature: expected cpu to read memory of cpu in place, that of rank 0")
    assert message in first
