"""Cooperative batches: what the ranks hold together is the batch of one process, node by node and edge by edge."""

from __future__ import annotations

import pickle
import re
import time
from functools import cache
from threading import current_thread

import pytest
import torch
from ranks import assert_same_union, cooperative_batches, partition, run_ranks

import headrace as hr
from headrace.testing import LocalGroup

from plans import PLANS, graph, items, store

pytestmark = pytest.mark.slow

WORLD_SIZES = [2, 3, 4, 8]
SAMPLERS = {
    "neighbor": lambda plan: plan.sample_neighbor(graph(), [4, 3, 2]),
    "labor": lambda plan: plan.sample_layer_neighbor(graph(), [4, 3, 2]),
    "weighted": lambda plan: plan.sample_neighbor(graph(), [4, 3, 2], weight="weight"),
    "full": lambda plan: plan.sample_neighbor(graph(), [-1, -1]),
    "replace": lambda plan: plan.sample_neighbor(graph(), [4, 3], replace=True),
    "labor_dependent": lambda plan: plan.sample_layer_neighbor(graph(), [4, 3], layer_dependency=True, exact=False),
    "pinsage": lambda plan: plan.sample_pinsage(graph(), 3, num_walks=5, walk_length=2, num_layers=2),
    "in_subgraph": lambda plan: plan.sample_in_subgraph(graph()),
    "labor_1": lambda plan: plan.sample_layer_neighbor(graph(), [4, 3], importance=1),
    "labor_2": lambda plan: plan.sample_layer_neighbor(graph(), [4, -1], importance=2, edge_ids=False),
    "labor_star": lambda plan: plan.sample_layer_neighbor(graph(), [4, 3, 2], importance="*"),
    "labor_1_weighted": lambda plan: plan.sample_layer_neighbor(graph(), [4, 3], importance=1, weight="weight"),
    "labor_star_weighted": lambda plan: plan.sample_layer_neighbor(
        graph(), [4, 3], importance="*", weight="weight", layer_dependency=True
    ),
    "ladies": lambda plan: plan.sample_ladies(graph(), [20, 0, 30]),
    "pladies": lambda plan: plan.sample_ladies(graph(), [20, 30], poisson=True, layer_dependency=True),
    "ladies_weighted": lambda plan: plan.sample_ladies(graph(), [20, 30], weight="weight"),
    "pladies_weighted": lambda plan: plan.sample_ladies(graph(), [20, -1], weight="weight", poisson=True),
}
SEEDS = {
    "nodes": lambda: items(batch_size=40),
    "pairs": lambda: hr.ItemSampler(torch.arange(60).reshape(30, 2) % 37, batch_size=7, shuffle=True, seed=3),
    "repeated": lambda: hr.ItemSampler(torch.arange(90) % 13, batch_size=20, seed=3),
    "few": lambda: hr.ItemSampler(torch.tensor([3, 7, 5]), batch_size=2, seed=3),
}


KINDS = ["hash", "range", "metis", "table"]


@cache
def whole_batches(sampler: str, seeds: str) -> list[hr.MiniBatch]:
    """The batches of one process."""
    return list(SAMPLERS[sampler](SEEDS[seeds]()).loader())


@pytest.mark.combinations(40)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_union_is_the_batch_of_one_process(sampler, seeds, kind):
    """A Latin square: with each sampler, any two of seeds, partition and number of ranks come together once."""
    world_size = WORLD_SIZES[(list(SEEDS).index(seeds) + KINDS.index(kind)) % len(WORLD_SIZES)]
    owners = partition(kind, world_size)
    shares = cooperative_batches(SAMPLERS[sampler](SEEDS[seeds]()), world_size, partition=owners)
    for index, batch in enumerate(whole_batches(sampler, seeds)):
        assert_same_union(batch, [mine[index] for mine in shares], owners)


@pytest.mark.parametrize("switches", [{"fuse_sampling": False}, {"prefetch": False}, {"fuse_exchange": False}])
def test_other_passes_do_not_change_the_shares(switches):
    plan = SAMPLERS["labor"](SEEDS["nodes"]()).fetch_feature(store(), node=["x"], labels="y")
    with_them, without = (cooperative_batches(plan, 3, **options) for options in ({}, switches))
    for mine, other in zip(with_them, without, strict=True):
        assert [batch.digest() for batch in mine] == [batch.digest() for batch in other]


def test_features_arrive_at_the_sources_and_labels_at_the_seeds():
    plan = SAMPLERS["neighbor"](SEEDS["nodes"]()).fetch_feature(store(), node=["x"], edge=["e"], labels="y")
    for batches in cooperative_batches(plan, 4):
        for batch in batches:
            assert torch.equal(batch.x, store().node["x"].read(batch.n_id).rows)
            assert torch.equal(batch.n_id, batch.exchanges[0].wanted)
            assert torch.equal(batch.y, store().node["y"].read(batch.seeds).rows)
            for block, rows in zip(batch.blocks, batch.edge["e"], strict=True):
                assert torch.equal(rows, store().edge["e"].read(block.edge_ids).rows)


@pytest.mark.parametrize("fuse", [True, False])
def test_each_row_is_fetched_once(fuse):
    plan = SAMPLERS["neighbor"](SEEDS["nodes"]()).fetch_feature(store(), node=["x"])

    def fetched(comm):
        with plan.loader(cooperative=True, comm=comm, fuse_exchange=fuse) as loader:
            for _ in loader:
                pass
            return loader.stats().total("rows")

    assert sum(run_ranks(3, fetched)) == sum(len(batch.n_id) for batch in plan.loader())


def test_one_rank_communicates_nothing():
    plan = PLANS["neighbor"]()
    (batches,) = cooperative_batches(plan, 1)
    assert [batch.digest() for batch in batches] == [batch.digest() for batch in plan.loader()]
    assert not any(batch.exchanges for batch in batches)


@pytest.mark.parametrize("fanout", [1, 5, -1])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_rounds_depend_on_the_number_of_layers_alone(fanout, num_layers):
    plan = items(batch_size=40).sample_neighbor(graph(), [fanout] * num_layers).fetch_feature(store(), node=["x"])

    def counted(comm):
        with plan.loader(cooperative=True, comm=comm) as loader:
            num_batches = len(list(loader))
            return loader.stats().total("rounds") / num_batches, loader.stats().total("collectives") / num_batches

    # Ids of the seeds and of each layer, then one round of rows; a round of ids is two collectives, counts and ids.
    assert run_ranks(2, counted) == [(num_layers + 2, 2 * (num_layers + 1) + 1)] * 2


@pytest.mark.parametrize(
    ("sampler", "rounds", "collectives"),
    [
        (lambda plan: plan.sample_layer_neighbor(graph(), [4], importance=1), 3, 4),
        (lambda plan: plan.sample_layer_neighbor(graph(), [4], importance=3), 7, 8),
        (lambda plan: plan.sample_ladies(graph(), [20]), 6, 8),
        (lambda plan: plan.sample_ladies(graph(), [-1]), 5, 6),
        (lambda plan: plan.sample_ladies(graph(), [-1], poisson=True), 5, 6),
    ],
    ids=["labor_1", "labor_3", "ladies", "ladies_all", "pladies_all"],
)
@pytest.mark.parametrize("world_size", [2, 5])
def test_rounds_to_sample_together(sampler, rounds, collectives, world_size):
    """As documented, on every rank, and collectives as the channel counts them."""
    plan = sampler(items(batch_size=40))

    def counted(comm):
        with plan.loader(cooperative=True, comm=comm, prefetch=False) as loader:
            num_batches = len(list(loader))
            stats = loader.stats().lowered["sample_hop"]
            return stats["rounds"] / num_batches, stats["collectives"] / num_batches

    assert run_ranks(world_size, counted) == [(rounds, collectives)] * world_size


def test_hops_that_are_sampled_together_are_not_fused():
    def stages(comm):
        with SAMPLERS["labor_star"](items()).loader(cooperative=True, comm=comm) as loader:
            running, _ = loader.explain().split("plan as written")
        return [name for name in re.findall(r"^  (\w+)", running, re.MULTILINE) if name != "prefetch"]

    hop = ["sample_hop", "compact", "exchange_ids"]
    assert run_ranks(2, stages) == [["item_sampler", "exchange_ids", *hop * 3, "return_ids"]] * 2


def test_partitions_that_do_not_fit_are_refused():
    plan = PLANS["neighbor"]()

    def with_three_parts(comm):
        with pytest.raises(hr.PlanError, match="3 parts, but there are 2 ranks"):
            plan.loader(cooperative=True, comm=comm, partition=hr.Partition.hash(200, 3))

    run_ranks(2, with_three_parts)


def test_exchanges_check_their_partition_before_any_rank_waits():
    """No other rank has to come for the error."""
    x = hr.FeatureStore(node={"x": hr.ShardedFeature.of(torch.zeros(200, 1), hr.Partition.hash(200, 3), 0)})
    plan = items().sample_neighbor(graph(), [2]).fetch_feature(x, node="x")
    comm = LocalGroup(2, timeout=0.1).comms[0]
    with pytest.raises(hr.PlanError, match="fetch_feature: the shard of 'x' has 3 parts"):
        plan.loader(comm=comm)
    assert comm.num_collectives == 0


def test_several_workers_become_one():
    def rank(comm):
        threads = set()

        def noted(batch):
            threads.add(current_thread())
            time.sleep(0.01)
            return batch

        plan = items(batch_size=7).sample_neighbor(graph(), [2]).transform(noted).prefetch(workers=4)
        with plan.loader(cooperative=True, comm=comm) as loader:
            return len(list(loader)), len(threads)

    assert run_ranks(2, rank) == [(15, 1)] * 2


@pytest.mark.parametrize("depths", [(1, 1), (1, 3), (3, 1)])
def test_several_prefetches_overlap_and_end_together(depths):
    """Also when ranks leave in the midst of an epoch, in whatever state their threads then are."""
    first, last = depths
    plan = items(batch_size=7).prefetch(1, 2).sample_neighbor(graph(), [3]).prefetch(1, first)
    plan = plan.fetch_feature(store(), node=["x"]).prefetch(1, last)
    inline = items(batch_size=7).sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"])

    def work(comm):
        with plan.loader(cooperative=True, comm=comm) as loader:
            for stop in (0, 1, 4, 9):
                loader.set_epoch(0)
                for batch in loader:
                    if batch.index == stop:
                        break
                    time.sleep(0.002 * comm.rank)
            loader.set_epoch(0)
            iterator = iter(loader)
            next(iterator)
            del iterator  # nobody waits for its threads
            loader.set_epoch(0)
            return [batch.digest() for batch in loader]

    expected = cooperative_batches(inline, 3, prefetch=False)
    assert run_ranks(3, work) == [[batch.digest() for batch in mine] for mine in expected]


def test_an_error_ends_all_threads_between_prefetches():
    def error_of(comm):
        def fails(batch):
            if comm.rank == 1 and batch.index == 3:
                raise ValueError("batch three is out of order")
            return batch

        plan = items(batch_size=7).sample_neighbor(graph(), [3]).prefetch(1, 2)
        plan = plan.fetch_feature(store(), node=["x"]).transform(fails).prefetch(1, 2)
        with plan.loader(cooperative=True, comm=comm) as loader, pytest.raises((ValueError, hr.PeerError)) as raised:
            list(loader)
        return str(raised.value)

    for message in run_ranks(2, error_of):
        assert "batch three is out of order" in message


def test_copies_of_batches_exchange_nothing():
    (mine, _) = cooperative_batches(PLANS["neighbor"](), 2)
    copied = pickle.loads(pickle.dumps(mine[0]))  # noqa: S301
    assert copied.digest() == mine[0].digest()
    with pytest.raises(hr.PeerError, match="copied or pickled"):
        copied.exchange(1, torch.zeros(len(copied.exchanges[1].owned), 2))
