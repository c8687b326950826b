"""What layers, wrapped models and graphs in shards refuse, with what they say."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from own_layers import OfBlock
from torch import nn

import headrace as hr
from headrace.testing import LocalGroup

from plans import NUM_NODES, PLANS, graph, items, store

OF_ONE_WIDTH = (hr.nn.ClusterGCNConv, hr.nn.GATConv, hr.nn.GCNConv)
SIZED = (*OF_ONE_WIDTH, hr.nn.GATv2Conv, hr.nn.GraphConv, hr.nn.SAGEConv, hr.nn.TransformerConv)
NAN, INFINITE = math.nan, math.inf
BLOCK = hr.Block(torch.tensor([0, 1]), torch.tensor([1]), 2, 1)
ROWS = torch.ones(2, 4)


@pytest.mark.parametrize("layer", SIZED)
@pytest.mark.parametrize("name", ["in_channels", "out_channels"])
@pytest.mark.parametrize("size", [0, -1, 1 << 40, 2.5, "2", None, True, (3, 3, 3)])
def test_sizes_of_layers(layer, name, size):
    words = f"{layer.__name__}: expected {name} to be (one|an) integer (of at least 1|from 1 to .*), got"
    with pytest.raises(hr.InputError, match=words):
        layer(**{"in_channels": 3, "out_channels": 2, name: size})


@pytest.mark.parametrize("layer", SIZED)
def test_sizes_of_both_ends(layer):
    with pytest.raises(hr.InputError, match=r"expected in_channels(\[1\])? to be (one|an) integer"):
        layer((3, 3) if layer in OF_ONE_WIDTH else (3, 0), 2)
    with pytest.raises(hr.InputError, match="expected out_channels to be one integer of at least 1"):
        layer(3, (2, 2))


@pytest.mark.parametrize(
    ("layer", "name", "value"),
    [
        *((hr.nn.GATConv, "heads", value) for value in (0, -1, 1.5, None)),
        *((hr.nn.GATConv, "edge_dim", value) for value in (0, -2, 1.5)),
        *((hr.nn.GATConv, "negative_slope", value) for value in (NAN, INFINITE, "a", None, True)),
        *((hr.nn.GATConv, "dropout", value) for value in (NAN, 1, -0.1, "a", None, True)),
        *((hr.nn.ClusterGCNConv, "diag_lambda", value) for value in (NAN, -INFINITE, "a", None)),
        *((layer, "bias", 3) for layer in SIZED),
        *((layer, "dropout", 1) for layer in (hr.nn.GATv2Conv, hr.nn.TransformerConv)),
        *((hr.nn.GATv2Conv, "fill_value", value) for value in ("max", None)),
        (hr.nn.GraphConv, "aggr", "median"),
        (hr.nn.SAGEConv, "project", 1),
        (hr.nn.TransformerConv, "beta", 1),
        (hr.nn.GATConv, "concat", "no"),
        (hr.nn.GATConv, "add_self_loops", None),
        (hr.nn.GCNConv, "improved", 2),
        (hr.nn.GCNConv, "normalize", "both"),
        (hr.nn.GCNConv, "add_self_loops", 1),
        (hr.nn.SAGEConv, "normalize", "l2"),
        (hr.nn.SAGEConv, "root_weight", 0.5),
        (hr.nn.SAGEConv, "aggr", ["mean"]),
        (hr.nn.SAGEConv, "aggr", "lstm"),
    ],
)
def test_options_of_layers(layer, name, value):
    with pytest.raises(hr.InputError, match=f"{layer.__name__}: expected (a |){name} .*, got"):
        layer(3, 2, **{name: value})


def gin(**options: object) -> Callable[[], object]:
    return lambda: hr.nn.GINConv(**{"nn": nn.Linear(3, 2), **options})


def attended(slope: object) -> Callable[[], object]:
    scores = torch.zeros(2, 1)
    return lambda: BLOCK.attend(torch.zeros(2, 1, 2), scores, scores[:1], slope=slope)


LAYERS: dict[str, tuple[Callable[[], object], str]] = {
    **{f"GIN nn {value!r}": (gin(nn=value), "GINConv: expected nn to be .*, got") for value in (len, 3)},
    **{f"GIN eps {value!r}": (gin(eps=value), "GINConv: expected eps to be .*, got") for value in (NAN, "a")},
    "GIN train_eps": (gin(train_eps=1), "GINConv: expected train_eps to be .*, got"),
    **{
        f"slope {value!r}": (attended(value), "expected slope to be a finite number, got")
        for value in (NAN, INFINITE, "a", None)
    },
    **{
        f"{layer.__name__} rows": (
            lambda layer=layer: layer(4, 2)(torch.ones(3, 4), BLOCK),
            r"expected x of \[2, 4\], a row for each source",
        )
        for layer in SIZED
    },
    "GIN rows": (lambda: hr.nn.GINConv(nn.Identity())(torch.ones(3, 4), BLOCK), "expected x of"),
    "loops without a norm": (
        lambda: hr.nn.GCNConv(4, 2, normalize=False, add_self_loops=True),
        "expected normalize=True",
    ),
    "improved without loops": (
        lambda: hr.nn.GCNConv(4, 2, improved=True, add_self_loops=False),
        "expected improved=False where no self-loops",
    ),
    "no edge_attr": (
        lambda: hr.nn.GATConv(4, 2, edge_dim=5)(ROWS, BLOCK),
        r"expected edge_attr of \[1, 5\] for a layer with edge_dim=5, got none",
    ),
    "edge_attr": (
        lambda: hr.nn.GATConv(4, 2, edge_dim=5)(ROWS, BLOCK, torch.ones(1, 3)),
        r"expected edge_attr of \[1, 5\]",
    ),
    "PNAConv, aggregators": (
        lambda: hr.nn.PNAConv(4, 2, ["median"], ["identity"], torch.ones(3)),
        "expected aggregators to be a list of mean, min",
    ),
    "PNAConv, scalers": (
        lambda: hr.nn.PNAConv(4, 2, ["mean"], "identity", torch.ones(3)),
        "expected scalers to be a list of identity",
    ),
    "PNAConv, deg": (
        lambda: hr.nn.PNAConv(4, 2, ["mean"], ["identity"], torch.zeros(3)),
        "expected deg with the number of nodes",
    ),
    "PNAConv, towers": (
        lambda: hr.nn.PNAConv(4, 3, ["mean"], ["identity"], torch.ones(3), towers=2),
        "expected columns that 2 towers divide",
    ),
    "PNAConv, weights": (
        lambda: hr.nn.PNAConv(4, 2, ["mean"], ["identity"], torch.ones(3))(
            ROWS, hr.Block(BLOCK.indptr, BLOCK.indices, 2, 1, weight=torch.ones(1))
        ),
        "expected a block without importance weights",
    ),
    "RGCNConv, bases and blocks": (lambda: hr.nn.RGCNConv(4, 2, 3, 2, 2), "expected num_bases or num_blocks"),
    "RGCNConv, blocks": (lambda: hr.nn.RGCNConv(4, 3, 3, num_blocks=2), "that 2 blocks divide"),
    "GINEConv, columns": (
        lambda: hr.nn.GINEConv(torch.nn.Tanh(), edge_dim=2),
        "expected nn that begins with a module with in_features",
    ),
    "edge_attr without edge_dim": (lambda: hr.nn.GATConv(4, 2)(ROWS, BLOCK, torch.ones(1, 3)), "pass edge_dim="),
    "edge_weight": (lambda: hr.nn.GCNConv(4, 2)(ROWS, BLOCK, torch.ones(3)), r"expected edge_weight of \[1\]"),
    "mark_dynamic": (
        lambda: hr.nn.mark_dynamic([3]),
        "expected a MiniBatch, a Block, a tensor, or a tuple, list or dict",
    ),
    "integers in a sum": (lambda: BLOCK.aggregate(torch.ones(2, 2).long()), r"float32 or float64, got (torch\.)?int64"),
    **{
        f"{norm.__name__} {name}": (call, words)
        for norm in (hr.nn.BatchNorm, hr.nn.GraphNorm)
        for name, call, words in (
            ("columns", lambda norm=norm: norm(8)(torch.ones(1, 3), BLOCK), r"expected x of \[rows, 8\]"),
            ("size", lambda norm=norm: norm(0), "in_channels"),
            (
                "integers",
                lambda norm=norm: norm(4)(torch.ones(1, 4).long(), BLOCK),
                f"^{norm.__name__}: expected x of a floating dtype, got int64",
            ),
        )
    },
    "captured number": (lambda: hr.nn.CapturedStep(3), "expected a function of a batch, got int"),
    "captured warm_up": (
        lambda: hr.nn.CapturedStep(print, warm_up=0),
        "expected warm_up to be an integer of at least 1, got 0",
    ),
}


def idle() -> object:
    batch = next(iter(items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"]).loader()))
    model = nn.Sequential(nn.Linear(8, 3))
    model.idle = nn.Linear(2, 2)
    model.forward = model[0].forward
    return hr.cooperative(model, layers=[model.idle])(batch, batch.x)


def cooperating(name: str, **options: object) -> Callable[[], object]:
    return lambda: PLANS[name]().loader(cooperative=True, comm=LocalGroup(2).comms[0], **options)


MODELS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a layer that is not called": (idle, hr.InputError, "each of its 1 layers once"),
    "a layer of another model": (
        lambda: hr.cooperative(nn.Sequential(nn.Linear(2, 2)), layers=[nn.Linear(2, 2)]),
        hr.InputError,
        "expected layers of the model, got a Linear as layer 0",
    ),
    "names of layers": (
        lambda: hr.cooperative(nn.Sequential(nn.Linear(2, 2)), layers=["0"]),
        hr.InputError,
        "expected modules as layers, got str",
    ),
    "no layers": (
        lambda: hr.cooperative(nn.Linear(2, 2)),
        hr.InputError,
        r"expected one nn\.ModuleList in the model, with its layers, got 0",
    ),
    "no batch": (
        lambda: hr.cooperative(nn.Sequential(nn.ModuleList([OfBlock()])))(torch.zeros(2, 8), []),
        hr.InputError,
        "expected the batch as first argument, got Tensor; call cooperative",
    ),
    **{
        name: (cooperating(name), hr.PlanError, "depends on the whole frontier")
        for name in ("neighbor_new", "labor_star_new", "saint_node")
    },
    "partition of another graph": (
        cooperating("neighbor", partition=hr.Partition.hash(199, 2)),
        hr.PlanError,
        "sample_neighbor: expected a partition of the graph's 200 nodes, got one of 199",
    ),
    "no process group": (
        lambda: PLANS["neighbor"]().loader(cooperative=True, rank=0, world_size=2),
        hr.PlanError,
        "init_process_group",
    ),
    "another place than that of the channel": (
        cooperating("neighbor", rank=0, world_size=4),
        hr.PlanError,
        "rank 0 of 2, the loader of rank 0 of 4",
    ),
}


def place(**options: object) -> hr.sar.ShardedGraph:
    return hr.sar.ShardedGraph(graph(), **options)


X = torch.zeros(NUM_NODES, 2)
REDUCE = 'reduce to be "sum", "mean", "max" or "min", got '


def typed(types: torch.Tensor | None = None, num_types: int = 3) -> object:
    whole = place()
    return whole.by_type(torch.arange(whole.num_edges) % 3 if types is None else types, num_types)


SHARDS: dict[str, tuple[Callable[[], object], str]] = {
    "another number of ranks": (
        lambda: hr.sar.ShardedGraph(graph(), hr.Partition.hash(NUM_NODES, 2)),
        "a part for each of the 1 ranks, got a partition of 2 parts",
    ),
    "part of another rank": (
        lambda: hr.sar.ShardedGraph(graph().shard(hr.Partition.hash(NUM_NODES, 2), 1)),
        "expected part 0 of 1, got part 1 of 2",
    ),
    "no graph": (lambda: hr.sar.ShardedGraph("graph"), "expected an hr.Graph or a part of one, got str"),
    "mode": (lambda: place(mode="all"), "mode to be one of sar, sequential, one-shot"),
    "one shot ahead": (lambda: place(mode="one-shot", prefetch=1), 'expected prefetch=0 in mode "one-shot"'),
    "prefetch": (lambda: place(prefetch=2), "prefetch"),
    "rows": (lambda: place().rows(torch.zeros(3)), r"expected a row for each of the 200 nodes, got \[3\]"),
    "rows to aggregate": (
        lambda: place().aggregate(X[:3]),
        r"expected a row for each of the 200 nodes that rank 0 owns, got \[3, 2\]",
    ),
    "narrow rows": (lambda: place().aggregate(X.bfloat16()), r"float32 or float64, got torch\.bfloat16"),
    "weight": (
        lambda: place().aggregate(X, weight=torch.zeros(3)),
        r"weight: expected a row for each of this rank's 1500 edges, got \[3\]",
    ),
    "reduce": (lambda: place().aggregate(X, reduce="median"), REDUCE + "'median'"),
    "types below": (lambda: typed(num_types=2), r"expected numbers in \[0, 2\), got 0 to 2"),
    "types of few edges": (
        lambda: typed(torch.zeros(3).long()),
        "expected a whole number for each of this rank's 1500 edges",
    ),
    "reduce by type": (lambda: typed().aggregate(X, reduce="nonsense"), REDUCE + "'nonsense'"),
    **{
        f"weight of {number} by type": (
            lambda number=number: typed().aggregate(X, weight=torch.ones(number)),
            f"expected a row for each of this rank's 1500 edges, got .{number}",
        )
        for number in (1499, 1501)
    },
    "messages without edges": (
        lambda: place().update_all(lambda rows, *_: rows.sum(0), X.clone().requires_grad_()),
        r"expected messages of \[1, ...\], one per edge, got \[2\]",
    ),
    "no messages": (lambda: place().update_all(lambda *_: None, X.clone().requires_grad_()), "got NoneType"),
    "reduce of messages": (lambda: place().update_all(lambda rows, *_: rows, X, reduce="median"), "reduce to be"),
    "destination": (
        lambda: place().update_all(lambda rows, *_: rows, X, destination=X[:1]),
        r"destination: expected 200 rows, got \[1, 2\]",
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_refused_of_layers(name):
    call, words = LAYERS[name]
    with pytest.raises(hr.InputError, match=words):
        call()


@pytest.mark.parametrize("name", MODELS)
def test_refused_of_models(name):
    call, error, words = MODELS[name]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("name", SHARDS)
def test_refused_of_shards(name):
    call, words = SHARDS[name]
    with pytest.raises(hr.InputError, match=words):
        call()
