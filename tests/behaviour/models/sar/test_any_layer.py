"""Any layer of PyG over shards, and a user's own: outputs, gradients and steps are those of PyG on the whole graph."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from ranks import run_ranks
from sharded import NUM_CLASSES, PARTITIONS, WIDTH, assert_equal_training, edge_index, features, owners
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

pyg = pytest.importorskip("torch_geometric.nn")
softmax = pytest.importorskip("torch_geometric.utils").softmax


def mlp(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, out))


def weights() -> Tensor:
    return features(graph().num_edges, seed=5).abs() + 0.1


def edge_features() -> Tensor:
    return features(graph().num_edges, 3, seed=6)


class TwoSoftmaxes(pyg.MessagePassing):
    """Edge features, both ends, attention over attention, what `edge_updater` makes, and a sum of its own."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(aggr=None, node_dim=0)
        self.lin, self.score, self.of_edges = nn.Linear(width, out), nn.Linear(2 * out, 1), nn.Linear(3, 1)

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor) -> Tensor:
        rows = self.lin(x)
        alpha = self.edge_updater(edge_index, x=rows, edge_attr=edge_attr)
        return self.propagate(edge_index, x=rows, alpha=alpha)

    def edge_update(self, x_i: Tensor, x_j: Tensor, edge_attr: Tensor, index: Tensor, size_i: int) -> Tensor:
        scores = (self.score(torch.cat([x_i, x_j], 1)) + self.of_edges(edge_attr)).squeeze(1).tanh()
        return softmax(3 * softmax(scores, index, num_nodes=size_i), index, num_nodes=size_i)

    def message(self, x_j: Tensor, alpha: Tensor) -> Tensor:
        return alpha.view(-1, 1) * x_j

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int) -> Tensor:
        largest = inputs.new_zeros(dim_size, inputs.shape[1])
        places = index.view(-1, 1).expand_as(inputs)
        largest = largest.scatter_reduce(0, places, inputs.detach(), "amax", include_self=False)
        return inputs.new_zeros(dim_size, inputs.shape[1]).index_add(0, index, inputs * largest[index].cos())

    def update(self, aggregated: Tensor, x: Tensor) -> Tensor:
        return aggregated + 0.5 * x


class Network(nn.Module):
    """A layer, and another one of its kind or none; `of_edges` are their further arguments."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, place: object, *of_edges: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x if not number else torch.tanh(x), place, *of_edges)
        return x


def run(model: nn.Module, x: Tensor, edge: Tensor | None, place: object) -> Tensor:
    return model(x, place, *(() if edge is None else (edge,)))


DEGREES = torch.bincount(graph().in_degrees())
PNA = {"aggregators": ["mean", "min", "max", "std", "var", "sum"], "scalers": ["identity", "amplification"]}

#: Layers, and what they take of edges.
CASES: dict[str, tuple[Any, Any]] = {
    "gin": (lambda: (pyg.GINConv(mlp(WIDTH, 8), train_eps=True), pyg.GINConv(mlp(8, NUM_CLASSES))), None),
    "gine": (lambda: (pyg.GINEConv(mlp(WIDTH, NUM_CLASSES), edge_dim=3),), edge_features),
    "gatv2": (
        lambda: (pyg.GATv2Conv(WIDTH, 4, heads=2), pyg.GATv2Conv(8, NUM_CLASSES, heads=2, concat=False, residual=True)),
        None,
    ),
    "gatv2_edges": (
        lambda: (pyg.GATv2Conv(WIDTH, NUM_CLASSES, heads=2, concat=False, edge_dim=3, fill_value="add"),),
        edge_features,
    ),
    "transformer": (
        lambda: (pyg.TransformerConv(WIDTH, NUM_CLASSES, heads=2, concat=False, edge_dim=3, beta=True),),
        edge_features,
    ),
    "graph_max": (lambda: (pyg.GraphConv(WIDTH, NUM_CLASSES, aggr="max"),), weights),
    "graph_mean": (lambda: (pyg.GraphConv(WIDTH, NUM_CLASSES, aggr="mean"),), weights),
    "gen": (lambda: (pyg.GENConv(WIDTH, NUM_CLASSES, norm=None, edge_dim=3, learn_t=True),), edge_features),
    "gen_powermean": (
        lambda: (pyg.GENConv(WIDTH, NUM_CLASSES, norm=None, edge_dim=3, aggr="powermean", learn_p=True),),
        edge_features,
    ),
    "pna": (lambda: (pyg.PNAConv(WIDTH, NUM_CLASSES, **PNA, deg=DEGREES, edge_dim=3),), edge_features),
    "edge": (lambda: (pyg.EdgeConv(mlp(2 * WIDTH, NUM_CLASSES)),), None),
    "gated": (lambda: (pyg.ResGatedGraphConv(WIDTH, NUM_CLASSES),), None),
    "film": (lambda: (pyg.FiLMConv(WIDTH, NUM_CLASSES),), None),
    "cg": (lambda: (pyg.CGConv(WIDTH, 3),), edge_features),
    "feast": (lambda: (pyg.FeaStConv(WIDTH, NUM_CLASSES, heads=2, add_self_loops=False),), None),
    "agnn": (lambda: (pyg.AGNNConv(),), None),
    "nn": (lambda: (pyg.NNConv(WIDTH, NUM_CLASSES, mlp(3, WIDTH * NUM_CLASSES)),), edge_features),
    "sage_of_several": (lambda: (pyg.SAGEConv(WIDTH, NUM_CLASSES, aggr=["mean", "max", "std"]),), None),
    "appnp": (lambda: (pyg.APPNP(3, 0.2), pyg.SGConv(WIDTH, NUM_CLASSES, K=2)), weights),
    "tag": (lambda: (pyg.TAGConv(WIDTH, NUM_CLASSES),), weights),
    "mixhop": (lambda: (pyg.MixHopConv(WIDTH, 4), pyg.SSGConv(12, NUM_CLASSES, 0.1, K=2)), None),
    "general": (lambda: (pyg.GeneralConv(WIDTH, NUM_CLASSES, attention=True, heads=2),), None),
    "gated_graph": (lambda: (pyg.GatedGraphConv(8, 2),), None),
    "le": (lambda: (pyg.LEConv(WIDTH, NUM_CLASSES),), weights),
    "two_softmaxes": (lambda: (TwoSoftmaxes(WIDTH, 8), TwoSoftmaxes(8, NUM_CLASSES)), edge_features),
}


def check(case: str, world_size: int, **options: object) -> list[hr.sar.ShardedGraph]:
    torch.manual_seed(1)
    make, of_edges = CASES[case]
    # PyG gives the weight of a loop a gradient also where another loop of the node has replaced it.
    options = {"check_edges": case != "appnp", "alone": edge_index(), **options}
    edge = None if of_edges is None else of_edges()
    return assert_equal_training(Network(*make()).double(), run, world_size, edge=edge, **options)


@pytest.mark.parametrize("case", CASES)
def test_ranks_compute_what_pyg_does(case):
    check(case, 3, kind="table", steps=2)


@pytest.mark.combinations(14)
@pytest.mark.slow
@pytest.mark.parametrize("world_size", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("case", CASES)
def test_any_partition_computes_what_pyg_does(case, kind, world_size):
    check(case, world_size, kind=kind)


@pytest.mark.combinations(14)
@pytest.mark.slow
@pytest.mark.parametrize(("mode", "prefetch"), [("sar", 1), ("sequential", 0), ("sequential", 1), ("one-shot", 0)])
@pytest.mark.parametrize("case", CASES)
def test_modes_compute_the_same(case, mode, prefetch):
    check(case, 3, kind="hash", mode=mode, prefetch=prefetch)


@pytest.mark.parametrize(
    ("case", "forward", "backward"),
    [("gin", 1, 0), ("graph_max", 1, 1), ("pna", 1, 1), ("gatv2_edges", 2, 2), ("transformer", 2, 2)],
)
def test_rows_come_once_for_each_level_of_reductions(case, forward, backward):
    """Reductions that depend on no other one are of one level, as those of PNA; plain sums need no rows again."""
    make, of_edges = CASES[case]
    layer = make()[0].double()

    def work(comm: hr.Comm) -> tuple[int, int]:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 2), comm)
        model = hr.sar.wrap(copy.deepcopy(layer), place)
        edge = () if of_edges is None else (place.edge_rows(of_edges()),)
        out = model(place.rows(features(NUM_NODES, WIDTH)).requires_grad_(), place, *edge)
        rounds = place.counts.rounds
        place.counts.reset()
        out.sum().backward()
        return rounds, place.counts.refetches

    assert run_ranks(2, work) == [(forward, backward)] * 2


class Dropping(nn.Module):
    """Dropout of attention and of elements of messages."""

    def __init__(self) -> None:
        super().__init__()
        self.first = pyg.GATv2Conv(WIDTH, 4, heads=2, dropout=0.4)
        self.second = pyg.TransformerConv(8, NUM_CLASSES, dropout=0.3)

    def forward(self, x: Tensor, place: object) -> Tensor:
        return self.second(torch.tanh(self.first(x, place)), place)


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [2, 3])
def test_masks_belong_to_edges(world_size):
    torch.manual_seed(2)
    assert_equal_training(Dropping().double(), run, world_size, kind="hash", steps=3)


def test_functions_of_pyg_are_as_they_were():
    """Those that know a graph in shards stand in a layer's module only while the layer runs."""
    import torch_geometric.nn.conv.gatv2_conv as module
    import torch_geometric.utils as functions

    place = hr.sar.ShardedGraph(graph())
    model = hr.sar.wrap(pyg.GATv2Conv(WIDTH, 2), place)
    model(features(NUM_NODES, WIDTH).float(), place).sum().backward()
    assert module.softmax is functions.softmax
    assert module.add_self_loops is functions.add_self_loops


def test_equal_messages_share_the_gradient_evenly():
    """As torch has it: over the parts of several ranks, too."""
    torch.manual_seed(4)
    layer = pyg.GraphConv(WIDTH, NUM_CLASSES, aggr="max").double()

    def rounded(model: nn.Module, x: Tensor, edge: Tensor | None, place: object) -> Tensor:
        return model(x.clamp(-0.5, 0.5), place)  # most messages are one of two numbers

    assert_equal_training(layer, rounded, 3, kind="hash", alone=edge_index())


def test_rows_that_update_asks_for_are_whole():
    """Also where there are as many as edges."""

    class Residual(pyg.MessagePassing):
        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            return self.propagate(edge_index, x=x)

        def update(self, aggregated: Tensor, x: Tensor) -> Tensor:
            return aggregated + x

    edges = torch.tensor([[3, 2, 1, 0], [0, 1, 2, 2]])
    whole = hr.Graph.from_coo(*edges, num_nodes=4)
    x = features(4, 2)
    expected = Residual()(x, edges)

    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(whole, hr.Partition.range(4, 2), comm)
        out = hr.sar.wrap(Residual(), place)(place.rows(x), place)
        torch.testing.assert_close(out, expected[place.owned])

    run_ranks(2, work)
    place = hr.sar.ShardedGraph(whole)
    torch.testing.assert_close(hr.sar.wrap(Residual(), place)(place.rows(x), place), expected)


@pytest.mark.parametrize("prefetch", [0, 1])
def test_messages_that_need_no_sources_are_all_computed(prefetch):
    """Though no rows come, which others are computed by."""

    class OfEdges(pyg.MessagePassing):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(WIDTH + 3, NUM_CLASSES)

        def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor) -> Tensor:
            return self.propagate(edge_index, x=x, edge_attr=edge_attr)

        def message(self, x_i: Tensor, edge_attr: Tensor) -> Tensor:
            return self.lin(torch.cat([x_i, edge_attr], 1)).tanh()

    torch.manual_seed(5)
    options = {"edge": edge_features(), "kind": "hash", "alone": edge_index(), "prefetch": prefetch}
    assert_equal_training(OfEdges().double(), run, 3, **options)


def test_checkpoints_compute_the_same():
    from torch.utils.checkpoint import checkpoint

    def run_again(model: nn.Module, x: Tensor, edge: Tensor | None, place: object) -> Tensor:
        return checkpoint(lambda rows: model(rows, place), x, use_reentrant=False)

    torch.manual_seed(2)
    assert_equal_training(Dropping().double(), run_again, 1)  # several ranks here would share torch's generator


def test_nothing_of_other_ranks_stays():
    """One round's rows at a time, whatever the layer is."""
    layer = pyg.GATv2Conv(WIDTH, 4, heads=2)

    def work(comm: hr.Comm) -> tuple[int, int]:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 3), comm)
        model = hr.sar.wrap(copy.deepcopy(layer), place)
        model(place.rows(features(NUM_NODES, WIDTH)).float().requires_grad_(), place).sum().backward()
        return place.counts.most_live_rows, place.counts.live_rows

    most = max(owners("hash", 3).sizes)
    for at_most, left in run_ranks(3, work):
        assert at_most <= most
        assert left == 0
