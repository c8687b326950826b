"""Hops of users: what they choose becomes the blocks that headrace's samplers make."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import pytest
import torch
from ranks import cooperative_batches
from recent_sampler import BeginTrees, SampleRecent

import headrace as hr
from headrace import ext

from plans import graph, items, store, timed_graph, timed_items


@dataclass(frozen=True, eq=False, repr=False)
class All(ext.MapStage):
    """Takes all in-edges, in their order."""

    name = "all"
    num_hops = 1
    finds_by_node = True
    reads = frozenset({"n_id"})
    writes = frozenset({"n_id", "slot", "types", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    graph: hr.Graph

    def runner(self, settings):
        def run(batch):
            rows = self.graph.to_graph_ids(batch.n_id)
            start, degree = self.graph.indptr[rows], self.graph.indptr[rows + 1] - self.graph.indptr[rows]
            of = torch.arange(len(rows)).repeat_interleave(degree)
            positions = torch.arange(len(of)) + (start - degree.cumsum(0) + degree)[of]
            return ext.with_hop(batch, self.graph, degree, positions), {}

        return run


def digests(plan):
    return [batch.digest() for batch in plan.loader()]


@pytest.mark.parametrize("num_hops", [1, 2])
def test_blocks_are_those_of_headrace(num_hops):
    own = items()
    for _ in range(num_hops):
        own = own.then(All(graph()))
    like = items().sample_neighbor(graph(), [-1] * num_hops)
    fetched = [plan.fetch_feature(store(), node=["x"], edge=["e"], labels="y") for plan in (own, like)]
    assert digests(fetched[0]) == digests(fetched[1])
    first, second = (next(iter(plan.to_pyg().loader())) for plan in fetched)
    assert torch.equal(first.edge_index, second.edge_index)
    assert first.num_sampled_nodes == second.num_sampled_nodes


def test_blocks_in_trees_are_those_of_headrace():
    own = items().then(type("Begin", (BeginTrees,), {"reads": frozenset({"seeds"})})()).then(All(graph()))
    assert digests(own) == digests(items().sample_neighbor(graph(), [-1], disjoint=True))


def test_graphs_with_types_give_them_to_batches():
    over = typed_graph()
    source = hr.ItemSampler({"movie": torch.arange(20)}, batch_size=4, seed=1)
    own, like = source.then(All(over)).then(All(over)), source.sample_neighbor(over, [-1, -1])
    for batch, other in zip(own.loader(), like.loader(), strict=True):
        assert torch.equal(batch.n_id, other.n_id)
        for node_type in over.node_types.names:
            assert torch.equal(batch.types.places(node_type), other.types.places(node_type))
        for block, of_other in zip(batch.blocks, other.blocks, strict=True):
            assert torch.equal(block.edge_types.sort().values, of_other.edge_types.sort().values)
    assert next(iter(own.to_pyg().loader())).node_types == next(iter(like.to_pyg().loader())).node_types


def test_graphs_in_an_order_of_their_own():
    order = torch.randperm(graph().num_nodes, generator=torch.Generator().manual_seed(0))
    ordered = hr.reorder(graph(), order=order).graph
    assert ordered.node_ids is not None
    for batch, like in zip(items().then(All(ordered)).loader(), items().then(All(graph())).loader(), strict=True):
        assert batch.n_id.sort().values.tolist() == like.n_id.sort().values.tolist()
        assert batch.e_id.sort().values.tolist() == like.e_id.sort().values.tolist()


def edges_of_trees(batch):
    trees = batch.slot if batch.seed_slot is None else batch.seed_slot[batch.slot]
    return sorted(
        (number, tree, edge)
        for number, block in enumerate(batch.blocks)
        for tree, edge in zip(trees[block.edge_index[1]].tolist(), block.edge_ids.tolist(), strict=True)
    )


def test_without_decay_the_most_recent_are_those_of_headrace():
    source = hr.ItemSampler(60, time=torch.arange(60) / 2, batch_size=8, seed=1)
    own = source.then(SampleRecent(graph_of_edge_times(), (4, 3), 0.0))
    like = source.sample_neighbor(graph_of_edge_times(), [4, 3], time="time", strategy="last")
    for batch, other in zip(own.loader(), like.loader(), strict=True):
        assert edges_of_trees(batch) == edges_of_trees(other)


def graph_of_edge_times():
    """Times of edges that all differ: which of equal ones is the most recent nobody says."""
    times = graph().edge_ids.long() * 7919 % graph().num_edges / 40
    return dataclasses.replace(graph(), edge_attrs_csc={"time": times})


def typed_graph():
    generator = torch.Generator().manual_seed(0)
    users, movies = (torch.randint(most, (500,), generator=generator) for most in (60, 20))
    rates = ("user", "rates", "movie")
    return hr.Graph.from_coo({rates: (users, movies)}, num_nodes={"user": 60, "movie": 20}).with_reverse()


WRONG = {
    "degrees of int32": (
        {"degrees": torch.tensor([1, 1]).int()},
        r"degrees to be int64\[2\] in CPU memory, got int32\[2\]",
    ),
    "positions in a list": ({"positions": [1, 2]}, r"positions to be int64\[num_edges\] in CPU memory, got list"),
    "too few degrees": (
        {"degrees": torch.tensor([2])},
        "of each of the 2 n_id, 2 in all, got 1 numbers with the sum 2",
    ),
    "another sum": ({"degrees": torch.tensor([1, 2])}, "2 in all, got 2 numbers with the sum 3"),
    "below 0": ({"degrees": torch.tensor([3, -1])}, "got 2 numbers with the sum 2"),
    "of another node": (
        {"positions": torch.tensor([1, 0])},
        "positions of in-edges of their destinations, got 0 at 1, for node 2, whose in-edges are at 2 to 2",
    ),
    "beyond": ({"positions": torch.tensor([1, 9])}, "got 9 at 1, for node 2"),
    "weights": ({"weight": torch.ones(3)}, r"weight of float\[2\], got float32\[3\]"),
    "no graph": ({"graph": 3}, "with_hop: expected an hr.Graph, got int"),
}


@pytest.mark.parametrize("what", WRONG)
def test_refusals(what):
    changes, match = WRONG[what]
    small = hr.Graph.from_coo([1, 2, 0], [0, 0, 2], num_nodes=3)
    seeds = hr.MiniBatch.of_seeds(torch.tensor([0, 2]), epoch=0, index=0)
    right = {"graph": small, "degrees": torch.tensor([1, 1]), "positions": torch.tensor([1, 2])}
    assert ext.with_hop(seeds, **right).e_id.tolist() == [1, 2]
    with pytest.raises(hr.InputError, match=match):
        ext.with_hop(seeds, **(right | changes))


def test_a_shard_is_refused():
    shard = graph().shard(hr.Partition.hash(graph().num_nodes, 2), 0)
    with pytest.raises(hr.InputError, match="with_hop: expected a whole graph, got GraphShard"):
        ext.with_hop(
            hr.MiniBatch.of_seeds(torch.arange(1), epoch=0, index=0),
            shard,
            torch.zeros(1).long(),
            torch.zeros(0).long(),
        )


def decayed(plan):
    return [edges_of_trees(batch) for batch in plan.loader()]


def test_decay_keeps_edges_with_their_probabilities():
    """One destination with one edge in each of many trees: those of age a are kept with probability exp(-rate a)."""
    one = hr.Graph.from_coo([1], [0], num_nodes=2, edge_attrs={"time": [0.0]})
    ages = torch.arange(4.0).repeat(5_000)
    source = hr.ItemSampler(torch.zeros(len(ages), dtype=torch.int64), time=ages.double(), batch_size=2_000, seed=3)
    kept = torch.zeros(4)
    for batch in source.then(SampleRecent(one, (1,), 0.5)).loader():
        found = batch.slot[batch.blocks[0].edge_index[1]]
        kept += batch.seed_time[found].long().bincount(minlength=4)
    for age in range(4):
        p = math.exp(-0.5 * age)
        assert abs(kept[age] / 5_000 - p) <= 5 * math.sqrt(p * (1 - p) / 5_000)


@pytest.mark.slow
def test_ranks_have_the_trees_of_one_process():
    plan = timed_items().then(SampleRecent(timed_graph(), (4, 3), 0.02))
    whole = decayed(plan)
    shares = [decayed_of(plan, rank) for rank in range(3)]
    assert [sorted(edge for one in batches for edge in one) for batches in zip(*shares, strict=True)] == whole
    for index, batch in enumerate(plan.loader()):
        mine = [batches[index] for batches in cooperative_batches(plan, 2)]
        assert sorted(torch.cat([one.e_id for one in mine]).tolist()) == sorted(batch.e_id.tolist())


def decayed_of(plan, rank):
    return [edges_of_trees(batch) for batch in plan.loader(rank=rank, world_size=3)]
