"""What PyG takes is taken; what cannot be is refused by name when the loader is made."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.sampler import NegativeSampling
from torch_geometric.testing import MyFeatureStore, MyGraphStore

import headrace as hr
from headrace.pyg import LinkNeighborLoader, NeighborLoader


@pytest.fixture
def cycle():
    """Six nodes and six edges."""
    node = torch.arange(6)
    return Data(x=torch.arange(6.0), edge_index=torch.stack([node, (node + 1) % 6]))


def test_weights_of_as_many_edges_as_nodes(cycle):
    cycle.edge_index = torch.tensor([[0, 1, 2, 3, 4, 5], [5, 5, 5, 5, 5, 0]])
    cycle.w = torch.tensor([0.0, 0, 0, 1, 0, 1])
    for seed in range(5):
        (batch,) = NeighborLoader(cycle, [1], torch.tensor([5]), weight_attr="w", seed=seed)
        assert batch.e_id.tolist() == [3]


def test_numbers_of_numpy_are_amounts(data):
    options = {"batch_size": 10, "seed": 1, "edge_label_index": data.edge_index[:, :10]}
    for amount, count in ((np.int64(2), 20), (np.float32(0.3), 3), (np.float64(0.5), 5)):
        (batch,) = LinkNeighborLoader(data, [2], neg_sampling=NegativeSampling("binary", amount), **options)
        assert batch.edge_label_index.shape[1] == 10 + count
        (same,) = LinkNeighborLoader(data, [2], neg_sampling_ratio=float(str(amount)), **options)
        assert torch.equal(batch.n_id, same.n_id)


@pytest.mark.parametrize("layout", ["coo", "csc", "csr"])
def test_stores_that_do_not_say_their_size(cycle, layout):
    """Rows as many as nodes and as edges are those of nodes, but for a name with "edge" in it."""
    source, destination = cycle.edge_index
    if layout == "csc":
        order, destination = destination.argsort(), torch.arange(7)
        source = source[order]
    elif layout == "csr":
        source = torch.arange(7)
    features, graph = MyFeatureStore(), MyGraphStore()
    features.put_tensor(cycle.x, group_name=None, attr_name="x", index=None)
    features.put_tensor(10 * cycle.x, group_name=None, attr_name="edge_attr", index=None)
    graph.put_edge_index((source, destination), edge_type=None, layout=layout, size=None)
    for batch in NeighborLoader((features, graph), [1], torch.tensor([4, 2])):
        assert torch.equal(batch.x, batch.n_id.float())
        assert torch.equal(batch.edge_attr, 10.0 * batch.e_id)


@pytest.mark.parametrize(("layout", "edges"), [("csc", ([0, 1], [0, 0, 1, 2, 2])), ("csr", ([0, 1, 2, 2, 2], [1, 2]))])
def test_stores_without_a_size_say_it_by_their_rows(layout, edges):
    """The last node has no edges."""
    features, graph = MyFeatureStore(), MyGraphStore()
    features.put_tensor(torch.arange(4.0), group_name=None, attr_name="x", index=None)
    graph.put_edge_index(tuple(map(torch.tensor, edges)), edge_type=None, layout=layout, size=None)
    (batch,) = NeighborLoader((features, graph), [2], torch.tensor([2, 3]), batch_size=2)
    assert batch.x.tolist() == [2.0, 3.0, 1.0]


def test_stores_without_a_size_and_more_edges_than_nodes(data):
    features, graph = MyFeatureStore(), MyGraphStore()
    features.put_tensor(torch.arange(data.num_edges), group_name=None, attr_name="weight", index=None)
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    graph.put_edge_index(tuple(data.edge_index), edge_type=None, layout="coo", size=None)
    (batch,) = NeighborLoader((features, graph), [3], torch.arange(9), batch_size=9)
    assert torch.equal(batch.weight, batch.e_id)
    assert torch.equal(batch.x, data.x[batch.n_id])


def test_strategies_that_are_none(data):
    with pytest.raises(hr.InputError, match='expected temporal_strategy "uniform" or "last", got \'nope\''):
        NeighborLoader(data, [2], temporal_strategy="nope")
    with pytest.warns(UserWarning, match='temporal_strategy="last" has no effect without time_attr') as warned:
        NeighborLoader(data, [2], temporal_strategy="last")
    assert warned[0].filename == __file__
