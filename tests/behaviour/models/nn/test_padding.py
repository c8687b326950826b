"""Layers on padded blocks: seeds have their outputs, and parameters their gradients, whatever padding holds."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import headrace as hr

NUM_NODES = 600


def plan():
    """Batches of 90 seeds, and one of 40; in-degrees are at most 2, so that means of small integers are exact."""
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(NUM_NODES, (2, 4_000), generator=generator)
    src[:300] = dst[:300]  # some lead from a node to itself
    graph = hr.Graph.from_coo(src, dst, num_nodes=NUM_NODES)
    x = torch.randint(-4, 5, (NUM_NODES, 6), generator=generator).double()
    store = hr.FeatureStore(node={"x": x, "y": torch.randint(4, (NUM_NODES,), generator=generator)})
    items = hr.ItemSampler(400, batch_size=90, shuffle=True, seed=0)
    return items.sample_neighbor(graph, [2, 2]).fetch_feature(store, node=["x"], labels="y")


def two(make):
    """Two layers, whose parameters are small integers."""
    torch.manual_seed(0)
    layers = nn.ModuleList([make(6, 8), make(8, 4)]).double()
    for parameter in layers.parameters():
        parameter.data = torch.randint(-2, 3, parameter.shape).double()
    return layers


def stepped(layers, batch, *, fill=0.0, exact=False):
    """The outputs of seeds and the gradients of parameters, where padding holds `fill`."""
    layers.zero_grad()
    x = batch.x
    if fill:
        x = torch.where(batch.node_mask[:, None], x, fill)
    h = layers[0](x, batch.blocks[0]).relu()
    out = layers[1](h, batch.blocks[1])[batch.seed_index]
    real = out[: batch.num_seeds]
    loss = (real * batch.y[: batch.num_seeds, None]).sum() if exact else cross_entropy(out, batch.y, reduction="sum")
    loss.backward()
    return [real.detach(), *(parameter.grad.clone() for parameter in layers.parameters())]


LAYERS = {
    "sage": hr.nn.SAGEConv,
    "sage, sum": lambda *columns: hr.nn.SAGEConv(*columns, aggr="sum"),
    "sage, max": lambda *columns: hr.nn.SAGEConv(*columns, aggr="max"),
    "gin": lambda *columns: hr.nn.GINConv(nn.Linear(*columns)),
    "gcn": hr.nn.GCNConv,
    "cluster": hr.nn.ClusterGCNConv,
    "gat": lambda inputs, outputs: hr.nn.GATConv(inputs, outputs // 2, heads=2),
    "gatv2": lambda inputs, outputs: hr.nn.GATv2Conv(inputs, outputs // 2, heads=2),
    "transformer": lambda inputs, outputs: hr.nn.TransformerConv(inputs, outputs // 2, heads=2),
    "graph": hr.nn.GraphConv,
    "pool": lambda *columns: hr.nn.SAGEConv(*columns, aggr="max", project=True),
    "pna": lambda *columns: hr.nn.PNAConv(*columns, ["mean", "max", "std"], ["amplification"], torch.ones(4), towers=2),
}
EXACT = ("sage", "sage, sum", "sage, max", "gin")


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_and_gradients_do_not_depend_on_padding_in_any_bit(name):
    layers = two(LAYERS[name])
    for batch, padded in zip(plan().loader(), plan().pad().loader(), strict=True):
        expected = stepped(layers, padded)
        for fill in (math.nan, 1e30):
            assert all(map(torch.equal, stepped(layers, padded, fill=fill), expected))
        for found, without in zip(expected, stepped(layers, batch), strict=True):
            torch.testing.assert_close(found, without, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_they_are_those_without_padding_in_every_bit(name):
    """Over numbers of which all sums are exact: a product of matrices adds up more rows in another order."""
    layers = two(LAYERS[name])
    for batch, padded in zip(plan().loader(), plan().pad().loader(), strict=True):
        found = stepped(layers, padded, fill=math.nan, exact=True)
        assert all(map(torch.equal, found, stepped(layers, batch, exact=True)))


def test_labels_of_padding_are_no_part_of_a_mean():
    layers = two(hr.nn.SAGEConv)
    for batch, padded in zip(plan().loader(), plan().pad().loader(), strict=True):
        losses = [
            cross_entropy(layers[1](layers[0](one.x, one.blocks[0]), one.blocks[1])[one.seed_index], one.y)
            for one in (batch, padded)
        ]
        torch.testing.assert_close(*losses, rtol=1e-9, atol=0)


def test_a_model_in_hr_cooperative_on_one_process_masks_padding():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([hr.nn.SAGEConv(6, 8), hr.nn.SAGEConv(8, 4)])

        def forward(self, x, blocks):
            return self.convs[1](self.convs[0](x, blocks[0]), blocks[1])

    batch = next(iter(plan().pad().loader()))
    x = torch.where(batch.node_mask[:, None], batch.x, math.nan)
    out = hr.cooperative(Model().double())(batch, x, batch.blocks)
    assert not out.isnan().any()


def typed_plan():
    """Authors and papers, with edges both ways and among papers."""
    generator = torch.Generator().manual_seed(0)
    sizes = {"author": 200, "paper": 300}
    edges = {
        name: tuple(torch.randint(sizes[end], (900,), generator=generator) for end in (name[0], name[2]))
        for name in (("author", "writes", "paper"), ("paper", "by", "author"), ("paper", "cites", "paper"))
    }
    graph = hr.Graph.from_coo(edges, num_nodes=sizes)
    x = {(name, "x"): torch.randint(-4, 5, (size, 6), generator=generator).double() for name, size in sizes.items()}
    store = hr.FeatureStore(node={**x, ("paper", "y"): torch.randint(4, (300,), generator=generator)})
    items = hr.ItemSampler({"paper": 300}, batch_size=70, shuffle=True, seed=0)
    sampled = items.sample_neighbor(graph, [2, 2])
    return sampled.fetch_feature(store, node={name: ["x"] for name in sizes}, labels={"paper": "y"})


def masked(x, mask):
    return x if mask is None else torch.where(mask[:, None], x, 0)


class OfRelations(nn.Module):
    """Two layers of sums over each relation, on rows by type."""

    def __init__(self, relations):
        super().__init__()
        names = ["_".join(name) for name in relations]
        self.layers = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(6, 6) for name in (*names, "author", "paper")}) for _ in range(2)
        )

    def forward(self, rows, relations):
        for layer, blocks in zip(self.layers, relations, strict=True):
            own = dict.fromkeys(rows)
            for (source, relation, destination), block in blocks.items():
                x = masked(rows[source], getattr(block, "src_mask", None))
                sums = layer[f"{source}_{relation}_{destination}"](block.aggregate(x))
                before = own[destination]
                if before is None:
                    first = masked(rows[destination][: len(sums)], getattr(block, "dst_mask", None))
                    before = layer[destination](first)
                own[destination] = before + sums
            rows = {name: out.relu() for name, out in own.items() if out is not None}
        return rows["paper"]


def of_relations(batch, *, fill=0.0):
    """What the model takes."""
    types = batch.types
    rows = {}
    for (name, _), x in batch.node.items():
        is_real = types.within(name) >= 0
        rows[name] = torch.where(is_real[:, None], x, fill) if fill else x
    names = types.edge_types.names
    return rows, tuple({name: block.relation(name) for name in names} for block in batch.blocks)


def typed_step(model, batch, **options):
    model.zero_grad()
    out = model(*of_relations(batch, **options))[batch.types.numbers[batch.seed_index]]
    loss = cross_entropy(out, batch.y, reduction="sum")
    loss.backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    return [out[: batch.num_seeds].detach(), *gradients]


def test_relations_do_not_depend_on_padding_in_any_bit():
    torch.manual_seed(0)
    model = OfRelations(next(iter(typed_plan().loader())).types.edge_types.names).double()
    for batch, padded in zip(typed_plan().loader(), typed_plan().pad().loader(), strict=True):
        expected = typed_step(model, padded)
        assert all(map(torch.equal, typed_step(model, padded, fill=math.nan), expected))
        for found, without in zip(expected, typed_step(model, batch), strict=True):
            torch.testing.assert_close(found, without, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(torch.library, "register_autograd"), reason="torch before 2.4 compiles no layers")
def test_models_of_relations_are_one_graph_and_compiled_at_most_twice():
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    torch.manual_seed(0)
    model = OfRelations(next(iter(typed_plan().loader())).types.edge_types.names).double()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    for batch in typed_plan().pad().loader():
        for eager, found in zip(typed_step(model, batch), typed_step(compiled, batch), strict=True):
            torch.testing.assert_close(found, eager, rtol=1e-5, atol=1e-5)
    assert counter.frame_count <= 2


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(torch.library, "register_autograd"), reason="torch before 2.4 compiles no layers")
def test_models_are_one_graph_and_compiled_at_most_twice():
    """For full batches, and for the last of an epoch; sizes are not marked."""
    from torch._dynamo.testing import CompileCounterWithBackend

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([hr.nn.SAGEConv(6, 8), hr.nn.GATConv(8, 4)])

        def forward(self, x, blocks):
            return self.convs[1](self.convs[0](x, blocks[0]).relu(), blocks[1])

    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Model().double()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    loader = plan().pad(epochs=2).loader()
    for _ in loader.epochs(2):
        for batch in loader:
            results = []
            for run in (model, compiled):
                loss = cross_entropy(run(batch.x, batch.blocks)[batch.seed_index], batch.y)
                results.append([loss, *torch.autograd.grad(loss, tuple(model.parameters()))])
            for eager, found in zip(*results, strict=True):
                torch.testing.assert_close(found, eager, rtol=1e-5, atol=1e-5)
    assert counter.frame_count <= 2


def with_edge_features():
    """A batch of the plan with two features of edges, and the same batch with padding."""
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(NUM_NODES, (2, 4_000), generator=generator)
    graph = hr.Graph.from_coo(src, dst, num_nodes=NUM_NODES)
    store = hr.FeatureStore(
        node={"x": torch.randn(NUM_NODES, 6, generator=generator).double(), "y": torch.arange(NUM_NODES) % 4},
        edge={"far": torch.rand(4_000, 2, generator=generator).double() + 0.5},
    )
    items = hr.ItemSampler(100, batch_size=90, seed=0).sample_neighbor(graph, [3], edge_ids=True)
    fetched = items.fetch_feature(store, node=["x"], edge=["far"], labels="y")
    padded = fetched.pad(num_nodes=[95, 300], num_edges=[300])
    return [next(iter(one.loader())) for one in (fetched, padded)]


class OfEdges(nn.Module):
    """Calls a layer, or an aggregation of rows, with an array of edges."""

    def __init__(self, name):
        super().__init__()
        self.name, self.lin = name, nn.Linear(6, 4)
        self.conv = {
            "gcn": lambda: hr.nn.GCNConv(6, 4),
            "gcn, given norm": lambda: hr.nn.GCNConv(6, 4, normalize=False),
            "gat": lambda: hr.nn.GATConv(6, 4, edge_dim=2),
            "gatv2": lambda: hr.nn.GATv2Conv(6, 4, edge_dim=2),
            "transformer": lambda: hr.nn.TransformerConv(6, 4, edge_dim=2),
            "gine": lambda: hr.nn.GINEConv(nn.Linear(6, 4), edge_dim=2),
            "pna": lambda: hr.nn.PNAConv(6, 4, ["mean", "std"], ["linear"], torch.ones(4), edge_dim=2),
        }.get(name, nn.Identity)()

    def forward(self, x, block, edge):
        if self.name in ("gat", "gatv2", "transformer", "gine", "pna"):
            return self.conv(x, block, edge)
        if self.name.startswith("gcn"):
            return self.conv(x, block, edge[:, 0])
        rows = self.lin(x)
        if self.name == "attend":
            scores = rows[:, :1], rows[: len(block.indptr) - 1, :1]
            return block.attend(rows[:, None], *scores, edge_scores=edge[:, :1])[:, 0]
        return block.aggregate(rows, reduce=self.name, weight=edge[:, 0])


OF_EDGES = ["gcn", "gcn, given norm", "gat", "gatv2", "transformer", "gine", "pna", "attend", "sum", "mean", "max"]
COMPILED = pytest.param(
    True,
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif(
            not hasattr(torch.library, "register_autograd"), reason="torch before 2.4 compiles no layers"
        ),
    ],
)


@pytest.mark.parametrize("compiled", [False, COMPILED])
@pytest.mark.parametrize("name", OF_EDGES)
def test_padding_of_arrays_of_edges_may_hold_anything(name, compiled):
    """The features of edges are divided by: those of padding, 0, become inf."""
    torch.manual_seed(0)
    model = OfEdges(name).double()
    run = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
    results = []
    for batch in with_edge_features():
        model.zero_grad()
        block = batch.blocks[0]
        edge = (1 / batch.edge["far"][0]).requires_grad_()
        out = run(batch.x, block, edge)[batch.seed_index]
        cross_entropy(out, batch.y, reduction="sum").backward()
        gradients = [one.grad.clone() for one in model.parameters() if one.grad is not None]
        results.append([out[: batch.num_seeds].detach(), edge.grad[block.edge_ids >= 0], *gradients])
    for found, without in zip(*reversed(results), strict=True):
        torch.testing.assert_close(found, without, rtol=1e-9, atol=1e-9)
