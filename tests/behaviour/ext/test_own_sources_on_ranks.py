"""Sources of users on several ranks: those that share their batches by rank, others are refused by name."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from pair_source import PairSource
from ranks import run_ranks
from sharing_source import BATCH, NUM_ITEMS, Shares

import headrace as hr
from headrace import ext

from plans import NUM_NODES, graph


@dataclass(frozen=True, eq=False, repr=False)
class Delegates(ext.SourceStage):
    """Draws what a source of headrace draws, which shares it."""

    name = "delegates"
    seed: int = 5

    def source(self, settings):
        return hr.ItemSampler(NUM_ITEMS, batch_size=BATCH, seed=self.seed).source(settings)


@pytest.mark.parametrize("options", [{}, {"cooperative": True, "partition": hr.Partition.hash(NUM_NODES, 2)}])
def test_a_source_that_does_not_share_is_refused_on_ranks(options):
    match = (
        r"pair_source: expected a source that shares its batches among 2 ranks, .* write shares_by_rank = True in "
        r"PairSource .*, or make a loader of one rank, loader\(rank=0, world_size=1\)"
    )
    with pytest.raises(hr.PlanError, match=match):
        run_ranks(2, lambda comm: PairSource().loader(comm=comm, **options), timeout=20.0)
    if not options:
        with pytest.raises(hr.PlanError, match=match):
            PairSource().loader(rank=1, world_size=2)


def test_one_rank_alone_reads_all():
    assert len(list(PairSource().loader(rank=0, world_size=1))) == 2


def test_a_source_that_shares_has_each_seed_once():
    whole = list(Shares().loader())
    shares = [list(Shares().loader(rank=rank, world_size=3)) for rank in range(3)]
    for index, batch in enumerate(whole):
        mine = [share[index] for share in shares]
        assert torch.cat([one.seeds for one in mine]).sort().values.tolist() == batch.seeds.tolist()
        assert {one.num_global_seeds for one in mine} == {len(batch.seeds)}


@pytest.mark.parametrize("trees", [False, True])
def test_shares_have_the_edges_of_one_process(trees):
    plan = Shares().sample_neighbor(graph(), [3, 2], disjoint=trees)

    def edges(batch):
        return set(batch.e_id.tolist())

    def work(comm):
        with plan.loader(cooperative=True, comm=comm) as loader:
            return [edges(batch) for batch in loader]

    for whole, first, second in zip(plan.loader(), *run_ranks(2, work), strict=True):
        assert first | second == edges(whole)


def test_a_source_of_headrace_inside_shares():
    seeds = [next(iter(Delegates().loader(rank=rank, world_size=2))).seeds.tolist() for rank in range(2)]
    assert sorted(seeds[0] + seeds[1]) == list(range(BATCH))
