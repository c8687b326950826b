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
