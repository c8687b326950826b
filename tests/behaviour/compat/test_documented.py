"""What PyG's documentation shows of its loaders runs with another import alone, without pyg-lib and torch-sparse."""

from __future__ import annotations

import importlib.util

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch_geometric.nn import GraphSAGE, SAGEConv, to_hetero

import headrace.pyg
from headrace.pyg import (
    ClusterData,
    ClusterLoader,
    GraphSAINTRandomWalkSampler,
    LinkNeighborLoader,
    NeighborLoader,
)


@pytest.mark.parametrize("name", headrace.pyg.__all__)
def test_public_names_are_pygs(name):
    """Each but `Sampler`, which is the base class of PyG's samplers filled in, is a name of PyG's."""
    import torch_geometric.loader
    import torch_geometric.utils

    assert name == "Sampler" or hasattr(torch_geometric.loader, name) or hasattr(torch_geometric.utils, name)


def test_neither_pyg_lib_nor_torch_sparse_is_there():
    assert importlib.util.find_spec("pyg_lib") is None
    assert importlib.util.find_spec("torch_sparse") is None


def test_training_on_nodes(undirected):
    train_mask = torch.arange(undirected.num_nodes) < 90
    loader = NeighborLoader(undirected, num_neighbors=[30] * 2, batch_size=32, input_nodes=train_mask, shuffle=True)
    model = GraphSAGE(3, 16, num_layers=2, out_channels=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(3):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_training_on_nodes_of_a_type(hetero):
    data = T.ToUndirected()(hetero)
    data["venue"].x = torch.ones(5, 1)
    loader = NeighborLoader(
        data,
        num_neighbors={key: [15] * 2 for key in data.edge_types},
        batch_size=16,
        input_nodes=("paper", data["paper"].train_mask),
    )
    assert next(iter(loader))["paper"].batch_size == 16

    class GNN(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), 3)

        def forward(self, x, edge_index):
            return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

    model = to_hetero(GNN(), data.metadata())
    with torch.no_grad():
        batch = next(iter(loader))
        model(batch.x_dict, batch.edge_index_dict)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in loader:
        size = batch["paper"].batch_size
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch.x_dict, batch.edge_index_dict)["paper"][:size], batch["paper"].y[:size])
        loss.backward()
        optimizer.step()


def test_clusters_and_saint(undirected):
    model = GraphSAGE(3, 8, num_layers=2, out_channels=4)
    clusters = ClusterData(undirected, num_parts=8, recursive=False, log=False)
    for batch in ClusterLoader(clusters, batch_size=2, shuffle=True, num_workers=2):
        F.cross_entropy(model(batch.x, batch.edge_index), batch.y).backward()
    loader = GraphSAINTRandomWalkSampler(
        undirected, batch_size=20, walk_length=2, num_steps=3, sample_coverage=20, log=False
    )
    for batch in loader:
        loss = F.cross_entropy(model(batch.x, batch.edge_index), batch.y, reduction="none")
        (loss * batch.node_norm).sum().backward()


def test_training_on_links(undirected):
    loader = LinkNeighborLoader(
        undirected,
        num_neighbors=[30] * 2,
        batch_size=64,
        edge_label_index=undirected.edge_index,
        neg_sampling_ratio=1.0,
        shuffle=True,
    )
    model = GraphSAGE(3, 16, num_layers=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in loader:
        optimizer.zero_grad()
        h = model(batch.x, batch.edge_index)
        score = (h[batch.edge_label_index[0]] * h[batch.edge_label_index[1]]).sum(-1)
        loss = F.binary_cross_entropy_with_logits(score, batch.edge_label)
        loss.backward()
        optimizer.step()


def test_training_on_triplets(undirected):
    loader = LinkNeighborLoader(undirected, num_neighbors=[10] * 2, batch_size=64, neg_sampling="triplet")
    model = GraphSAGE(3, 16, num_layers=2)
    for batch in loader:
        h = model(batch.x, batch.edge_index)
        better = (h[batch.src_index] * h[batch.dst_pos_index]).sum(-1)
        worse = (h[batch.src_index] * h[batch.dst_neg_index]).sum(-1)
        F.softplus(worse - better).mean().backward()


def test_training_on_nodes_in_time(hetero):
    """Of PyG's page on temporal sampling: papers have years, and nothing later than a seed is drawn for it."""
    del hetero["venue"], hetero["venue", "prints", "paper"]
    hetero["paper"].time = torch.arange(60) % 12 + 2000
    loader = NeighborLoader(
        hetero,
        num_neighbors=[10, 10],
        input_nodes=("paper", hetero["paper"].train_mask),
        time_attr="time",
        temporal_strategy="last",
        batch_size=16,
        shuffle=True,
    )
    model = to_hetero(GraphSAGE((-1, -1), 8, num_layers=2, out_channels=3), hetero.metadata())
    with torch.no_grad():
        model(hetero.x_dict, hetero.edge_index_dict)
    for batch in loader:
        paper, size = batch["paper"], batch["paper"].batch_size
        seed_time = paper.time[:size]
        assert (paper.time <= seed_time[paper.batch]).all()
        out = model(batch.x_dict, batch.edge_index_dict)["paper"]
        F.cross_entropy(out[:size], paper.y[:size]).backward()


def test_training_on_links_in_time(undirected):
    """Links with times of their own: what is sampled for them was there by then."""
    undirected.time = torch.arange(undirected.num_nodes) % 30
    edge_label_index = undirected.edge_index
    edge_label_time = undirected.time[edge_label_index].max(0).values
    loader = LinkNeighborLoader(
        undirected,
        num_neighbors=[10, 10],
        edge_label_index=edge_label_index,
        edge_label_time=edge_label_time,
        time_attr="time",
        neg_sampling="binary",
        batch_size=64,
        shuffle=True,
    )
    model = GraphSAGE(3, 16, num_layers=2)
    for batch in loader:
        assert (batch.time <= batch.edge_label_time[batch.batch]).all(), "trees are numbered as their links"
        h = model(batch.x, batch.edge_index)
        score = (h[batch.edge_label_index[0]] * h[batch.edge_label_index[1]]).sum(-1)
        F.binary_cross_entropy_with_logits(score, batch.edge_label).backward()
