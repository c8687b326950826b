"""Layers over shards under torch.autocast: products in bfloat16, aggregations in float32, as those of hr.nn."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ranks import run_ranks
from sharded import NUM_TYPES, WIDTH, edge_types, features, owners
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

pyg = pytest.importorskip("torch_geometric.nn")


def of_edges(width: int) -> Tensor:
    return features(graph().num_edges, width, seed=6).float()


def weights() -> Tensor:
    return of_edges(1)[:, 0].abs() + 0.1


#: A layer, and what it takes of edges.
LAYERS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor] | None]] = {
    "SAGE": (lambda: pyg.SAGEConv(WIDTH, 8), None),
    "SAGE narrow": (lambda: pyg.SAGEConv(WIDTH, 4, aggr="sum", normalize=True), None),
    "SAGE max": (lambda: pyg.SAGEConv(WIDTH, 8, aggr="max"), None),
    "GCN": (lambda: pyg.GCNConv(WIDTH, 8), None),
    "GCN weights": (lambda: pyg.GCNConv(WIDTH, 8), weights),
    "GAT": (lambda: pyg.GATConv(WIDTH, 4, heads=2, residual=True), None),
    "GAT of edges": (lambda: pyg.GATConv(WIDTH, 4, heads=2, edge_dim=3), lambda: of_edges(3)),
    "RGCN": (lambda: pyg.RGCNConv(WIDTH, 8, NUM_TYPES), edge_types),
    "RGCN blocks": (lambda: pyg.RGCNConv(WIDTH, 8, NUM_TYPES, num_blocks=2, aggr="max"), edge_types),
    "ours": (lambda: hr.nn.GATConv(WIDTH, 4, 2, add_self_loops=False), None),
}


def train(
    world_size: int, call: Callable[..., Tensor], model: nn.Module, casts: bool, *, narrow: bool = False, **options: Any
) -> list[Tensor]:
    """Return outputs and the gradients of rows, of all nodes, and the gradients of parameters."""

    def work(comm: hr.Comm) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        place = hr.sar.ShardedGraph(graph(), owners("hash", world_size), comm, **options)
        own = hr.sar.wrap(copy.deepcopy(model), place)
        x = place.rows(features(NUM_NODES, WIDTH).bfloat16().float()).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=casts):
            # Narrow rows are what a linear layer before gives. Of leaves autocast keeps casts until any thread, here
            # that of another rank, leaves it: how often they are cast, and gradients rounded, would be chance.
            out = call(own, x.bfloat16() if narrow and casts else x.clone(), place).float()
        (out * place.rows(features(NUM_NODES, out.shape[1], seed=8)).float()).sum().backward()
        hr.sum_gradients(own, comm)
        return place.owned, [out.detach(), x.grad], [one.grad for one in own.parameters()]

    shares = run_ranks(world_size, work)
    tables = [torch.zeros(NUM_NODES, one.shape[1]) for one in shares[0][1]]
    for owned, rows, _ in shares:
        for table, some in zip(tables, rows, strict=True):
            table[owned] = some
    assert all(one.dtype == torch.float32 for one in shares[0][2])
    return [*tables, *shares[0][2]]


def assert_close(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for one, exact in zip(found, expected, strict=True):
        scale = float(exact.abs().max())
        assert torch.allclose(one, exact, rtol=0, atol=tolerance * scale), float((one - exact).abs().max()) / scale


def layer_of(kind: str) -> tuple[nn.Module, Callable[..., Tensor]]:
    torch.manual_seed(0)
    make, edge = LAYERS[kind]
    return make(), lambda own, x, place: own(x, place, *(() if edge is None else (place.edge_rows(edge()),)))


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("narrow", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("kind", LAYERS)
def test_outputs_and_gradients_are_those_of_float32_but_for_rounding(kind, narrow, world_size):
    layer, call = layer_of(kind)
    exact, rounded = (train(world_size, call, layer, casts, narrow=narrow) for casts in (False, True))
    assert_close(rounded, exact, 0.03)


def test_transformed_rows_that_are_computed_anew_are_rounded_as_they_were():
    layer, call = layer_of("GAT")
    anew, kept = (train(2, call, layer, True, mode=mode) for mode in ("sar", "sequential"))
    assert_close(anew, kept, 1e-6)


def test_degrees_are_counted_exactly():
    """In bfloat16 257 is 256."""
    hub = hr.Graph.from_coo(torch.arange(256), torch.full((256,), 256), num_nodes=257)
    layer = pyg.GCNConv(2, 1, bias=False)
    nn.init.ones_(layer.lin.weight)
    layer = hr.sar.wrap(layer, place := hr.sar.ShardedGraph(hub))
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(torch.ones(257, 2).bfloat16(), place)
    assert torch.allclose(out, layer(torch.ones(257, 2), place), rtol=1e-6)


def test_what_is_narrow_is_reduced_in_float32_to_the_bit():
    place = hr.sar.ShardedGraph(graph())
    typed = place.by_type(place.edge_rows(edge_types()), NUM_TYPES)
    x, weight = features(NUM_NODES, 2, 4).bfloat16(), weights().bfloat16()
    scores, of_pairs = features(NUM_NODES, 2, seed=7).bfloat16(), of_edges(2).bfloat16()
    reductions: list[Callable[[Callable[[Tensor], Tensor]], Tensor]] = [
        lambda cast: place.aggregate(cast(x), weight=cast(weight), reduce="mean"),
        lambda cast: place.aggregate(cast(x), weight=cast(weight), reduce="min"),
        lambda cast: typed.aggregate(cast(x), weight=cast(weight)),
        lambda cast: place.sum_edges(cast(weight)),
        lambda cast: place.attend(cast(x), cast(scores), cast(scores), edge_scores=cast(of_pairs)),
    ]
    for reduction in reductions:
        with torch.autocast("cpu", torch.bfloat16):
            found = reduction(lambda tensor: tensor)
        assert torch.equal(found, reduction(lambda tensor: tensor.float()))


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
@pytest.mark.parametrize("narrow", [False, True], ids=["float32", "bfloat16"])
def test_messages_of_ones_own_are_cast_again_in_the_backward_direction(narrow, reduce, world_size):
    """Also by a layer that was called before, of whose parameters autocast keeps narrow copies."""
    torch.manual_seed(0)
    layer = nn.Linear(WIDTH, WIDTH)

    dtypes: set[torch.dtype] = set()

    def call(own: nn.Module, x: Tensor, place: hr.sar.ShardedGraph) -> Tensor:
        def message(rows: Tensor, at_edges: Tensor, _: None) -> Tensor:
            out: Tensor = own(rows - at_edges)
            dtypes.add(out.dtype)
            return out

        out = own(x)
        for _ in range(2):
            out = out + place.update_all(message, x, destination=x, reduce=reduce)
        return out

    exact = train(world_size, call, layer, False)
    assert dtypes == {torch.float32}
    dtypes.clear()
    rounded = train(world_size, call, layer, True, narrow=narrow)
    assert dtypes == {torch.bfloat16}
    assert_close(rounded[:1], exact[:1], 0.03)
    if reduce != "max":  # where rounding makes another message the largest, gradients go there
        assert_close(rounded, exact, 0.05)
