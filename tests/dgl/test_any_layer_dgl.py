"""Any layer of DGL over shards, and a user's own: outputs, gradients and steps are those of DGL, or it is refused."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dgl
import dgl.nn as layers
import pytest
import torch
from dgl import function as fn
from dgl.nn.functional import edge_softmax
from ranks import run_ranks
from sharded import NUM_CLASSES, NUM_TYPES, WIDTH, assert_equal_training, edge_index, edge_types, features, owners
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import headrace as hr

from plans import NUM_NODES, graph

FREE = {"allow_zero_in_degree": True}


def mlp(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, out))


def weights() -> Tensor:
    return features(graph().num_edges, seed=5).abs() + 0.1


def edge_features() -> Tensor:
    return features(graph().num_edges, 3, seed=6)


def wide() -> Tensor:
    return features(graph().num_edges, WIDTH, seed=7)


class Messages(nn.Module):
    """A function of both ends and of edges, values of edges, a softmax of them, and reductions of each kind."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.of_ends, self.of_edges, self.score = nn.Linear(2 * width, out), nn.Linear(3, out), nn.Linear(out, 1)

    def message(self, edges: Any) -> dict[str, Tensor]:
        ends = torch.cat([edges.src["h"], edges.dst["h"]], -1)
        return {"m": torch.tanh(self.of_ends(ends) + edges.data["e"]), "unused": edges.data["e"]}

    def forward(self, g: Any, x: Tensor, edge: Tensor) -> Tensor:
        with g.local_scope():
            g.ndata["h"] = x
            g.edata["e"] = self.of_edges(edge)
            g.apply_edges(self.message)
            scores = self.score(g.edata["m"]).view(g.num_edges(), 1) * 3
            g.edata["a"] = edge_softmax(g, scores) + scores.sigmoid()
            g.edata["am"] = g.edata["m"] * g.edata["a"]
            g.update_all(fn.copy_e("am", "m"), fn.sum("m", "sum"))
            g.update_all(fn.copy_e("m", "m"), fn.mean("m", "mean"))
            g.update_all(self.message, fn.max("m", "max"))
            g.update_all(fn.e_sub_v("am", "mean", "m"), fn.min("m", "min"))
            return g.ndata["sum"] + g.ndata["mean"] + g.ndata["max"] + g.ndata["min"]


class Functions(nn.Module):
    """DGL's functions of graphs, in the place of methods."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.lin = nn.Linear(width, out)

    def forward(self, g: Any, x: Tensor, weight: Tensor) -> Tensor:
        g = g.local_var()
        h = self.lin(x)
        scores = dgl.ops.u_dot_v(g, h, h).squeeze(-1) * weight
        attention = edge_softmax(g, scores)
        g.srcdata["n"] = dgl.ops.u_mul_e_sum(g, h, attention.unsqueeze(-1)) + dgl.ops.copy_e_sum(g, weight.view(-1, 1))
        h = h + dgl.ops.copy_u_max(g, h).exp()  # nodes without edges have -inf
        g.update_all(fn.copy_u("n", "m"), fn.mean("m", "n"), lambda nodes: {"out": nodes.data["n"].tanh() + h})
        return g.dstdata["out"]


class Outer(nn.Module):
    """Writes to the graph, which a layer inside of it reads."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.inner, self.conv = Inner(), layers.GATConv(width, out, 1, **FREE)

    def forward(self, g: Any, x: Tensor, weight: Tensor) -> Tensor:
        with g.local_scope():
            g.ndata["x"], g.edata["w"] = x, weight
            return self.conv(g, self.inner(g)).flatten(1)


class Inner(nn.Module):
    def forward(self, g: Any) -> Tensor:
        g.update_all(fn.u_mul_e("x", "w", "m"), fn.mean("m", "x"))
        return g.ndata["x"]


def plain(layer: nn.Module, g: Any, x: Tensor, edge: Tensor | None) -> Tensor:
    out = layer(g, x) if edge is None else layer(g, x, edge)
    return out.mean(1) if out.dim() == 3 else out


def weighted(layer: nn.Module, g: Any, x: Tensor, edge: Tensor) -> Tensor:
    out = layer(g, x, edge_weight=edge)
    return out.mean(1) if out.dim() == 3 else out


def attention(layer: nn.Module, g: Any, x: Tensor, _: None) -> Tensor:
    """The values of edges that a layer returns count in the loss."""
    out, shares = layer(g, x, get_attention=True)
    return out.mean(1) + _sum_of_edges(g, shares)


def _sum_of_edges(g: Any, values: Tensor) -> Tensor:
    """Sums over the edges of destinations, of tensors."""
    ends = g.destinations if isinstance(g, hr.sar.ShardedGraph) else g.edges()[1]
    number = g.num_dst if isinstance(g, hr.sar.ShardedGraph) else g.num_nodes()
    squares = values.flatten(1).pow(2).sum(1, keepdim=True)
    return squares.new_zeros(number, 1).index_add(0, ends, squares)


def both(layer: nn.Module, g: Any, x: Tensor, edge: Tensor) -> Tensor:
    out, values = layer(g, x, edge)
    return (out.mean(1) if out.dim() == 3 else out) + _sum_of_edges(g, values)


@dataclass(frozen=True)
class Case:
    """A layer, its values of edges, and how it is called.

    `loops` is whether nodes need edges, `empty` whether DGL's layer takes a graph without edges, as a rank may have.
    """

    make: Callable[[], nn.Module]
    of_edges: Callable[[], Tensor] | None = None
    call: Callable[..., Tensor] = plain
    loops: bool = False
    empty: bool = True


OUT = NUM_CLASSES
CASES: dict[str, Case] = {
    "sage_mean": Case(lambda: layers.SAGEConv(WIDTH, OUT, "mean", activation=torch.tanh)),
    "sage_mean_weights": Case(lambda: layers.SAGEConv(WIDTH, 8, "mean"), weights, weighted),
    "sage_gcn": Case(lambda: layers.SAGEConv(WIDTH, OUT, "gcn")),
    "sage_pool": Case(lambda: layers.SAGEConv(WIDTH, OUT, "pool", norm=nn.functional.normalize)),
    "sage_pool_weights": Case(lambda: layers.SAGEConv(WIDTH, OUT, "pool"), weights, weighted),
    "graph_both": Case(lambda: layers.GraphConv(WIDTH, OUT, **FREE)),
    "graph_both_weights": Case(lambda: layers.GraphConv(WIDTH, 8, **FREE), weights, weighted),
    "graph_left": Case(lambda: layers.GraphConv(WIDTH, OUT, norm="left", activation=torch.tanh, **FREE)),
    "graph_right": Case(lambda: layers.GraphConv(WIDTH, OUT, norm="right", bias=False, **FREE), weights, weighted),
    "graph_none": Case(lambda: layers.GraphConv(WIDTH, OUT, norm="none", **FREE)),
    "gat": Case(lambda: layers.GATConv(WIDTH, OUT, 2, residual=True, **FREE)),
    "gat_weights": Case(lambda: layers.GATConv(WIDTH, OUT, 2, **FREE), weights, weighted),
    "gat_attention": Case(lambda: layers.GATConv(WIDTH, OUT, 2, **FREE), None, attention),
    "gatv2": Case(lambda: layers.GATv2Conv(WIDTH, OUT, 2, **FREE)),
    "gatv2_residual": Case(lambda: layers.GATv2Conv(WIDTH, OUT, 2, residual=True, **FREE), empty=False),
    "gatv2_shared": Case(lambda: layers.GATv2Conv(WIDTH, OUT, 2, share_weights=True, **FREE), None, attention),
    "gin_sum": Case(lambda: layers.GINConv(mlp(WIDTH, OUT), "sum", learn_eps=True, activation=torch.tanh)),
    "gin_mean": Case(lambda: layers.GINConv(mlp(WIDTH, OUT), "mean"), weights, weighted),
    "gin_max": Case(lambda: layers.GINConv(None, "max")),
    "gine": Case(lambda: layers.GINEConv(mlp(WIDTH, OUT), learn_eps=True), wide),
    "egat": Case(lambda: layers.EGATConv(WIDTH, 3, OUT, 4, 2), edge_features, both, loops=True),
    "edge_gat": Case(lambda: layers.EdgeGATConv(WIDTH, 3, OUT, 2, residual=False, **FREE), edge_features),
    "edge": Case(lambda: layers.EdgeConv(WIDTH, OUT, **FREE)),
    "dot_gat": Case(lambda: layers.DotGatConv(WIDTH, OUT, 2, **FREE)),
    "agnn": Case(lambda: layers.AGNNConv(2.0, **FREE)),
    "sg": Case(lambda: layers.SGConv(WIDTH, OUT, k=2, **FREE)),
    "tag": Case(lambda: layers.TAGConv(WIDTH, OUT, k=2)),
    "appnp": Case(lambda: layers.APPNPConv(3, 0.2)),
    "gcn2": Case(lambda: layers.GCN2Conv(WIDTH, 1, **FREE), None, lambda own, g, x, _: own(g, x, x)),
    "gated_graph": Case(lambda: layers.GatedGraphConv(WIDTH, 8, 2, 1)),
    "gated_gcn": Case(lambda: layers.GatedGCNConv(WIDTH, 3, OUT, batch_norm=False), edge_features, both),
    "nn": Case(lambda: layers.NNConv(WIDTH, OUT, mlp(3, WIDTH * OUT), "mean"), edge_features),
    "gmm": Case(lambda: layers.GMMConv(WIDTH, OUT, 3, 2, "mean", **FREE), edge_features, empty=False),
    "cf": Case(lambda: layers.CFConv(WIDTH, 3, 8, OUT), edge_features),
    "rel": Case(lambda: layers.RelGraphConv(WIDTH, OUT, NUM_TYPES, "basis", 2), edge_types),
    "messages": Case(lambda: Messages(WIDTH, OUT), edge_features),
    "functions": Case(lambda: Functions(WIDTH, OUT), weights),
    "outer": Case(lambda: Outer(WIDTH, OUT), weights),
}


class Network(nn.Module):
    def __init__(self, case: str) -> None:
        super().__init__()
        self.case, self.layer, self.scale = case, CASES[case].make(), nn.Parameter(torch.ones(()))

    def forward(self, g: Any, x: Tensor, edge: Tensor | None) -> Tensor:
        return self.scale * CASES[self.case].call(self.layer, g, x, edge)


def with_loops() -> hr.Graph:
    nodes = torch.arange(NUM_NODES)
    ends = torch.cat([edge_index()[:, NUM_NODES:], torch.stack([nodes, nodes])], 1)
    return hr.Graph.from_coo(*ends, num_nodes=NUM_NODES)


def check(case: str, world_size: int, **options: Any) -> list[hr.sar.ShardedGraph]:
    torch.manual_seed(1)
    chosen = CASES[case]
    whole = with_loops() if chosen.loops else graph()
    ends = torch.empty(2, whole.num_edges, dtype=torch.int64)
    rows = torch.arange(NUM_NODES).repeat_interleave(whole.in_degrees())
    ends[:, whole.edge_ids] = torch.stack([whole.indices.long(), rows])
    alone = dgl.graph((ends[0], ends[1]), num_nodes=NUM_NODES)
    edge = None if chosen.of_edges is None else chosen.of_edges()
    return assert_equal_training(
        Network(case).double(),  # DGL makes some parameters of float32
        lambda model, x, edge, place: model(place, x, edge),
        world_size,
        edge=edge,
        alone=alone,
        of=whole,
        **options,
    )


@pytest.fixture(autouse=True)
def _double():
    """Of what layers create: APPNPConv, weights of ones."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("case", CASES)
def test_ranks_compute_what_dgl_does(case):
    check(case, 3, kind="table" if CASES[case].empty else "hash", steps=2)


@pytest.mark.combinations(14)
@pytest.mark.slow
@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("kind", ["hash", "first"])
@pytest.mark.parametrize("case", CASES)
def test_any_partition_computes_what_dgl_does(case, kind, world_size):
    check(case, world_size, kind=kind if CASES[case].empty else "hash")


@pytest.mark.parametrize(
    ("case", "forward", "backward"),
    [
        ("sage_mean", 1, 0),
        ("sage_pool", 1, 0),
        ("graph_both", 1, 0),
        ("sage_mean_weights", 1, 1),  # for the gradient of weights
        ("gat", 1, 1),
        ("gine", 1, 1),
        ("gatv2", 2, 2),  # a softmax, and a sum that depends on it
        ("gatv2_shared", 3, 3),  # and the scores, which it returns
    ],
)
def test_rows_come_once_for_each_level_of_reductions(case, forward, backward):
    """And not again for what has kernels; never more than the rows of one rank at a time."""
    chosen = CASES[case]
    layer = Network(case).double()

    def work(comm: hr.Comm) -> tuple[int, int, int, int]:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm)
        model = hr.sar.wrap(copy.deepcopy(layer), place)
        x = place.rows(features(NUM_NODES, WIDTH)).requires_grad_()
        edge = None if chosen.of_edges is None else place.edge_rows(chosen.of_edges()).requires_grad_()
        out = model(place, x, edge)
        rounds = place.counts.rounds
        place.counts.reset()
        out.sum().backward()
        return rounds, place.counts.refetches, place.counts.live_rows, place.counts.most_live_rows

    most = max(owners("hash", 2).sizes)
    for rounds, refetches, live, most_live in run_ranks(2, work):
        assert (rounds, refetches, live) == (forward, backward, 0)
        assert most_live <= most


class Dropping(nn.Module):
    """Dropout of attention, of messages, and of values of edges that two reductions use."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop = layers.GATv2Conv(WIDTH, 4, 2, feat_drop=0.2, attn_drop=0.4, **FREE), nn.Dropout(0.3)
        self.second = DroppingMessages(8, NUM_CLASSES)

    def forward(self, g: Any, x: Tensor) -> Tensor:
        return self.second(g, torch.tanh(self.first(g, x).flatten(1)))


class DroppingMessages(nn.Module):
    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.lin, self.drop = nn.Linear(width, out), nn.Dropout(0.4)

    def forward(self, g: Any, x: Tensor) -> Tensor:
        with g.local_scope():
            g.ndata["h"] = self.lin(x)
            g.apply_edges(lambda edges: {"m": self.drop(edges.src["h"] * edges.dst["h"])})
            g.edata["n"] = self.drop(g.edata["m"])
            g.update_all(fn.copy_e("n", "m"), fn.sum("m", "one"))
            g.update_all(fn.copy_e("n", "m"), fn.sum("m", "other"))
            assert torch.equal(g.ndata["one"], g.ndata["other"])
            g.update_all(fn.copy_e("m", "m"), fn.max("m", "max"))
            return g.ndata["one"] + g.ndata["max"]


@pytest.mark.parametrize("world_size", [2, 3])
def test_masks_belong_to_edges(world_size):
    torch.manual_seed(2)
    run = lambda own, x, _, place: own(place, x)  # noqa: E731 - as others have it
    assert_equal_training(Dropping().double(), run, world_size, kind="hash", steps=2)


def test_checkpoints_compute_the_same():
    """Masks of dropout are drawn again as they were."""

    def run_again(model: nn.Module, x: Tensor, _: None, place: object) -> Tensor:
        return checkpoint(lambda rows: model(place, rows), x, use_reentrant=False)

    torch.manual_seed(2)
    assert_equal_training(Dropping().double(), run_again, 1)  # several ranks here would share torch's generator


def test_a_rank_without_nodes_is_named_where_a_layer_of_dgl_takes_none():
    with pytest.raises(hr.InputError, match="GATv2Conv: the layer does not work on rank 2, which has 0 nodes"):
        check("gatv2_residual", 3, kind="table")


@pytest.mark.parametrize(("mode", "prefetch"), [("sar", 1), ("sequential", 0), ("sequential", 1), ("one-shot", 0)])
@pytest.mark.parametrize("case", ["messages", "functions", "gat_attention", "sage_pool_weights"])
def test_modes_compute_the_same(case, mode, prefetch):
    check(case, 3, kind="hash", mode=mode, prefetch=prefetch)


def test_rel_graph_conv_with_kernels_is_the_one_inside_of_another():
    """Its graph is that of the layer around it."""

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = layers.RelGraphConv(WIDTH, NUM_CLASSES, NUM_TYPES)

        def forward(self, g: Any, x: Tensor) -> Tensor:
            return self.conv(g, x, g.edata.setdefault("types", torch.ones(g.num_edges(), dtype=torch.int64)))

    place = hr.sar.ShardedGraph(graph())
    whole = dgl.graph(tuple(edge_index()), num_nodes=NUM_NODES)
    model, x = Around().double(), features(NUM_NODES, WIDTH)
    expected = model(whole, x)
    torch.testing.assert_close(hr.sar.wrap(model, place)(place, place.rows(x)), expected)


def test_no_cycle_holds_rows():
    """Rows are released with the output, without the garbage collector."""
    place = hr.sar.ShardedGraph(graph())
    for case in ("gatv2", "messages", "functions"):
        chosen = CASES[case]
        layer = chosen.make().double()
        known: list[weakref.ref[Tensor]] = []
        for module in layer.modules():
            if isinstance(module, nn.Linear):
                module.register_forward_hook(
                    lambda _, __, out, known=known: known.append(weakref.ref(out)) if isinstance(out, Tensor) else None
                )
        edge = None if chosen.of_edges is None else place.edge_rows(chosen.of_edges())
        model = hr.sar.wrap(layer, place)
        gc.disable()
        try:
            chosen.call(model, place, place.rows(features(NUM_NODES, WIDTH)), edge).sum().backward()
            assert known
            assert not [one for ref in known if (one := ref()) is not None]
        finally:
            gc.enable()
