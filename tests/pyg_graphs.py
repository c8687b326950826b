"""Fixtures: graphs as PyG keeps them."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.testing import MyFeatureStore, MyGraphStore

NUM_NODES, NUM_EDGES = 120, 700


@pytest.fixture
def data() -> Data:
    """Edges unsorted, with self-loops, repeated edges and nodes without any; attributes tell where they come from."""
    generator = torch.Generator().manual_seed(3)
    edge_index = torch.randint(0, NUM_NODES - 5, (2, NUM_EDGES), generator=generator)
    edge_index[:, 30:40] = edge_index[:, 20:30]
    edge_index[0, :5] = edge_index[1, :5]
    return Data(
        x=torch.arange(NUM_NODES * 3.0).reshape(-1, 3),
        y=torch.arange(NUM_NODES) % 4,
        edge_index=edge_index,
        edge_attr=torch.arange(NUM_EDGES * 2.0).reshape(-1, 2),
        edge_weight=torch.rand(NUM_EDGES, generator=generator),
        train_mask=torch.arange(NUM_NODES) % 3 == 0,
    )


@pytest.fixture
def undirected(data) -> Data:
    """The same with every edge in both directions, once, without self-loops."""
    source, destination = data.edge_index
    one_way = source < destination
    pairs = torch.stack([source[one_way], destination[one_way]]).unique(dim=1)
    edge_index = torch.cat([pairs, pairs.flip(0)], 1)
    weight = torch.rand(pairs.shape[1], generator=torch.Generator().manual_seed(4)).repeat(2)
    return Data(x=data.x / 100, y=data.y, edge_index=edge_index, edge_weight=weight)


SIZES = {"paper": 60, "author": 40, "venue": 5}
RELATIONS = {
    ("paper", "cites", "paper"): 200,
    ("author", "writes", "paper"): 150,
    ("paper", "rev_writes", "author"): 150,
    ("venue", "prints", "paper"): 60,
}


@pytest.fixture
def hetero() -> HeteroData:
    """Attributes tell where they come from; venues have none, one relation has no attribute."""
    generator = torch.Generator().manual_seed(5)
    made = HeteroData()
    made["paper"].x = torch.arange(60 * 2.0).reshape(-1, 2)
    made["paper"].y = torch.arange(60) % 3
    made["paper"].train_mask = torch.arange(60) % 2 == 0
    made["author"].x = torch.arange(40 * 3.0).reshape(-1, 3)
    made["venue"].num_nodes = 5
    for name, size in RELATIONS.items():
        ends = [torch.randint(0, SIZES[end], (size,), generator=generator) for end in (name[0], name[2])]
        made[name].edge_index = torch.stack(ends)
        made[name].edge_attr = torch.arange(size * 1.0)
    made["author", "writes", "paper"].edge_weight = torch.rand(150, generator=generator)
    made["paper", "rev_writes", "author"].edge_index = made["author", "writes", "paper"].edge_index.flip(0)
    del made["venue", "prints", "paper"].edge_attr
    made.title = "a graph"
    return made


@pytest.fixture
def stores(data) -> tuple[MyFeatureStore, MyGraphStore]:
    """The graph without types in stores, with features of nodes."""
    features, graph = MyFeatureStore(), MyGraphStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    size = (data.num_nodes, data.num_nodes)
    graph.put_edge_index(tuple(data.edge_index), edge_type=None, layout="coo", size=size)
    return features, graph


@pytest.fixture
def typed_stores(hetero) -> tuple[MyFeatureStore, MyGraphStore]:
    """The graph with types in stores, with features of nodes."""
    features, graph = MyFeatureStore(), MyGraphStore()
    for name in ("paper", "author"):
        features.put_tensor(hetero[name].x, group_name=name, attr_name="x", index=None)
    for name in hetero.edge_types:
        size = (hetero[name[0]].num_nodes, hetero[name[2]].num_nodes)
        graph.put_edge_index(tuple(hetero[name].edge_index), edge_type=name, layout="coo", size=size)
    return features, graph
