"""Rows that ranks of one machine keep for each other, in shared memory of CPUs in the place of that of GPUs."""

from __future__ import annotations

import inspect

import pytest
import torch
from ranks import run_processes
from tier_sizes import tier_sizes

import headrace as hr

from plans import graph, store

#: What each process begins with.
BEGIN = inspect.getsource(tier_sizes)
BEGIN += """
import gc, json, os, signal, sys, time, torch
import headrace as hr
rank, world_size, meeting, *arguments = sys.argv[1:]
rank, world_size = int(rank), int(world_size)
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
x = torch.randn(50, 3, generator=torch.Generator().manual_seed(2))
order = torch.randperm(50, generator=torch.Generator().manual_seed(1))

def tiers(*sizes, rows=x, num_devices=world_size):
    sizes, devices = tier_sizes(*sizes, num_devices=num_devices), [hr.Place("cuda", rank)]
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


ROWS = """
for sizes in ((3, 20, 9), (0, 50, 0), (0, 1, 0), (50, 0, 0), (0, 0, 50), (0, 0, 0)):
    kept = tiers(*sizes)
    ids = torch.randint(50, (200,), generator=torch.Generator().manual_seed(rank))
    for asked in (ids, torch.arange(50, dtype=torch.int32), ids[:0]):
        rows, counts = kept.read(asked)
        assert torch.equal(rows, x[asked.long()]), sizes
        ranks = order[asked.long()] - sizes[0]
        spread = (ranks >= 0) & (ranks < sizes[1])
        own = (ranks < 0) | (spread & (ranks % world_size == rank))
        assert counts.get("bytes_from_cuda", 0) == 12 * int(own.sum()), (sizes, counts)
        assert counts.get("bytes_from_peer", 0) == 12 * int((spread & ~own).sum()), (sizes, counts)
    kept.close()
assert "memfd" not in "".join(os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if
                              os.path.lexists(f"/proc/self/fd/{name}"))
"""


@pytest.mark.parametrize("world_size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_rows_are_those_of_the_plain_feature(world_size, tmp_path):
    run(ROWS, world_size, tmp_path)


REFUSED = """
print(refusal(lambda: tiers(3, 20, 0, rows=x + rank)))
print(refusal(lambda: tiers(3 + rank, 20, 0)))
print(refusal(lambda: tiers(3, 20, 0, num_devices=3)))
print(refusal(lambda: hr.TieredFeature(x, order, tier_sizes(3, 0, 0, 2), devices=[hr.Place("cuda")] * 2, peers=True)))
assert torch.equal(tiers(3, 20, 0).read(torch.arange(50)).rows, x)
"""


@pytest.mark.slow
def test_ranks_that_differ_are_refused_on_all(tmp_path):
    printed = run(REFUSED, 2, tmp_path)
    assert printed[0] == printed[1]
    rows, sizes, number, devices = printed[0].splitlines()
    assert "InputError: TieredFeature: expected the same rows on all ranks, got" in rows
    assert "expected the same sizes on all ranks, got [3, 20, 0, 2] on rank 0 and [4, 20, 0, 2] on rank 1" in sizes
    assert "expected 3 ranks on each machine, one for each device of the sizes, got 2, ranks 0, 1; pass" in number
    assert "expected the device of this rank alone with peers=True, got 2 devices and here=0" in devices


FAILING = """
class Broken(hr.FeatureSource):
    dtype, shape = x.dtype, x.shape

    def read(self, ids, *, num_threads=1, to=hr.Place("cpu")):
        if rank == 1:
            raise OSError("the disk is gone")
        return hr.Rows(x[ids], {})

    def content_digest(self):
        return "x"

try:
    tiers(3, 20, 0, rows=Broken())
except (OSError, hr.PeerError) as error:
    print(f"{type(error).__name__}: {error}")
assert torch.equal(tiers(3, 20, 0).read(torch.arange(50)).rows, x)  # ranks meet again
"""


@pytest.mark.slow
def test_a_rank_that_cannot_copy_its_rows_is_named(tmp_path):
    first, second = run(FAILING, 2, tmp_path)
    assert first.startswith("PeerError: TieredFeature: rank 1 could not share its rows, or open those of others:\n")
    assert "OSError: the disk is gone" in first
    assert second == "OSError: the disk is gone\n"


ENDED = """
kept = tiers(3, 20, 0)
torch.distributed.barrier()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
until = time.monotonic() + 60
while time.monotonic() < until:
    try:
        kept.read(torch.arange(50))
    except hr.PeerError as error:
        print(error)
        break
sys.stdout.flush()
os._exit(0)  # the group's threads wait for the rank that is gone
"""


def test_a_rank_that_has_ended_is_named(tmp_path):
    for rank, printed in enumerate(run(ENDED, 3, tmp_path, failing=True)):
        if rank != 1:
            assert printed.startswith("TieredFeature: rank")
            assert "rank 1 (process " in printed  # and perhaps one that ended as it was told
            assert "ended, and so did the memory" in printed


PLANNED = """
from plans import graph, items, store
machine = hr.Machine(gpus=1, gpu_memory=(4096 + 1024 * rank,), memory=1 << 20)
plan = hr.plan_tiers(store(), graph(), machine, node=["x"], peers=True)
kept = plan.apply(store(), stand_ins=True)
print(plan)
batches = items().sample_neighbor(graph(), [5, 3])
with batches.fetch_feature(kept, node=["x"]).loader() as loader:
    found = [batch.digest() for batch in loader]
    assert loader.stats()["fetch_feature"]["bytes_from_peer"]
with batches.fetch_feature(store(), node=["x"]).loader() as loader:
    assert found == [batch.digest() for batch in loader]
"""


@pytest.mark.slow
def test_a_plan_for_the_ranks_of_a_machine(tmp_path):
    """By the rank with the least memory; batches are those of the plain feature."""
    printed = run(PLANNED, 2, tmp_path)
    machine = hr.Machine(gpus=2, gpu_memory=(4096, 4096), memory=1 << 20)
    assert printed == [f"{hr.plan_tiers(store(), graph(), machine, node=['x'])}\n"] * 2
    assert "spread of 2" in printed[0]


def test_peers_take_a_job():
    sizes = tier_sizes(3, 0, 0, 1)
    with pytest.raises(hr.InputError, match=r"TieredFeature: expected torch\.distributed to be initialised"):
        hr.TieredFeature(torch.zeros(5, 2), torch.arange(5), sizes, stand_ins=True, peers=True)
    machine = hr.Machine(gpus=1, gpu_memory=(4096,))
    with pytest.raises(hr.InputError, match=r"plan_tiers: expected torch\.distributed to be initialised"):
        hr.plan_tiers(store(), graph(), machine, peers=True)
    with pytest.raises(hr.InputError, match="expected peers to be True or False, got int"):
        hr.plan_tiers(store(), graph(), machine, peers=2)


def test_without_peers_there_is_nothing_to_close():
    tiers = hr.TieredFeature(torch.ones(5, 2), torch.arange(5), tier_sizes(host=3))
    tiers.close()
    assert torch.equal(tiers.read(torch.arange(5)).rows, torch.ones(5, 2))
