"""PyG's layers over shards: outputs, losses, gradients and steps are those of PyG on the whole graph."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from ranks import run_ranks
from sharded import (
    NUM_CLASSES,
    NUM_TYPES,
    PARTITIONS,
    WIDTH,
    assert_equal_training,
    edge_index,
    edge_types,
    features,
    owners,
)
from torch import Tensor, nn

import headrace as hr

from parting import all_of
from plans import NUM_NODES, graph

pyg = pytest.importorskip("torch_geometric.nn")


class Network(nn.Module):
    """Two layers, called as PyG's are; `of_edges` are their further arguments."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor, place: object, *of_edges: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x, place, *of_edges)), place, *of_edges)


def run(model: nn.Module, x: Tensor, edge: Tensor | None, place: object) -> Tensor:
    return model(x, place, *(() if edge is None else (edge,)))


def weights() -> Tensor:
    return features(graph().num_edges, seed=5).abs() + 0.1


def edge_features() -> Tensor:
    return features(graph().num_edges, 3, seed=6)


#: Both layers, and what they take of edges.
CASES: dict[str, tuple[Any, Any]] = {
    "sage_mean": (lambda: (pyg.SAGEConv(WIDTH, 8), pyg.SAGEConv(8, NUM_CLASSES)), None),
    "sage_sum": (
        lambda: (
            pyg.SAGEConv(WIDTH, 8, aggr="sum", project=True, normalize=True),
            pyg.SAGEConv(8, NUM_CLASSES, aggr="add", root_weight=False, bias=False),
        ),
        None,
    ),
    "sage_max": (lambda: (pyg.SAGEConv(WIDTH, 8, aggr="max"), pyg.SAGEConv(8, NUM_CLASSES, aggr="min")), None),
    "gcn": (lambda: (pyg.GCNConv(WIDTH, 8), pyg.GCNConv(8, NUM_CLASSES, improved=True, bias=False)), None),
    "gcn_weights": (lambda: (pyg.GCNConv(WIDTH, 8), pyg.GCNConv(8, NUM_CLASSES, improved=True)), weights),
    "gcn_plain": (
        lambda: (pyg.GCNConv(WIDTH, 8, add_self_loops=False), pyg.GCNConv(8, NUM_CLASSES, normalize=False)),
        weights,
    ),
    "gat": (
        lambda: (pyg.GATConv(WIDTH, 4, heads=2), pyg.GATConv(8, NUM_CLASSES, heads=3, concat=False, residual=True)),
        None,
    ),
    "gat_plain": (
        lambda: (
            pyg.GATConv((WIDTH, WIDTH), 4, heads=2, add_self_loops=False, negative_slope=0.3),
            pyg.GATConv(8, NUM_CLASSES, bias=False),
        ),
        None,
    ),
    "gat_edges": (
        lambda: (
            pyg.GATConv(WIDTH, 4, heads=2, edge_dim=3),
            pyg.GATConv(8, NUM_CLASSES, heads=2, concat=False, edge_dim=3, fill_value=0.5),
        ),
        edge_features,
    ),
    "rgcn": (
        lambda: (pyg.RGCNConv(WIDTH, 8, NUM_TYPES), pyg.RGCNConv(8, NUM_CLASSES, NUM_TYPES, num_bases=2)),
        edge_types,
    ),
    "rgcn_blocks": (
        lambda: (
            pyg.RGCNConv(WIDTH, 8, NUM_TYPES, num_blocks=2, aggr="max"),
            pyg.RGCNConv(8, NUM_CLASSES, NUM_TYPES, aggr="sum", root_weight=False),
        ),
        edge_types,
    ),
    "rgcn_min": (
        lambda: (pyg.RGCNConv(WIDTH, 8, NUM_TYPES, aggr="min"), pyg.RGCNConv(8, NUM_CLASSES, NUM_TYPES, aggr="add")),
        edge_types,
    ),
}


def check(case: str, world_size: int, **options: object) -> list[hr.sar.ShardedGraph]:
    torch.manual_seed(1)
    make, of_edges = CASES[case]
    edge = None if of_edges is None else of_edges()
    # PyG gives the weight of a loop a gradient also where another loop of the node has replaced it.
    options = {"check_edges": case != "gcn_weights", "alone": edge_index(), **options}
    return assert_equal_training(Network(*make()).double(), run, world_size, edge=edge, **options)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_three_ranks_compute_what_pyg_does(case):
    check(case, 3, kind="table", steps=2)


@pytest.mark.combinations(10)
@pytest.mark.slow
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("case", CASES)
def test_any_number_of_ranks_computes_what_pyg_does(case, world_size):
    check(case, world_size, kind="hash", steps=10)


@pytest.mark.combinations(14)
@pytest.mark.slow
@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("case", CASES)
def test_any_partition_computes_what_pyg_does(case, kind):
    check(case, 4, kind=kind)


@pytest.mark.combinations(21)
@pytest.mark.slow
@pytest.mark.parametrize(("mode", "prefetch"), [("sar", 1), ("sequential", 0), ("sequential", 1), ("one-shot", 0)])
@pytest.mark.parametrize("case", CASES)
def test_modes_compute_the_same(case, mode, prefetch):
    check(case, 4, kind="table", mode=mode, prefetch=prefetch)


class Deep(nn.Module):
    """Batch normalisation and dropout between layers, and dropout of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            [pyg.GATConv(WIDTH, 4, heads=2, dropout=0.4), pyg.SAGEConv(8, 8), pyg.GCNConv(8, NUM_CLASSES)]
        )
        self.norm, self.dropout = pyg.BatchNorm(8), nn.Dropout(0.5)

    def forward(self, x: Tensor, place: object) -> Tensor:
        x = self.dropout(self.norm(self.convs[0](x, place))).relu()
        return self.convs[2](self.dropout(self.convs[1](x, place)), place)


@pytest.mark.combinations(2)
@pytest.mark.parametrize(
    "world_size", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)]
)
def test_dropout_and_normalisation_do_not_depend_on_the_ranks(world_size):
    torch.manual_seed(2)
    assert_equal_training(Deep().double(), run, world_size, kind="hash", steps=10)


def test_dropout_of_attention_of_our_own_layers_does_not_depend_on_the_ranks():
    options = {"heads": 2, "dropout": 0.4, "add_self_loops": False}
    torch.manual_seed(2)
    model = Network(hr.nn.GATConv(WIDTH, 4, **options), hr.nn.GATConv(8, NUM_CLASSES, concat=False, **options))
    assert_equal_training(model.double(), run, 3, kind="hash", steps=3)


def test_transformed_rows_are_computed_anew_from_what_they_were_computed_of():
    """So attention keeps none of them, and what was written to meanwhile is refused."""

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm)
        conv = pyg.GATConv(WIDTH, 2)
        for number, one in enumerate(conv.parameters()):
            nn.init.normal_(one, generator=torch.Generator().manual_seed(number))
        conv = hr.sar.wrap(conv, place)
        out = conv(place.rows(features(NUM_NODES, WIDTH)).float(), place)
        with torch.no_grad():
            conv.lin.weight.add_(1)
        with pytest.raises(hr.InputError, match="written to between the forward and the backward direction"):
            out.sum().backward()

    run_ranks(2, work)


def test_ranks_take_one_key_where_nothing_gives_it():
    def work(comm: hr.Comm) -> int:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 3), comm)
        return hr.nn.GATConv(4, 2, dropout=0.5).attention_keys.next(place).key

    first, *others = run_ranks(3, work)
    assert others == [first] * 2
    assert first > 0


@pytest.mark.parametrize("kind", ["GraphSAGE", "GCN", "GAT"])
def test_models_of_pyg_run_as_they_are(kind):
    torch.manual_seed(3)
    model = getattr(pyg, kind)(WIDTH, 8, 2, NUM_CLASSES, act="tanh").double()
    assert_equal_training(model, run, 2, kind="hash", alone=edge_index())


def test_parameters_keep_their_names_and_places():
    model = Network(*CASES["gat_edges"][0]())
    before, state = list(model.parameters()), {name: one.clone() for name, one in model.state_dict().items()}
    place = hr.sar.ShardedGraph(graph())
    wrapped = hr.sar.wrap(model.eval(), place)
    assert wrapped is model
    assert all(left is right for left, right in zip(wrapped.parameters(), before, strict=True))
    assert wrapped.state_dict().keys() == state.keys()
    assert not wrapped.first.training
    copied = copy.deepcopy(wrapped)
    x, edge = place.rows(features(NUM_NODES, WIDTH)).float(), place.edge_rows(edge_features()).float()
    torch.testing.assert_close(copied(x, place, edge), wrapped(x, place, edge))
    # Rows and graph in either order, as PyG's and DGL's users write it.
    torch.testing.assert_close(wrapped.first(place, x, edge), wrapped.first(x, place, edge))


def test_what_cannot_be_computed_is_refused():
    place = hr.sar.ShardedGraph(graph())
    for layer, words in [
        (pyg.FastRGCNConv(2, 2, 3), "FastRGCNConv whose messages ask for edge_index"),
        (pyg.GCNConv(2, 2, flow="target_to_source"), "flow='target_to_source'"),
        (pyg.GraphNorm(2), "GraphNorm would look at the rows of one rank alone"),
    ]:
        with pytest.raises(hr.InputError, match=words):
            hr.sar.wrap(nn.Sequential(layer), place)
    conv = hr.sar.wrap(pyg.GATConv(WIDTH, 2), place)
    x = features(NUM_NODES, WIDTH).float()
    with pytest.raises(hr.InputError, match=r"expected rows and an hr.sar.ShardedGraph, got Tensor and Tensor"):
        conv(x, edge_index())
    with pytest.raises(hr.InputError, match="return_attention_weights"):
        conv(x, place, return_attention_weights=True)
    with pytest.raises(hr.InputError, match="edge_type"):
        hr.sar.wrap(pyg.RGCNConv(WIDTH, 2, 3), place)(x, place)


def test_parameters_are_drawn_anew_as_by_the_replaced_layers():
    place = hr.sar.ShardedGraph(graph())
    for make in (lambda: pyg.GraphSAGE(WIDTH, 8, 2, norm="batch_norm"), lambda: pyg.GAT(WIDTH, 8, 2)):
        plain, wrapped = make(), hr.sar.wrap(make(), place)
        parameters = list(wrapped.parameters())
        for model in (plain, copy.deepcopy(wrapped), wrapped):
            torch.manual_seed(5)
            model.reset_parameters()
            for (name, one), other in zip(model.named_parameters(), plain.parameters(), strict=True):
                assert torch.equal(one, other), name
        assert all(one is other for one, other in zip(wrapped.parameters(), parameters, strict=True))


@pytest.mark.parametrize("kind", ["SAGEConv", "GCNConv", "GATConv"])
def test_layers_without_a_shape_are_refused_until_they_have_one(kind):
    """Ranks would draw parameters each for itself, or fail where a matrix has none."""
    place = hr.sar.ShardedGraph(graph())
    torch.manual_seed(6)
    model, x = nn.ModuleList([getattr(pyg, kind)(-1, 4)]), features(NUM_NODES, WIDTH).float()
    with pytest.raises(hr.InputError, match=r"expected initialised parameters, got 0\.lin.*in_channels"):
        hr.sar.wrap(model, place)
    with torch.no_grad():
        expected = model[0](x, edge_index())
        torch.testing.assert_close(hr.sar.wrap(model, place)[0](x, place), expected)


def test_ranks_with_other_parameters_are_refused():
    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm)
        model = nn.Linear(2, 2)
        nn.init.constant_(model.weight, comm.rank)
        nn.init.zeros_(model.bias)
        with pytest.raises(hr.InputError, match="expected one model and seed on all ranks"):
            hr.sar.wrap(model, place)

    run_ranks(2, work)


def test_dropout_and_batch_norm_want_a_row_for_each_node():
    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm)
        for module, words in [
            (nn.Dropout(0.5), "Dropout: expected a row"),
            (nn.BatchNorm1d(2), "BatchNorm1d: expected"),
        ]:
            with pytest.raises(hr.InputError, match=words):
                hr.sar.wrap(module, place)(torch.zeros(1, 2))
        assert hr.sar.wrap(nn.Dropout(1.0), place)(torch.ones(place.num_dst, 2)).sum() == 0
        assert hr.sar.wrap(nn.Dropout(0.5), place).eval()(torch.ones(place.num_dst, 2)).sum() == 2 * place.num_dst

    run_ranks(2, work)


def test_a_model_that_was_wrapped_is_given_the_new_graph_and_seed():
    class Shallow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.ours = (
                make(width, 4, dropout=0.5, add_self_loops=False)
                for make, width in ((pyg.GATConv, WIDTH), (hr.nn.GATConv, 4))
            )
            self.norm, self.dropout = nn.BatchNorm1d(4), nn.Dropout(0.5)

        def forward(self, x: Tensor, place: object) -> Tensor:
            return self.dropout(self.norm(self.ours(self.conv(x, place), place)))

    small = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=3)
    torch.manual_seed(4)
    plain = Shallow()

    def outputs(model: nn.Module, comm: hr.Comm, seed: int) -> list[Tensor]:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm)
        model = hr.sar.wrap(model, place, seed=seed)
        return [model(place.rows(features(NUM_NODES, WIDTH)).float(), place) for _ in range(2)]

    def work(comm: hr.Comm) -> None:
        before = hr.sar.ShardedGraph(small, hr.Partition.range(3, 2), comm)
        model = hr.sar.wrap(copy.deepcopy(plain), before, seed=7)
        again = outputs(model, comm, seed=8)
        for one, other in zip(again, outputs(copy.deepcopy(plain), comm, seed=8), strict=True):
            assert torch.equal(one, other)
        # Masks go on where they were.
        assert not torch.equal(outputs(model, comm, seed=8)[0], again[0])
        keys = (model.conv.keys, model.ours.attention_keys.given, model.dropout.keys)
        assert len({one.number for one in keys}) == 3

    run_ranks(2, work)


@pytest.mark.parametrize("of", ["kind", "option"])
def test_an_error_on_one_rank_reaches_the_others(of):
    """Before the ranks compare their models, and behind."""
    words = "would look at the rows of one rank alone" if of == "kind" else "cannot be computed over shards"

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 3), comm)
        layer = pyg.SAGEConv(WIDTH, 2, flow="target_to_source" if comm.rank == 1 else "source_to_target")
        if of == "kind" and comm.rank == 1:
            layer = pyg.GraphNorm(WIDTH)
        for one in layer.parameters():
            nn.init.ones_(one)
        with nullcontext() if comm.rank != 1 else pytest.raises(hr.InputError, match=words):
            conv = hr.sar.wrap(layer, place)
        if comm.rank != 1:
            conv(place.rows(features(NUM_NODES, WIDTH)).float(), place)

    errors = all_of(3, work)
    assert errors[1] == ""
    for rank in (0, 2):
        assert errors[rank].startswith("rank 1 failed:\nTraceback")
        assert words in errors[rank]
