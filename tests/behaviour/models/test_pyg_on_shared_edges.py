"""Layers of PyG on edges that ranks share: rows and gradients are those of one process."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hybrid import KINDS, WIDTH, plan
from pyg_classes import IS_LOOP
from ranks import run_ranks
from torch import Tensor, nn

import headrace as hr

from plans import NUM_EDGES, NUM_NODES, graph

pyg = pytest.importorskip("torch_geometric.nn")
softmax = pytest.importorskip("torch_geometric.utils").softmax

OUT = 4


def mlp(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, out))


class Attending(pyg.MessagePassing):
    """A user's layer: edge features, both ends, a softmax in its message, rows of destinations in its update."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(aggr="sum", node_dim=0)
        self.lin, self.score = nn.Linear(width, out), nn.Linear(2 * out + 3, 1)

    def forward(self, x: Any, edge_index: Any, edge_attr: Tensor) -> Tensor:
        source, target = (x, x) if isinstance(x, Tensor) else x
        rows = self.lin(source), self.lin(target)
        return self.propagate(edge_index, x=rows, edge_attr=edge_attr)

    def message(self, x_i: Tensor, x_j: Tensor, edge_attr: Tensor, index: Tensor, size_i: int) -> Tensor:
        scores = self.score(torch.cat([x_i, x_j, edge_attr], 1)).tanh()
        return softmax(3 * scores, index, num_nodes=size_i) * x_j

    def update(self, aggregated: Tensor, x: Any) -> Tensor:
        return aggregated + 0.5 * x[1]


class ByKind(pyg.MessagePassing):
    """A user's layer with a map for each of two kinds of edges."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(aggr="mean", node_dim=0)
        self.maps = nn.ModuleDict({kind: nn.Linear(width + 3, out) for kind in ("few", "many")})

    def forward(self, x: Any, edge_index: Any, edge_attr: Tensor) -> Tensor:
        out = 0
        for kind, mask in (("few", edge_attr[:, 0] < 0.1), ("many", edge_attr[:, 0] >= 0.1)):
            out = out + self.propagate(edge_index[:, mask], x=x, edge_attr=2 * edge_attr[mask], kind=kind)
        return out

    def message(self, x_j: Tensor, edge_attr: Tensor, kind: str) -> Tensor:
        return self.maps[kind](torch.cat([x_j, edge_attr], 1))


class Reducing(pyg.MessagePassing):
    """A user's layer with its own aggregate: what is summed depends on the largest message."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(aggr=None, node_dim=0)
        self.lin = nn.Linear(width, out)

    def forward(self, x: Any, edge_index: Any) -> Tensor:
        source, target = (x, x) if isinstance(x, Tensor) else x
        return self.propagate(edge_index, x=(self.lin(source), self.lin(target)))

    def message(self, x_j: Tensor, x_i: Tensor) -> Tensor:
        return (x_j - x_i).sin()

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int) -> Tensor:
        places = index.view(-1, 1).expand_as(inputs)
        largest = inputs.new_zeros(dim_size, inputs.shape[1]).scatter_reduce(
            0, places, inputs, "amax", include_self=False
        )
        return inputs.new_zeros(dim_size, inputs.shape[1]).index_add(0, index, inputs * largest[index].cos())


DEGREES = torch.bincount(graph().in_degrees())
PNA = {"aggregators": ["mean", "min", "max", "std", "var", "sum"], "scalers": ["identity", "amplification"]}

#: Layers, what they take of edges, and the collectives of a rank forward and backward: two for each level.
LAYERS: dict[str, tuple[Callable[[int, int], nn.Module], str, tuple[int, int]]] = {
    "sage": (pyg.SAGEConv, "", (2, 2)),
    "sage max": (lambda width, out: pyg.SAGEConv(width, out, aggr="max"), "", (2, 2)),
    "gat": (lambda width, out: pyg.GATConv(width, out, 2, concat=False), "", (4, 4)),
    # Loops have the mean of the features of edges, which is a sum and a number.
    "gat edges": (lambda width, out: pyg.GATConv(width, out, 2, concat=False, edge_dim=3), "e", (6, 5)),
    "gatv2": (
        lambda width, out: pyg.GATv2Conv(width, out, 2, concat=False, edge_dim=3, add_self_loops=False),
        "e",
        (4, 4),
    ),
    "gin": (lambda width, out: pyg.GINConv(mlp(width, out), train_eps=True), "", (2, 2)),
    "gine": (lambda width, out: pyg.GINEConv(mlp(width, out), edge_dim=3), "e", (2, 2)),
    "graph": (pyg.GraphConv, "norm", (2, 2)),
    "transformer": (
        lambda width, out: pyg.TransformerConv(width, out, 2, concat=False, edge_dim=3, beta=True),
        "e",
        (4, 4),
    ),
    "gen": (lambda width, out: pyg.GENConv(width, out, norm=None, edge_dim=3, learn_t=True), "e", (4, 4)),
    "gen sum": (lambda width, out: pyg.GENConv(width, out, norm=None, aggr="add"), "", (2, 2)),
    "rgcn": (lambda width, out: pyg.RGCNConv(width, out, 3, num_bases=2), "type", (6, 6)),  # type by type
    "attending": (Attending, "e", (4, 4)),
    "reducing": (Reducing, "", (4, 4)),
    "by kind": (ByKind, "e", (4, 4)),
}

#: Those that take one table for both ends.
SQUARE: dict[str, tuple[Callable[[int, int], nn.Module], str, tuple[int, int]]] = {
    "gcn": (pyg.GCNConv, "", (3, 2)),
    "gcn weights": (pyg.GCNConv, "norm", (3, 3)),
    "pna": (lambda width, out: pyg.PNAConv(width, out, **PNA, deg=DEGREES, edge_dim=3), "e", (2, 2)),
    "gat edges": (lambda width, out: pyg.GATConv(width, out, 2, concat=False, edge_dim=3), "e", (6, 5)),
    "gatv2 add": (lambda width, out: pyg.GATv2Conv(width, out, edge_dim=3, fill_value="add"), "e", (5, 5)),
    "sgc": (lambda width, out: pyg.SGConv(width, out, K=2), "norm", (5, 5)),
}


class Network(nn.Module):
    """Two layers, as a model for blocks of one process has them."""

    def __init__(self, make: Callable[[int, int], nn.Module], *, is_square: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([make(WIDTH, 6), make(6, OUT)])
        self.is_square = is_square

    def forward(self, h: Tensor, blocks: Any, of_edges: list[tuple[Tensor, ...]]) -> Tensor:
        for layer, block, values in zip(self.layers, blocks, of_edges, strict=True):
            if self.is_square:
                h = layer(h, block.edge_index, *values)[: block.num_dst].tanh()
            else:
                h = layer((h, h[: block.num_dst]), block.edge_index, *values).tanh()
        return h


def values_of(batch: hr.MiniBatch, takes: str) -> list[Tensor | None]:
    """For each block what layers take of its edges."""
    if takes == "type":
        return [block.edge_ids % 3 for block in batch.blocks]
    return [one.clone().requires_grad_() for one in batch.edge[takes]] if takes else [None] * len(batch.blocks)


def step(model: nn.Module, batch: hr.MiniBatch, takes: str, comm: hr.Comm | None) -> dict[str, Any]:
    model.zero_grad()
    x, edges = batch.x.clone().requires_grad_(), values_of(batch, takes)
    out = model(batch, x, batch.blocks, [() if one is None else (one,) for one in edges])
    out.sin().sum().backward()
    if comm is not None:
        hr.sum_gradients(model, comm)
    of_edges = torch.zeros(len(edges), NUM_EDGES, 3, dtype=x.dtype)
    for number, (one, block) in enumerate(zip(edges, batch.blocks, strict=True)):
        if one is not None and one.grad is not None:
            of_edges[number].index_add_(
                0, block.edge_ids, one.grad if one.dim() > 1 else one.grad[:, None].expand(-1, 3)
            )
    seeds = torch.zeros(len(out), dtype=torch.int64).index_copy(0, batch.seed_index, batch.seeds)
    return {
        "rows": torch.zeros(NUM_NODES, OUT, dtype=x.dtype).index_add(0, seeds, out.detach()),
        "gradient of x": torch.zeros(NUM_NODES, WIDTH, dtype=x.dtype).index_add(0, batch.n_id, x.grad),
        "gradient of edges": of_edges,
        **{name: one.grad for name, one in model.named_parameters()},
    }


def steps_of(model: nn.Module, steps: hr.Plan, takes: str, comm: hr.Comm | None = None, **options: Any) -> list[Any]:
    model = copy.deepcopy(model)
    model = hr.cooperative(model, list(model.layers))
    with steps.loader(comm=comm, cooperative=comm is not None, **options) as loader:
        return [step(model, batch, takes, comm) for batch in loader]


def check(make: Any, takes: str, steps: hr.Plan, partition: hr.EdgePartition, *, is_square: bool = False) -> None:
    torch.manual_seed(3)
    model = Network(make, is_square=is_square).double()
    alone = steps_of(model, steps, takes)
    shares = run_ranks(partition.num_parts, lambda comm: steps_of(model, steps, takes, comm, partition=partition))
    for expected, *mine in zip(alone, *shares, strict=True):
        for name, whole in expected.items():
            is_parameter = name not in ("rows", "gradient of x", "gradient of edges")
            value = mine[0][name] if is_parameter else sum(one[name] for one in mine)
            if whole is None:
                assert value is None or not value.any()
                continue
            if name == "gradient of edges" and is_square:
                # PyG gives the weight of a loop a gradient also where another loop of the node has replaced it.
                value = torch.where(IS_LOOP[:, None], whole, value)
            # Some gradients are 0, as those of what a softmax leaves out.
            assert (value - whole).norm() <= 1e-12 * max(whole.norm(), 1.0), name


@pytest.mark.parametrize("name", LAYERS)
def test_rows_and_gradients_are_those_of_one_process(name):
    make, takes, _ = LAYERS[name]
    check(make, takes, plan("mini"), KINDS["grid"](graph(), 3))


@pytest.mark.parametrize("name", SQUARE)
def test_layers_that_take_one_table(name):
    make, takes, _ = SQUARE[name]
    check(make, takes, plan("mini"), KINDS["grid"](graph(), 3), is_square=True)


@pytest.mark.slow
@pytest.mark.combinations(14)
@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("strategy", ["global", "cluster", "cluster with boundary"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*LAYERS, *(f"square {name}" for name in SQUARE)])
def test_any_cut_and_strategy(name, kind, strategy, world_size):
    is_square = name.startswith("square ")
    make, takes, _ = SQUARE[name.removeprefix("square ")] if is_square else LAYERS[name]
    check(make, takes, plan(strategy), KINDS[kind](graph(), world_size), is_square=is_square)


@pytest.mark.parametrize("name", [*LAYERS, *(f"square {name}" for name in SQUARE)])
def test_ranks_meet_once_for_each_level_of_reductions(name):
    is_square = name.startswith("square ")
    make, takes, expected = SQUARE[name.removeprefix("square ")] if is_square else LAYERS[name]

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = make(WIDTH, OUT)

        def forward(self, h: Tensor, block: Any, values: Tensor | None) -> Tensor:
            before = block.comm.num_collectives
            x = h if is_square else (h, h[: block.num_dst])
            out = self.layer(x, block.edge_index, *(() if values is None else (values,)))[: block.num_dst]
            between = block.comm.num_collectives
            out.sin().sum().backward()
            self.counts = between - before, block.comm.num_collectives - between
            return out.detach()

    torch.manual_seed(3)
    model = Counting().double()

    def work(comm: hr.Comm) -> tuple[int, int]:
        mine = copy.deepcopy(model)
        partition = KINDS["grid"](graph(), 2)
        with plan("mini", 1).loader(comm=comm, cooperative=True, partition=partition) as loader:
            batch = next(iter(loader))
            hr.cooperative(mine, [mine.layer])(
                batch, batch.x.requires_grad_(), batch.blocks[0], values_of(batch, takes)[0]
            )
        return mine.counts

    assert run_ranks(2, work) == [expected] * 2


def test_batch_normalisation_inside_a_layer_goes_over_all_ranks():
    """Each row is in one rank there, too."""

    def make(width: int, out: int) -> nn.Module:
        return pyg.GINConv(nn.Sequential(nn.Linear(width, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, out)))

    check(make, "", plan("mini"), KINDS["grid"](graph(), 3))


def test_masks_of_dropout_belong_to_edges():
    """Of messages, whatever number of ranks has them; those of `nn.Dropout` are as in one process."""

    class Dropping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                [pyg.GATv2Conv(WIDTH, 4, heads=2, dropout=0.4), pyg.GATConv(8, OUT, dropout=0.3)]
            )
            self.masks: list[Tensor] = []
            self.dropout = nn.Dropout(0.5)

        def forward(self, h: Tensor, blocks: Any) -> Tensor:
            for layer, block in zip(self.layers, blocks, strict=True):
                h = layer((h, h[: block.num_dst]), block.edge_index).tanh()
                self.masks.append(self.dropout(torch.ones_like(h)))
            return torch.cat([h, self.masks[-1]], 1)

    torch.manual_seed(1)
    model = Dropping().double()

    def outcome_of(world_size: int) -> tuple[Tensor, ...]:
        def work(comm: hr.Comm | None) -> Tensor:
            mine = hr.cooperative(copy.deepcopy(model), seed=5)
            options = {} if comm is None else {"cooperative": True, "partition": KINDS["grid"](graph(), world_size)}
            with plan("mini").loader(comm=comm, **options) as loader:
                batch = next(iter(loader))
                out = mine(batch, batch.x, batch.blocks)
                out.sum().backward()
                seeds = torch.zeros(len(out), dtype=torch.int64).index_copy(0, batch.seed_index, batch.seeds)
                return torch.zeros(NUM_NODES, 2 * OUT, dtype=out.dtype).index_add(0, seeds, out.detach())

        tables = [work(None)] if world_size == 1 else run_ranks(world_size, work)
        return sum(tables).split(OUT, dim=1)

    (_, alone), (two, masks), (three, others) = map(outcome_of, (1, 2, 3))
    torch.testing.assert_close(two, three, rtol=1e-12, atol=1e-12)
    assert torch.equal(masks, alone)
    assert torch.equal(others, alone)


class OverRows(pyg.MessagePassing):
    """Normalises messages by all of them."""

    def __init__(self) -> None:
        super().__init__(node_dim=0)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Any, edge_index: Any) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_j: Tensor) -> Tensor:
        return self.norm(x_j)


class Centred(pyg.MessagePassing):
    """Subtracts the mean over rows, of which a rank has some."""

    def forward(self, x: Any, edge_index: Any) -> Tensor:
        return self.propagate(edge_index, x=(x[0] - x[0].mean(0), x[1]))


class Keeping(pyg.MessagePassing):
    """Passes messages along the edges of its first batch."""

    edges: Any = None

    def forward(self, x: Any, edge_index: Any) -> Tensor:
        self.edges = edge_index if self.edges is None else self.edges
        return self.propagate(self.edges, x=x)


class Capturing(pyg.MessagePassing):
    """Looks up rows of destinations that it does not give to propagate."""

    def forward(self, x: Any, edge_index: Any) -> Tensor:
        self.rows = x[1]
        return self.propagate(edge_index, x=x)

    def message(self, x_j: Tensor, index: Tensor) -> Tensor:
        return x_j * self.rows[index]


REFUSALS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "batch normalisation of messages": (OverRows, "batch normalisation of input rows, or inside a layer"),
    "forward": (Centred, r"row by row but for propagate.*Centred, which .*test_pyg_on_shared_edges.py:\d+"),
    "rows of destinations": (Capturing, "rows of owned nodes go to propagate"),
    "flow": (lambda: pyg.SAGEConv(WIDTH, OUT, flow="target_to_source"), "SAGEConv with flow='target_to_source'"),
    "cached": (
        lambda: pyg.GCNConv(WIDTH, OUT, cached=True),
        "expected cached=False, got .*GCNConv with cached=True",
    ),
    "kept edges": (Keeping, "got those of another one; leave out options that keep edges"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_equal_is_refused(name):
    make, reason = REFUSALS[name]
    model = Network(lambda *_: make(), is_square=False).double()
    model.layers = model.layers[:1]

    def work(comm: hr.Comm) -> None:
        mine = copy.deepcopy(model)
        with plan("mini", 1).loader(comm=comm, cooperative=True, partition=KINDS["grid"](graph(), 2)) as loader:
            together = hr.cooperative(mine, list(mine.layers))
            for batch in loader:
                together(batch, batch.x, batch.blocks, [()])

    with pytest.raises(hr.InputError, match=reason):
        run_ranks(2, work)
