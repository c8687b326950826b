"""What sequential aggregation costs: rounds, rows that come again, bytes, and rows of others in memory."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from ranks import run_ranks
from sharded import features, owners
from torch import Tensor

import headrace as hr

from plans import NUM_NODES, graph

NUM_LAYERS = 3


def by_sum(place: hr.sar.ShardedGraph, x: Tensor) -> Tensor:
    return place.aggregate(x)


def by_mean(place: hr.sar.ShardedGraph, x: Tensor) -> Tensor:
    return place.aggregate(x, reduce="mean")


def by_max(place: hr.sar.ShardedGraph, x: Tensor) -> Tensor:
    return place.aggregate(x, reduce="max")


def by_constant_weights(place: hr.sar.ShardedGraph, x: Tensor) -> Tensor:
    return place.aggregate(x, weight=torch.ones(place.num_edges, dtype=x.dtype))


def by_weights(place: hr.sar.ShardedGraph, x: Tensor) -> Tensor:
    return place.aggregate(x, weight=torch.ones(place.num_edges, dtype=x.dtype, requires_grad=True))


def by_weights_of_maxima(place: hr.sar.ShardedGraph, x: Tensor) -> Tensor:
    weight = torch.ones(place.num_edges, dtype=x.dtype, requires_grad=True)
    return place.aggregate(x, reduce="max", weight=weight)


def by_attention(place: hr.sar.ShardedGraph, x: Tensor) -> Tensor:
    return place.attend(x[:, None], x[:, :1], x[:, 1:2])[:, 0]


def by_own_messages(place: hr.sar.ShardedGraph, x: Tensor) -> Tensor:
    return place.update_all(lambda source, destination, edge: source.tanh(), x)


WITHOUT_ROWS = [by_sum, by_mean, by_max, by_constant_weights]
WITH_ROWS = [by_weights, by_weights_of_maxima, by_attention, by_own_messages]


def train(comm: hr.Comm, layer, **options: object) -> tuple[hr.sar.ShardedGraph, int]:
    """Return the graph and what its counts said between the directions."""
    place = hr.sar.ShardedGraph(graph(), owners("hash", comm.world_size), comm, **options)
    h = place.rows(features(NUM_NODES, 4)).requires_grad_()
    for _ in range(NUM_LAYERS):
        h = layer(place, h) / 10
    kept = place.counts.live_rows
    h.sum().backward()
    del h
    gc.collect()
    return place, kept


def boundary(place: hr.sar.ShardedGraph) -> list[int]:
    """Rows of each other rank that this rank receives: those its edges begin in, or all if that is almost all."""
    whole = graph()
    owner = owners("hash", place.world_size).owner(torch.arange(NUM_NODES))
    destinations = torch.arange(NUM_NODES).repeat_interleave(whole.in_degrees())
    sources = whole.indices[owner[destinations] == place.rank].long().unique()
    counts = torch.bincount(owner[sources], minlength=place.world_size)
    sizes = torch.bincount(owner, minlength=place.world_size)
    received = torch.where(counts >= 15 / 16 * sizes, sizes, counts).tolist()
    del received[place.rank]
    return received


@pytest.mark.slow
@pytest.mark.combinations(7)
@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize("layer", WITHOUT_ROWS + WITH_ROWS)
def test_rows_come_again_only_where_gradients_depend_on_them(layer, prefetch, world_size):
    for place, kept in run_ranks(world_size, lambda comm: train(comm, layer, prefetch=prefetch)):
        again = NUM_LAYERS * (world_size - 1) if layer in WITH_ROWS else 0
        assert place.counts.refetches == again
        assert place.counts.rounds == 2 * NUM_LAYERS * (world_size - 1) + again
        assert kept == place.counts.live_rows == 0
        if world_size > 1:
            assert 0 < place.counts.most_live_rows <= max(boundary(place)) * (1 + prefetch)
            if prefetch and world_size > 2:
                assert place.counts.most_live_rows > max(boundary(place))


@pytest.mark.slow
@pytest.mark.combinations(6)
@pytest.mark.parametrize("layer", WITHOUT_ROWS + WITH_ROWS)
@pytest.mark.parametrize("mode", ["sequential", "one-shot"])
def test_other_modes_keep_rows_and_fetch_none_again(mode, layer):
    for place, kept in run_ranks(3, lambda comm: train(comm, layer, mode=mode)):
        assert place.counts.refetches == 0
        assert kept == place.counts.most_live_rows == NUM_LAYERS * sum(boundary(place))
        assert place.counts.live_rows == 0
        per_layer = 2 if mode == "one-shot" else 4
        assert place.counts.rounds == NUM_LAYERS * per_layer


@pytest.mark.slow
def test_bytes_are_those_of_boundary_rows():
    """Rows forward, gradients back; half as much again where rows come again (SAR: 3 to 2)."""
    for layer, times in ((by_sum, 2), (by_weights, 3)):
        places = [place for place, _ in run_ranks(3, lambda comm, layer=layer: train(comm, layer))]
        num_rows = sum(sum(boundary(place)) for place in places)
        assert sum(place.counts.sent_bytes for place in places) == times * NUM_LAYERS * num_rows * 4 * 8


def test_rows_go_in_pieces():
    """What is copied to be sent is a piece; pieces are as many on all ranks, also where there is nothing to send."""

    def collectives(comm: hr.Comm, **options: object) -> tuple[Tensor, int, int]:
        place = hr.sar.ShardedGraph(graph(), owners("table", 3), comm, **options)
        x = place.rows(features(NUM_NODES, 2048)).requires_grad_()
        before = comm.num_collectives
        out = place.aggregate(x)
        between = comm.num_collectives
        out.sum().backward()
        return torch.cat([out.detach(), x.grad]), between - before, comm.num_collectives - between

    whole = run_ranks(3, lambda comm: collectives(comm, prefetch=1))
    pieces = run_ranks(3, collectives)
    for (expected, *_), (found, *_) in zip(whole, pieces, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert {tuple(counts) for _, *counts in whole} == {(2, 2)}
    ((forward, backward),) = {tuple(counts) for _, *counts in pieces}
    assert min(forward, backward) > 10


def test_who_needs_almost_all_rows_gets_them():
    """All but one of 32 rows may be sent as they are; half of them are gathered. Gradients add up in both cases."""
    nodes = torch.arange(32)
    for needed in (31, 16, 32):
        src = nodes[:needed].repeat(2)  # to a node of the other rank, and to themselves
        whole = hr.Graph.from_coo(src, torch.cat([nodes[:needed] + 32, nodes[:needed]]), num_nodes=64)

        def work(comm: hr.Comm, whole: hr.Graph = whole) -> tuple[Tensor, Tensor]:
            place = hr.sar.ShardedGraph(whole, hr.Partition.range(64, 2), comm)
            x = place.rows(torch.arange(64.0)).requires_grad_()
            out = place.aggregate(x)
            out.sum().backward()
            return out.detach(), x.grad

        (own, gradient), (out, _) = run_ranks(2, work)
        assert own.tolist() == out.tolist() == [*range(needed), *[0] * (32 - needed)]
        assert gradient.tolist() == [2.0] * needed + [0.0] * (32 - needed)


def test_inference_keeps_nothing_and_counts_can_begin_anew():
    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 3), comm, mode="one-shot")
        with torch.no_grad():
            place.aggregate(place.rows(features(NUM_NODES, 4)))
        assert place.counts.live_rows == 0
        assert place.counts.rounds == 1
        place.counts.reset()
        assert place.counts == hr.sar.Counts()

    run_ranks(3, work)


def test_rows_that_somebody_holds_count():
    counts = hr.sar.Counts()
    rows = torch.zeros(5, 2)
    counts.watch(rows)
    view = rows[1:3]
    del rows
    assert (counts.live_rows, counts.most_live_rows) == (5, 5)
    del view
    assert (counts.live_rows, counts.most_live_rows) == (0, 5)


def test_the_part_that_a_graph_is_made_of_is_given_back():
    """It has an index of all nodes, of which a rank keeps nothing but its own."""

    def work(comm: hr.Comm) -> None:
        part = graph().shard(owners("hash", 3), comm.rank)
        kept = weakref.ref(part), weakref.ref(part.indptr), weakref.ref(part.indices)
        place = hr.sar.ShardedGraph(part, comm=comm)
        del part
        gc.collect()
        assert [one() for one in kept] == [None] * 3
        assert place.num_dst == len(place.owned)

    run_ranks(3, work)
