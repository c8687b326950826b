"""Messages over shards: values, gradients, ties and dropout are those of the kernels on the whole graph."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest
import torch
from part_files import write
from ranks import run_ranks
from sharded import PARTITIONS, TOLERANCE, features, owners

import headrace as hr

from plans import NUM_NODES, graph

CLOSE = {"rtol": TOLERANCE, "atol": TOLERANCE}
NUM_EDGES = graph().num_edges
EVERYWHERE = [*((mode, prefetch) for mode in ("sar", "sequential") for prefetch in (0, 1)), ("one-shot", 0)]


def by_csc(values: torch.Tensor) -> torch.Tensor:
    """Values of edges in the order of the whole CSC."""
    return values[graph().edge_ids.long()]


def to_ids(values: torch.Tensor) -> torch.Tensor:
    """Values of edges in the order of the whole CSC, in that of their ids."""
    return torch.empty_like(values).index_copy(0, graph().edge_ids.long(), values)


def whole_block() -> hr.Block:
    """All edges in one block, which one process aggregates."""
    whole = graph()
    return hr.Block(whole.indptr, whole.indices, NUM_NODES, NUM_NODES, edge_ids=whole.edge_ids.long())


def reduced(reduce: str, x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    """What one process computes, weights by edge id."""
    whole = graph()
    if weight is not None and reduce == "mean":
        sums = torch.zeros(NUM_NODES, *weight.shape[1:], dtype=x.dtype)
        rows = torch.arange(NUM_NODES).repeat_interleave(whole.in_degrees())
        sums = sums.index_add(0, rows, by_csc(weight))
        total = whole_block().aggregate(x, weight=by_csc(weight))
        return total / sums.masked_fill(sums == 0, 1).view(*sums.shape, *(1 for _ in range(x.ndim - sums.ndim)))
    edges = None if weight is None else by_csc(weight)
    return whole_block().aggregate(x, reduce=reduce, weight=edges)


def compared(world_size: int, kind: str, expected: Any, call: Any, inputs: dict, **options: object) -> None:
    """Compare values and gradients of ``expected(**inputs)`` and of ``call(place, **rows of inputs)``."""
    alone = {name: value.clone().requires_grad_() for name, value in inputs.items()}
    whole = expected(**alone)
    weighting = features(NUM_NODES, *whole.shape[1:], seed=9)
    (whole * weighting).sum().backward()

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners(kind, world_size), comm, **options)
        own = {
            name: (place.edge_rows if len(value) == NUM_EDGES else place.rows)(value).requires_grad_()
            for name, value in inputs.items()
        }
        out = call(place, **own)
        torch.testing.assert_close(out, whole[place.owned], **CLOSE)
        (out * place.rows(weighting)).sum().backward()
        for name, value in alone.items():
            ids = place.edge_ids if len(value) == NUM_EDGES else place.owned
            torch.testing.assert_close(
                own[name].grad, value.grad[ids], **CLOSE, msg=lambda m, name=name: f"{name}: {m}"
            )

    run_ranks(world_size, work)


@pytest.mark.parametrize("weighted", [None, "weights", "heads"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("world_size", [1, 3])
def test_aggregate(reduce, weighted, world_size):
    check_aggregate(reduce, weighted, world_size, "table")


@pytest.mark.combinations(8)
@pytest.mark.slow
@pytest.mark.parametrize(("mode", "prefetch"), EVERYWHERE)
@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("world_size", [2, 4, 8])
def test_aggregate_everywhere(world_size, kind, mode, prefetch):
    for reduce in ("mean", "max"):
        for weighted in (None, "heads"):
            check_aggregate(reduce, weighted, world_size, kind, mode=mode, prefetch=prefetch)


def check_aggregate(reduce: str, weighted: str | None, world_size: int, kind: str, **options: object) -> None:
    inputs = {"x": features(NUM_NODES, 2, 3)}
    if weighted is not None:
        inputs["weight"] = features(NUM_EDGES, *((2,) if weighted == "heads" else ()), seed=7).abs() + 0.1

    def expected(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
        return reduced(reduce, x, weight)

    def call(place: hr.sar.ShardedGraph, x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
        return place.aggregate(x, reduce=reduce, weight=weight)

    compared(world_size, kind, expected, call, inputs, **options)


@pytest.mark.parametrize("kind", PARTITIONS)
def test_parts_on_disk_are_enough(tmp_path, kind):
    """No rank has the whole graph, nor knows where the nodes of others are."""
    path = write(tmp_path / "parts", graph(), owners(kind, 3))
    x = features(NUM_NODES, 4)
    expected = whole_block().aggregate(x, reduce="mean")

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(hr.open_dataset(path, rank=comm.rank).graph, comm=comm)
        apart = hr.sar.ShardedGraph(graph(), owners(kind, 3), comm)
        torch.testing.assert_close(place.aggregate(place.rows(x), reduce="mean"), expected[place.owned], **CLOSE)
        for one, other in ((place.in_degrees(), apart.in_degrees()), (place.out_degrees(), apart.out_degrees())):
            assert torch.equal(one, other)

    run_ranks(3, work)


@pytest.mark.parametrize("largest", [True, False])
def test_among_equal_messages_the_first_edge_of_the_whole_graph_wins(largest):
    """So gradients do not depend on the shards. Integers, and few of them: most destinations have ties."""
    reduce = "max" if largest else "min"
    tied = {"x": (features(NUM_NODES, 4) * 2).round().abs()}
    assert len(tied["x"].unique()) < 10
    for world_size in (1, 2, 5):
        compared(
            world_size,
            "hash",
            lambda x: reduced(reduce, x, None),
            lambda place, x: place.aggregate(x, reduce=reduce),
            tied,
        )


def attended(x, source, destination, edge=None, *, dropout=0.0):
    edge_scores = None if edge is None else by_csc(edge)
    return whole_block().attend(x, source, destination, edge_scores=edge_scores, slope=0.1, dropout=dropout, key=5)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("world_size", [1, 3])
def test_attend(world_size, edges, dropout):
    check_attend(world_size, "table", edges, dropout)


@pytest.mark.combinations(18)
@pytest.mark.slow
@pytest.mark.parametrize(("mode", "prefetch"), EVERYWHERE)
@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("world_size", [2, 4, 8])
def test_attend_everywhere(world_size, kind, mode, prefetch):
    check_attend(world_size, kind, True, 0.3, mode=mode, prefetch=prefetch)


def check_attend(world_size: int, kind: str, edges: bool, dropout: float, **options: object) -> None:
    inputs = {
        "x": features(NUM_NODES, 2, 3),
        "source": features(NUM_NODES, 2, seed=4) * 5,
        "destination": features(NUM_NODES, 2, seed=5) * 5,
    }
    if edges:
        inputs["edge"] = features(NUM_EDGES, 2, seed=6) * 5

    def call(place, x, source, destination, edge=None):
        return place.attend(x, source, destination, edge_scores=edge, slope=0.1, dropout=dropout, key=5)

    compared(world_size, kind, lambda **all_of: attended(**all_of, dropout=dropout), call, inputs, **options)


def test_loops_are_added_once_to_each_node():
    whole = graph()
    loops = whole.indices == torch.arange(NUM_NODES).repeat_interleave(whole.in_degrees())
    assert loops.any()
    src = torch.cat([whole.indices[~loops], torch.arange(NUM_NODES)])
    dst = torch.cat([torch.arange(NUM_NODES).repeat_interleave(whole.in_degrees())[~loops], torch.arange(NUM_NODES)])
    looped = hr.Graph.from_coo(src, dst, num_nodes=NUM_NODES)

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(whole, owners("table", 3), comm)
        added = place.with_self_loops()
        assert added is place.with_self_loops()
        x = features(NUM_NODES, 4)
        expected = hr.Block(looped.indptr, looped.indices, NUM_NODES, NUM_NODES).aggregate(x)
        torch.testing.assert_close(added.aggregate(place.rows(x)), expected[place.owned], **CLOSE)
        assert torch.equal(added.in_degrees(), looped.in_degrees()[place.owned])
        assert torch.equal(added.out_degrees(), torch.bincount(looped.indices, minlength=NUM_NODES)[place.owned])
        weight = torch.rand(added.num_edges, dtype=torch.float64)
        both = added.sum_edges(weight), added.aggregate(torch.ones(place.num_src, 1).double(), weight=weight)[:, 0]
        torch.testing.assert_close(*both, **CLOSE)  # entries of loops that were replaced count in neither
        assert added.each_has_edges
        assert (
            added.edge_ids[-place.num_dst :].tolist() == (whole.num_edges + place.owned).tolist() or not place.num_dst
        )

    run_ranks(3, work)


def test_layers_find_what_they_ask_a_graph_for():
    for name in ("aggregate", "attend"):
        asked, found = (inspect.signature(getattr(kind, name)) for kind in (hr.Block, hr.sar.ShardedGraph))
        assert asked == found
    place = hr.sar.ShardedGraph(graph())
    assert (place.num_src, place.num_dst, place.num_edges) == (NUM_NODES, NUM_NODES, NUM_EDGES)


def test_rows_degrees_and_attributes():
    whole = graph()

    def work(comm: hr.Comm) -> torch.Tensor:
        place = hr.sar.ShardedGraph(whole, owners("table", 3), comm)
        assert torch.equal(place.owned, owners("table", 3).owned(comm.rank))
        assert torch.equal(place.in_degrees(), whole.in_degrees()[place.owned])
        assert torch.equal(place.out_degrees(), torch.bincount(whole.indices, minlength=NUM_NODES)[place.owned])
        assert torch.equal(place.edge_attrs["weight"], place.edge_rows(whole.edge_attrs["weight"]))
        assert torch.equal(place.rows(features(NUM_NODES, 2).numpy()), features(NUM_NODES, 2)[place.owned])
        assert place.total(comm.rank + 1) == 6
        assert not place.each_has_edges
        assert f"rank {comm.rank} of 3" in repr(place)
        assert copy.deepcopy(place) is place
        with pytest.raises(hr.InputError, match="cannot be pickled"):
            pickle.dumps(place)
        return place.edge_ids

    assert torch.cat(run_ranks(3, work)).sort().values.tolist() == list(range(whole.num_edges))


def test_a_part_of_the_graph_serves_as_well():
    whole, parts = graph(), owners("hash", 2)

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(whole.shard(parts, comm.rank), comm=comm)
        x = features(NUM_NODES, 4)
        for on in (place, place.to("cpu")):
            torch.testing.assert_close(on.aggregate(on.rows(x)), reduced("sum", x, None)[on.owned], **CLOSE)

    run_ranks(2, work)


def test_ranks_that_say_different_things_are_told():
    def work(comm: hr.Comm) -> None:
        with pytest.raises(hr.InputError, match="one graph, partition, mode and prefetch on all ranks"):
            hr.sar.ShardedGraph(graph(), owners("hash", 2), comm, prefetch=comm.rank)
        with pytest.raises(hr.InputError, match="expected a partition"):
            hr.sar.ShardedGraph(graph(), comm=comm)

    run_ranks(2, work)


def test_single_precision_and_no_gradients():
    x = features(NUM_NODES, 4).float()

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 3), comm)
        with torch.no_grad():
            out = place.aggregate(place.rows(x), reduce="mean")
        torch.testing.assert_close(out, reduced("mean", x, None)[place.owned], rtol=1e-5, atol=1e-5)
        # Raw features need no gradient, and none is sent.
        rows = place.rows(x)
        weight = torch.ones(place.num_edges, requires_grad=True)
        place.aggregate(rows, weight=weight).sum().backward()
        sent, place.counts.sent_bytes = place.counts.sent_bytes, 0
        place.aggregate(rows).mul(torch.ones((), requires_grad=True)).sum().backward()
        assert place.counts.sent_bytes == sent / 3  # rows three times until then: twice forward, once more for weights

    run_ranks(3, work)


def test_gradients_flow_back_to_tables():
    """As those of embeddings of all nodes, of which each rank has its own share of the gradient."""
    tables = {"rows": features(NUM_NODES, 4), "edge_rows": features(NUM_EDGES, 2)}

    def work(comm: hr.Comm) -> list[torch.Tensor | None]:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 3), comm)
        gradients = []
        for name, values in tables.items():
            table = values.clone().requires_grad_()
            getattr(place, name)(table).square().sum().backward()
            gradients.append(table.grad)
        return gradients

    for values, *shares in zip(tables.values(), *run_ranks(3, work), strict=True):
        assert torch.equal(sum(shares), 2 * values)


def test_edges_by_type_are_made_once():
    place = hr.sar.ShardedGraph(graph())
    types = torch.arange(place.num_edges) % 3
    typed = place.by_type(types, 3)
    assert place.by_type(types, 3) is typed
    assert sum(typed.sizes) == len(typed.destinations)
    types[0] = 2
    assert place.by_type(types, 3) is not typed
