"""What ranks that run one plan must agree about, and what is each rank's own."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks

import headrace as hr

from plans import graph, items, store_on_disk


def test_ranks_with_different_plans_are_refused():
    def load(comm):
        with pytest.raises(hr.PlanError, match="is not that of ranks"):
            items().sample_neighbor(graph(), [2 + comm.rank]).loader(cooperative=True, comm=comm)

    run_ranks(2, load)


def test_ranks_of_unlike_machines_agree():
    """Caches and windows are as large as a rank's memory allows, devices are its own, and a function may know it."""
    plan = items().sample_neighbor(graph(), [2]).fetch_feature(store_on_disk(), node=["x"], edge=["e"])

    def load(comm):
        machine = hr.Machine(cores=2, memory=(1 + comm.rank) << 20, world_size=2, rank=comm.rank)
        own = plan.transform(lambda batch: batch).copy_to(["cpu", "meta"][comm.rank])
        with own.loader(cooperative=True, comm=comm, machine=machine) as loader:
            return loader.explain()

    first, second = run_ranks(2, load)
    assert "bytes_in_view" in first
    assert first != second


@pytest.mark.parametrize("different", ["owners", "items"])
def test_ranks_with_different_data_are_refused(different):
    def load(comm):
        owners = torch.arange(200) % 2 if comm.rank or different == "items" else torch.arange(200) // 100
        seeds = torch.arange(comm.rank, 200, 2) if different == "items" else 200
        plan = hr.ItemSampler(seeds, batch_size=10, seed=0).sample_neighbor(graph(), [2])
        which = "owners" if different == "owners" else "data of item_sampler"
        with pytest.raises(hr.PlanError, match=rf"is not that of ranks \[\d\], by its {which}:"):
            plan.loader(cooperative=True, comm=comm, partition=hr.Partition.of(owners, 2))

    run_ranks(2, load)
