"""What a batch of the PyG loaders is: seeds, nodes, edges and their ids (peers.md, part A, section 5, 1 to 7)."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch_geometric.data import Data

from headrace.pyg import NeighborLoader


def pairs_of(edge_index):
    return set(map(tuple, edge_index.t().tolist()))


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_peers_01_mapping_identity(data, subgraph_type, num_workers):
    loader = NeighborLoader(
        data, [4, 3], batch_size=32, shuffle=True, subgraph_type=subgraph_type, num_workers=num_workers, seed=1
    )
    for batch in loader:
        found = batch.n_id[batch.edge_index]
        wanted = data.edge_index[:, batch.e_id]
        there = (found == wanted).all(0)
        if subgraph_type == "bidirectional":
            there |= (found.flip(0) == wanted).all(0)
        assert there.all()
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])


@pytest.mark.parametrize("drop_last", [False, True])
def test_peers_02_seeds_come_first(data, drop_last):
    nodes = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))[:50]
    loader = NeighborLoader(data, [3, 3], input_nodes=nodes, batch_size=16, drop_last=drop_last)
    batches = list(loader)
    assert len(batches) == len(loader) == (3 if drop_last else 4)
    assert [batch.batch_size for batch in batches] == [16, 16, 16, 2][: len(batches)]
    for number, batch in enumerate(batches):
        assert torch.equal(batch.n_id[: batch.batch_size], nodes[16 * number : 16 * (number + 1)])
        assert torch.equal(nodes[batch.input_id], batch.n_id[: batch.batch_size])
        assert type(batch.batch_size) is int


def test_peers_02_input_id_is_the_position(data):
    """Of a mask PyG gives the nodes themselves."""
    nodes = torch.tensor([7, 5, 3])
    assert next(iter(NeighborLoader(data, [1], input_nodes=nodes, batch_size=2))).input_id.tolist() == [0, 1]
    assert next(iter(NeighborLoader(data, [1], input_nodes=data.train_mask, batch_size=3))).input_id.tolist() == [
        0,
        3,
        6,
    ]
    assert next(iter(NeighborLoader(data, [1], nodes, batch_size=2, input_id=nodes * 10))).input_id.tolist() == [70, 50]
    assert next(iter(NeighborLoader(data, [1], batch_size=2))).n_id[:2].tolist() == [0, 1]


def test_peers_03_edges_are_the_graphs(data):
    edges = pairs_of(data.edge_index)
    for batch in NeighborLoader(data, [5, 5], batch_size=20, shuffle=True, seed=2):
        assert pairs_of(batch.n_id[batch.edge_index]) <= edges
        assert batch.edge_index.min() >= 0
        assert batch.edge_index.max() < batch.num_nodes
        assert len(batch.n_id.unique()) == batch.num_nodes
        assert len(batch.e_id.unique()) == batch.num_edges
        beyond = torch.arange(batch.batch_size, batch.num_nodes)
        assert torch.isin(beyond, batch.edge_index[0]).all(), "no node without a use"


def test_peers_04_counts_of_hops():
    source = torch.tensor([2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11])
    destination = torch.tensor([0, 1, 2, 2, 3, 3, 4, 4, 5, 6, 12])
    tree = Data(edge_index=torch.stack([source, destination]), num_nodes=14)
    (batch,) = NeighborLoader(tree, [1, 2, 4], input_nodes=torch.tensor([0, 1]), batch_size=2)
    assert batch.num_sampled_nodes == [2, 2, 3, 4]
    assert batch.num_sampled_edges == [2, 4, 4]


def test_peers_05_order_of_discovery():
    forth = torch.arange(6)
    back = (forth + 1) % 6
    edge_index = torch.cat([torch.stack([forth, back]), torch.stack([back, forth])], 1)
    cycle = Data(edge_index=edge_index, num_nodes=6)
    (batch,) = NeighborLoader(cycle, [-1, -1], input_nodes=torch.tensor([2, 3]), batch_size=2)
    assert batch.n_id.tolist() == [2, 3, 1, 4, 0, 5]
    assert batch.e_id.tolist() == [1, 8, 2, 9, 0, 7, 3, 10]
    assert batch.edge_index.tolist() == [[2, 1, 0, 3, 4, 0, 1, 5], [0, 0, 1, 1, 2, 2, 3, 3]]
    assert batch.num_sampled_edges == [4, 4], "hop by hop"


@pytest.mark.parametrize("edge_index", [torch.empty(2, 0, dtype=torch.int64), None], ids=["no edges", "no edge_index"])
def test_peers_05_a_graph_without_edges(edge_index):
    alone = Data(x=torch.arange(4.0), edge_index=edge_index)
    told = (
        nullcontext() if edge_index is not None else pytest.warns(UserWarning, match="batches hold their seeds alone")
    )
    with told:
        loader = NeighborLoader(alone, [3, 3], input_nodes=torch.tensor([3, 1]), batch_size=2)
    (batch,) = loader
    assert batch.n_id.tolist() == [3, 1]
    assert batch.num_sampled_nodes == [2, 0, 0]
    assert batch.num_sampled_edges == [0, 0]
    assert batch.x.tolist() == [3, 1]


def test_peers_06_narrow_ids(data):
    wide = [batch.n_id for batch in NeighborLoader(data, [3, 2], batch_size=40, seed=5)]
    data.edge_index = data.edge_index.int()
    nodes = torch.arange(data.num_nodes, dtype=torch.int32)
    narrow = [batch.n_id for batch in NeighborLoader(data, [3, 2], input_nodes=nodes, batch_size=40, seed=5)]
    assert all(torch.equal(left, right) for left, right in zip(wide, narrow, strict=True))


def test_a_seed_that_repeats_has_rows_of_its_own(data):
    """With all its in-edges, and after as many hops, so that a model gives both rows the same output."""
    (batch,) = NeighborLoader(data, [-1, -1], input_nodes=torch.tensor([9, 4, 9]), batch_size=3)
    assert batch.n_id[:3].tolist() == [9, 4, 9]
    assert batch.batch_size == batch.num_sampled_nodes[0] == 3
    assert sum(batch.num_sampled_nodes) == batch.num_nodes
    assert sum(batch.num_sampled_edges) == batch.num_edges
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    source, destination = batch.edge_index
    assert torch.equal(source[destination == 0], source[destination == 2])
    assert (destination[: batch.num_sampled_edges[0]] < 3).all()
    assert (destination[batch.num_sampled_edges[0] :] >= 3).all()


def test_a_single_batch(data):
    loader = NeighborLoader(data, [-1], input_nodes=torch.tensor([3, 8, 5]), batch_size=1)
    assert str(loader) == "NeighborLoader()"
    batch = loader([2, 0])
    assert batch.n_id[:2].tolist() == [5, 3]
    assert batch.input_id.tolist() == [2, 0]
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    assert loader(torch.tensor([1])).n_id[0] == 8
