"""Edges by type and graphs with loops: each reduction is the same there, and what was replaced counts nowhere."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks
from sharded import NUM_TYPES, TOLERANCE, WIDTH, edge_index, edge_types, features, owners
from torch import Tensor

import headrace as hr

from plans import NUM_NODES, graph

CLOSE = {"rtol": TOLERANCE, "atol": TOLERANCE}
NUM_EDGES = graph().num_edges


def of_type(number: int, reduce: str, x: Tensor, weight: Tensor | None) -> Tensor:
    """What torch computes of the edges of one type, from a message for each."""
    chosen = edge_types() == number
    src, dst = edge_index()[:, chosen]
    of_edges = torch.ones(len(src), dtype=x.dtype) if weight is None else weight[chosen]
    of_edges = of_edges.view(*of_edges.shape, *(1 for _ in range(x.ndim - of_edges.ndim)))
    messages, out = x[src] * of_edges, torch.zeros_like(x)
    if reduce in ("max", "min"):
        places = dst.view(-1, 1, 1).expand_as(messages)
        return out.scatter_reduce(0, places, messages, f"a{reduce}", include_self=False)
    total = out.index_add(0, dst, messages)
    if reduce == "sum":
        return total
    sums = torch.zeros(NUM_NODES, *of_edges.shape[1:], dtype=x.dtype).index_add(0, dst, of_edges)
    return total / sums.masked_fill(sums == 0, 1)


@pytest.mark.parametrize("weighted", [None, "weights", "heads"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("world_size", [1, 3])
def test_each_reduction_of_edges_by_type(reduce, weighted, world_size):
    shape = (2,) if weighted == "heads" else ()
    given = [features(NUM_NODES, 2, 3), features(NUM_EDGES, *shape, seed=7).abs() + 0.1][: 2 if weighted else 1]
    alone = [one.clone().requires_grad_() for one in given]
    whole = torch.stack(
        [of_type(number, reduce, alone[0], alone[1] if weighted else None) for number in range(NUM_TYPES)]
    )
    weighting = features(NUM_TYPES, *whole.shape[1:], seed=9)
    (whole * weighting).sum().backward()

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("table", world_size), comm)
        typed = place.by_type(place.edge_rows(edge_types()), NUM_TYPES)
        own = [rows(one).requires_grad_() for rows, one in zip((place.rows, place.edge_rows), given, strict=False)]
        out = typed.aggregate(own[0], reduce=reduce, weight=own[1] if weighted else None)
        kinds, nodes = torch.arange(NUM_TYPES).repeat_interleave(torch.tensor(typed.sizes)), typed.destinations
        ids = place.owned[nodes]
        torch.testing.assert_close(out, whole[kinds, ids], **CLOSE)
        (out * weighting[kinds, ids]).sum().backward()
        for one, other, rows in zip(own, alone, (place.owned, place.edge_ids), strict=False):
            torch.testing.assert_close(one.grad, other.grad[rows], **CLOSE)

    run_ranks(world_size, work)


def looped_twice() -> tuple[hr.sar.ShardedGraph, hr.sar.ShardedGraph]:
    once = hr.sar.ShardedGraph(hr.Graph.from_coo([0, 0, 1, 2], [0, 1, 2, 2])).with_self_loops()
    return once, once.with_self_loops()


def test_what_was_replaced_before_counts_nowhere_either():
    once, twice = looped_twice()
    assert (once.num_edges, twice.num_edges) == (7, 10)
    assert twice.in_degrees().tolist() == once.in_degrees().tolist() == [1, 2, 2]
    for place in (once, twice):
        weight = torch.full((place.num_edges,), 2.0)
        assert place.sum_edges(weight).tolist() == [2.0, 4.0, 4.0]
        assert place.aggregate(torch.ones(3, 1), reduce="mean", weight=weight).tolist() == [[1.0]] * 3
        typed = place.by_type(torch.zeros(place.num_edges, dtype=torch.int64), 1)
        for reduce in ("mean", "max"):
            assert typed.aggregate(torch.ones(3, 1), reduce=reduce, weight=weight / 2).tolist() == [[1.0]] * 3
        assert torch.equal(typed.aggregate(torch.ones(3, 1))[:, 0], place.in_degrees().float())


def test_means_by_type_do_not_count_what_was_replaced():
    whole = hr.sar.ShardedGraph(hr.Graph.from_coo([0, 1, 0], [0, 0, 1]))
    place = whole.with_self_loops()
    x = torch.tensor([[2.0], [4.0]])
    typed = place.by_type(torch.zeros(place.num_edges, dtype=torch.int64), 1)
    assert typed.aggregate(x, reduce="mean").tolist() == [[3.0], [3.0]]
    # A type that replaced entries alone have has no group, and may be any.
    types = torch.zeros(place.num_edges, dtype=torch.int64)
    types[whole.self_loops] = 7
    typed = place.by_type(types, 2)
    assert typed.sizes == [2, 0]
    assert typed.aggregate(x, reduce="mean").tolist() == [[3.0], [3.0]]


@pytest.mark.parametrize("kind", ["GCNConv", "GATConv", "RGCNConv"])
def test_layers_of_pyg_on_a_graph_with_loops_compute_what_pyg_does(kind):
    pyg = pytest.importorskip("torch_geometric.nn")
    ends = edge_index()
    kept = ends[:, ends[0] != ends[1]]
    loops = torch.arange(NUM_NODES).repeat(2, 1)
    torch.manual_seed(1)
    of_edges, of_loops = {
        "GCNConv": (torch.full((NUM_EDGES,), 2.0), torch.full((NUM_NODES,), 2.0)),
        "GATConv": (features(NUM_EDGES, 3), features(NUM_NODES, 3, seed=8)),
        "RGCNConv": (edge_types(), torch.arange(NUM_NODES) % NUM_TYPES),
    }[kind]
    options = {"GCNConv": {}, "GATConv": {"edge_dim": 3}, "RGCNConv": {"num_relations": NUM_TYPES}}[kind]
    layer = getattr(pyg, kind)(WIDTH, 4, **options).double()
    of_edges, of_loops = (one.double() if one.is_floating_point() else one for one in (of_edges, of_loops))
    expected = layer(
        features(NUM_NODES, WIDTH), torch.cat([kept, loops], 1), torch.cat([of_edges[ends[0] != ends[1]], of_loops])
    ).detach()
    state = layer.state_dict()

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("table", 3), comm)
        own = getattr(pyg, kind)(WIDTH, 4, **options).double()
        own.load_state_dict(state)
        own = hr.sar.wrap(own, place)
        edges = torch.cat([place.edge_rows(of_edges), of_loops[place.owned]])
        out = own(place.rows(features(NUM_NODES, WIDTH)), place.with_self_loops(), edges)
        torch.testing.assert_close(out, expected[place.owned], **CLOSE)

    run_ranks(3, work)


def test_loops_may_be_added_again():
    """Sums, and gradients, over the same edges."""
    whole = hr.sar.ShardedGraph(graph())
    once = whole.with_self_loops()
    x = features(NUM_NODES, 2)
    assert torch.equal(once.with_self_loops().aggregate(x), once.aggregate(x))
    weight = torch.ones(once.with_self_loops().num_edges, dtype=x.dtype, requires_grad=True)
    once.with_self_loops().aggregate(x, reduce="mean", weight=weight).sum().backward()
    gone = torch.cat([whole.self_loops, once.self_loops])
    assert not weight.grad[gone].any()
