"""Global-batch, mini-batch and cluster-batch: one model, three sources, and where their answers must be the same."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
import torch
from ranks import partition
from torch import nn
from training import NUM_CLASSES, WIDTH, assert_equal_training

import headrace as hr

from plans import NUM_NODES, graph

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")

NUM_LAYERS = 2
CLUSTERS = hr.Partition.hash(NUM_NODES, 5)


class Gcn(nn.Module):
    """Graph convolutions whose normalisation is a feature of edges."""

    def __init__(self, num_layers: int = NUM_LAYERS) -> None:
        super().__init__()
        widths = [WIDTH, *[8] * (num_layers - 1), NUM_CLASSES]
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))

    def forward(self, batch: hr.MiniBatch) -> torch.Tensor:
        h = batch.x
        for number, (layer, block) in enumerate(zip(self.layers, batch.blocks, strict=True)):
            h = torch.sparse.mm(block.adj_t(batch.edge["norm"][number].to(h.dtype)), layer(h))
            h = h.tanh() if number < len(self.layers) - 1 else h
        return h


@cache
def looped() -> hr.Graph:
    return hr.Graph.from_coo(*edges(), num_nodes=NUM_NODES).with_self_loops()


def edges() -> tuple[torch.Tensor, torch.Tensor]:
    one = graph()
    return one.indices.long(), torch.arange(NUM_NODES).repeat_interleave(one.in_degrees())


def store(one: hr.Graph, norm: torch.Tensor | None = None) -> hr.FeatureStore:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(NUM_NODES, WIDTH, generator=generator, dtype=torch.float64)
    y = torch.arange(NUM_NODES) % NUM_CLASSES
    return hr.FeatureStore(node={"x": x, "y": y}, edge={"norm": hr.gcn_norm(one) if norm is None else norm})


def logits(source: hr.Plan, one: hr.Graph, features: hr.FeatureStore) -> torch.Tensor:
    """The output for every node, float64[num_nodes, num_classes]; of nodes that are no seeds it holds no numbers."""
    torch.manual_seed(0)
    model = Gcn().double()
    out = torch.full((NUM_NODES, NUM_CLASSES), torch.nan, dtype=torch.float64)
    plan = source.sample_in_subgraph(one, num_hops=NUM_LAYERS).fetch_feature(features, node=["x"], edge=["norm"])
    for batch in plan.loader():
        out[batch.seeds] = model(batch)[batch.seed_index].detach()
    return out


@pytest.mark.parametrize("boundary", [NUM_LAYERS, None])
def test_with_a_boundary_as_deep_as_the_model_all_strategies_agree(boundary):
    features = store(looped())
    expected = logits(hr.GlobalBatch(looped()), looped(), features)
    assert bool(expected.isfinite().all())
    mini = logits(hr.ItemSampler(NUM_NODES, batch_size=23), looped(), features)
    clusters = logits(hr.ClusterSampler(CLUSTERS, 2, boundary=boundary), looped(), features)
    assert torch.allclose(mini, expected, rtol=0, atol=1e-5)
    assert torch.allclose(clusters, expected, rtol=0, atol=1e-5)


def test_without_one_a_cluster_is_the_subgraph_that_it_induces():
    found = logits(hr.ClusterSampler(CLUSTERS, shuffle=False), looped(), store(looped()))
    norm = hr.gcn_norm(looped())
    for cluster in range(CLUSTERS.num_parts):
        nodes = CLUSTERS.owned(cluster)
        inside = torch.zeros(NUM_NODES, dtype=torch.bool)
        inside[nodes] = True
        kept = edges_of(looped())
        ids = (inside[kept[0]] & inside[kept[1]]).nonzero().reshape(-1)
        induced = hr.Graph.from_coo(kept[0][ids], kept[1][ids], num_nodes=NUM_NODES)
        expected = logits(hr.GlobalBatch(induced), induced, store(induced, norm[ids]))
        assert torch.allclose(found[nodes], expected[nodes], rtol=0, atol=1e-12)
    assert not torch.allclose(found, logits(hr.GlobalBatch(looped()), looped(), store(looped())), atol=1e-3)


def edges_of(one: hr.Graph) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources and destinations, in the order of edge ids."""
    source, target = torch.empty(2, one.num_edges, dtype=torch.int64)
    source[one.edge_ids.long()] = one.indices.long()
    target[one.edge_ids.long()] = torch.arange(NUM_NODES).repeat_interleave(one.in_degrees())
    return source, target


def test_one_cluster_is_the_global_batch():
    one = hr.Partition.of(torch.zeros(NUM_NODES, dtype=torch.int64))
    features = store(looped())
    expected = logits(hr.GlobalBatch(looped()), looped(), features)
    assert torch.equal(logits(hr.ClusterSampler(one), looped(), features), expected)


class OfBatch(nn.Module):
    """The model with the arguments that `training.train` gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Convolution(*pair) for pair in ((WIDTH, 8), (8, NUM_CLASSES)))

    def forward(self, h: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        for layer, block in zip(self.layers, blocks, strict=True):
            h = layer(h, block)
        return h


class Convolution(nn.Module):
    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_in, num_out)

    def forward(self, h: torch.Tensor, block: hr.Block) -> torch.Tensor:
        ones = torch.ones(block.num_edges, dtype=h.dtype)
        degree = block.indptr.diff().clamp(min=1)[:, None]
        return (self.linear(torch.sparse.mm(block.adj_t(ones), h)) / degree).tanh()


SOURCES = {
    "global": lambda: hr.GlobalBatch(looped(), seed=1),
    "mini": lambda: hr.ItemSampler(NUM_NODES, batch_size=64, shuffle=True, seed=1),
    "cluster": lambda: hr.ClusterSampler(CLUSTERS, 2, seed=1),
    "cluster with boundary": lambda: hr.ClusterSampler(CLUSTERS, 2, boundary=1, seed=1),
}


@pytest.mark.combinations(6)
@pytest.mark.slow
@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("kind", ["hash", "table"])
@pytest.mark.parametrize("name", SOURCES)
def test_ranks_train_together_as_one_process_does(name, kind, world_size):
    torch.manual_seed(0)
    model = OfBatch().double()
    features = store(looped())
    plan = SOURCES[name]().sample_in_subgraph(looped(), num_hops=2).fetch_feature(features, node=["x"], labels="y")
    assert_equal_training(plan, model, world_size, 1e-9, partition=partition(kind, world_size))
