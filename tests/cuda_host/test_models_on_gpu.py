"""What models do with rows on a GPU: the host does not wait for ids and edges that headrace itself has made."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.cuda.faults import Faults
from headrace.ops import gather_rows_with_grad
from headrace.pipeline.distributed.exchange import Exchange
from headrace.pipeline.models.nn.gat import AttentionKeys, Masks

from cuda_host.graph_model import NoReads, NoWaits
from cuda_host.stand_in import StandIn


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    backend = StandIn()
    with stand_in(backend):
        yield backend


def refuse(self, *sizes):
    raise AssertionError("the host waits")


@pytest.fixture
def refuse_to_wait(monkeypatch):
    monkeypatch.setattr(Faults, "check", refuse)


def test_rows_of_a_layer_are_delivered_without_a_wait(refuse_to_wait, gpu):
    """To this rank alone: what it sends is nothing, and still goes through the gather and the sum."""
    nothing, nodes = torch.empty(0, dtype=torch.int64), torch.arange(3)
    exchange = Exchange(nodes, nodes, 3, nothing, (0,), (0,))
    rows = torch.randn(3, 4, requires_grad=True)
    delivered = exchange.deliver(rows, hr.testing.LocalGroup(1).comms[0])
    assert torch.equal(delivered, rows)
    (gradient,) = torch.autograd.grad(delivered.sum(), rows)
    assert torch.equal(gradient, torch.ones(3, 4))


def test_gradients_of_a_gather_do_not_wait_once_more(gpu, monkeypatch):
    source = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    rows = gather_rows_with_grad(source, torch.tensor([3, 0, 3]))
    monkeypatch.setattr(Faults, "check", None)
    (gradient,) = torch.autograd.grad((rows * rows.detach()).sum(), source)
    expected = torch.zeros(9, 4, dtype=torch.float64)
    expected[0], expected[3] = source[0].detach(), 2 * source[3].detach()
    assert torch.equal(gradient, expected)
    assert any("scatter_add_rows" in launched for launched in gpu.launches)


def batches(*, pad: bool):
    """Batches that come to the GPU, of a graph with loops."""
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(90, (2, 600), generator=generator)
    src[:60] = dst[:60]
    graph = hr.Graph.from_coo(src, dst, num_nodes=90)
    store = hr.FeatureStore(node={"x": torch.randn(90, 6, generator=generator)})
    plan = hr.ItemSampler(30, batch_size=15, seed=0).sample_neighbor(graph, [3, 3]).fetch_feature(store, node=["x"])
    plan = plan.pad() if pad else plan
    return list(plan.copy_to("cuda").loader(machine=hr.Machine(cores=2, gpus=1)))


def gat(*columns, **options):
    return hr.nn.GATConv(*columns, heads=2, concat=False, **options)


LAYERS = {
    "sage": hr.nn.SAGEConv,
    "max": lambda *columns: hr.nn.SAGEConv(*columns, aggr="max"),
    "gin": lambda *columns: hr.nn.GINConv(nn.Linear(*columns)),
    "gcn": hr.nn.GCNConv,
    "cluster": hr.nn.ClusterGCNConv,
    "gat": gat,
    "gat, dropout": lambda *columns: gat(*columns, dropout=0.4),
    "gat, edges": lambda *columns: gat(*columns, edge_dim=2),
}


def step(layers, batch):
    """Gradients of a model of two layers."""
    h = batch.x
    for layer, block in zip(layers, batch.blocks, strict=True):
        has_edges = getattr(layer, "edge_dim", None) is not None
        h = layer(h, block, *([torch.ones(block.num_edges, 2)] if has_edges else []))
    return torch.autograd.grad(h.sum(), tuple(layers.parameters()))


@pytest.mark.slow
@pytest.mark.parametrize("pad", [False, True], ids=["plain", "padded"])
@pytest.mark.parametrize("name", LAYERS)
def test_no_layer_waits_for_a_batch_of_the_loader(name, pad, monkeypatch):
    torch.manual_seed(0)
    layers = nn.ModuleList([LAYERS[name](6, 8), LAYERS[name](8, 4)])
    batch = batches(pad=pad)[0]
    monkeypatch.setattr(Faults, "check", refuse)
    monkeypatch.setattr(AttentionKeys, "next", lambda *_: Masks(7))  # which the CPU draws
    with NoReads(), NoWaits():
        gradients = step(layers, batch)
    assert all(one.isfinite().all() for one in gradients)


def test_masks_of_attention_are_those_of_a_cpu(gpu):
    """Where edges from a node to itself stay in place, other edges keep their names."""
    torch.manual_seed(0)
    layers, batch = nn.ModuleList([LAYERS["gat, dropout"](6, 8), LAYERS["gat, dropout"](8, 4)]), batches(pad=False)[0]
    torch.manual_seed(1)
    found = step(layers, batch)
    with stand_in(None):
        copies = batch.replace(blocks=tuple(dataclasses.replace(block) for block in batch.blocks))
        torch.manual_seed(1)
        expected = step(layers, copies)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("of", ["constructor", "replace"])
def test_blocks_of_others_are_looked_at(of):
    block = batches(pad=False)[0].blocks[0]
    indices = block.indices.clone()
    indices[3] = block.num_src
    if of == "constructor":
        wrong = hr.Block(block.indptr, indices, block.num_src, block.num_dst)
    else:
        wrong = dataclasses.replace(block, indices=indices)
    x = torch.ones(block.num_src, 6)
    for layer in (hr.nn.SAGEConv(6, 2), hr.nn.GCNConv(6, 2, normalize=False), gat(6, 2, add_self_loops=False)):
        with pytest.raises(hr.InputError, match=rf"indices\[3\] = {block.num_src} has no row"):
            layer(x, wrong)
