"""Loaders of the same data have one graph; a change of what it is made of gives the next loader another one."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.testing import MyFeatureStore, MyGraphStore

from headrace.pyg import (
    ClusterData,
    ClusterLoader,
    GraphSAINTEdgeSampler,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    LinkNeighborLoader,
    NeighborLoader,
    Sampler,
    ShaDowKHopSampler,
)

LOADERS = {
    "sampler": lambda data: Sampler(data, [2]),
    "nodes": lambda data: NeighborLoader(data, [2]).node_sampler,
    "links": lambda data: LinkNeighborLoader(data, [2]).link_sampler,
    "shadow": lambda data: ShaDowKHopSampler(data, 2, 3),
    "saint nodes": lambda data: GraphSAINTNodeSampler(data, 10),
    "saint edges": lambda data: GraphSAINTEdgeSampler(data, 10),
    "saint walks": lambda data: GraphSAINTRandomWalkSampler(data, 10, 2),
}


def graph_of(data, **kwargs):
    """Return the graph that the next loader has."""
    return Sampler(data, [2], **kwargs).graph


def edges_of(graph):
    destination = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.indptr.diff())
    return torch.stack([graph.indices.long(), destination])[:, graph.edge_ids.argsort()]


def test_loaders_of_all_kinds_have_the_same_graph(data):
    loaders = [make(data) for make in LOADERS.values()]
    assert len({id(loader.graph) for loader in loaders}) == 1


def test_loaders_of_clusters_have_the_same_graph(data):
    for sparse_format in ("csr", "csc"):
        clusters = ClusterData(data, 4, sparse_format=sparse_format)
        one, other = ClusterLoader(clusters), ClusterLoader(clusters, shuffle=True)
        assert one.graph is other.graph
        assert ClusterLoader(ClusterData(data, 4, sparse_format=sparse_format)).graph is not one.graph


def test_graphs_with_attributes_share_the_edges(data):
    data.time = torch.arange(data.num_nodes)
    plain, weighted = graph_of(data), graph_of(data, weight_attr="edge_weight")
    timed = graph_of(data, time_attr="time")
    assert list(weighted.edge_attrs) == ["edge_weight"]
    assert list(timed.node_attrs) == ["time"]
    assert len({id(graph) for graph in (plain, weighted, timed)}) == 3
    for name in ("indptr", "indices", "edge_permutation"):
        assert len({getattr(graph, name).data_ptr() for graph in (plain, weighted, timed)}) == 1
    assert graph_of(data) is plain
    assert graph_of(data, weight_attr="edge_weight") is weighted
    assert graph_of(data, time_attr="time") is timed
    torch.testing.assert_close(weighted.edge_attrs["edge_weight"], data.edge_weight)


def test_types_and_stores(hetero, stores):
    for one in (hetero, stores):
        assert graph_of(one) is graph_of(one)
        assert graph_of(one) is graph_of(copy.copy(one) if one is hetero else (one[0], copy.copy(one[1])))
        assert graph_of(one) is not graph_of(copy.deepcopy(one) if one is hetero else (one[0], copy.deepcopy(one[1])))
    for name in hetero.edge_types:
        hetero[name].w = torch.rand(hetero[name].num_edges)
    plain, weighted = graph_of(hetero), graph_of(hetero, weight_attr="w")
    assert graph_of(hetero, weight_attr="w") is weighted
    assert weighted.indices.data_ptr() == plain.indices.data_ptr()


def test_copies_with_the_same_tensors_have_the_same_graph(data):
    """And keep it, whichever goes first; a write to one is a write to all."""
    data.time = torch.arange(data.num_nodes)
    for kwargs in ({}, {"time_attr": "time"}, {"weight_attr": "edge_weight"}):
        one = copy.copy(data)
        kept = weakref.ref(graph_of(one, **kwargs))
        alias = Data(edge_index=data.edge_index.detach(), x=data.x, time=data.time, edge_weight=data.edge_weight)
        alias.train_mask = data.train_mask
        others = [data, copy.copy(one), data.clone("x"), alias]
        assert all(graph_of(other, **kwargs) is kept() for other in others)
        del one, others, alias
        gc.collect()
        assert graph_of(data, **kwargs) is kept()
    data.edge_index[0, 0] = 1
    assert graph_of(copy.copy(data)) is not kept()
    assert graph_of(copy.copy(data)) is not graph_of(copy.deepcopy(data))


@pytest.mark.parametrize("typed", [False, True])
def test_loaders_by_time_hold_the_edges_once(data, hetero, typed):
    """In the order of times alone, where no other loader asks for them in another one."""
    one = hetero if typed else data
    of_nodes = (one[name] for name in one.node_types) if typed else (one,)
    for store in of_nodes:
        store.time = torch.arange(store.num_nodes).flip(0)
    items = ("paper", torch.arange(20)) if typed else torch.arange(20)

    def made():
        options = {"time_attr": "time", "disjoint": True, "batch_size": 10, "input_time": torch.full((20,), 60)}
        return NeighborLoader(one, [3, 2], items, **options)

    def of(loader):
        torch.manual_seed(0)
        return [
            [value.tolist() for value in batch.e_id_dict.values()] if typed else batch.e_id.tolist() for batch in loader
        ]

    alone = made()
    graph = alone.node_sampler.graph
    assert graph.by_time("time").indices.data_ptr() == graph.indices.data_ptr()
    found = of(alone)
    del alone, graph
    gc.collect()
    plain = graph_of(copy.deepcopy(one))
    assert plain.indices.tolist() != graph_of(one, time_attr="time").indices.tolist()
    again = copy.deepcopy(one)
    graph_of(again)  # the plain graph is kept: it is what the one by time is made of
    one = again
    beside = made()
    assert beside.node_sampler.graph.indices.data_ptr() == graph_of(again).indices.data_ptr()
    assert of(beside) == found


@pytest.fixture
def stores(data):
    return stores_of(data)


def stores_of(data):
    feature_store, graph_store = MyFeatureStore(), MyGraphStore()
    feature_store.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    source, destination = data.edge_index
    graph_store.put_edge_index(
        (source.clone(), destination.clone()), edge_type=None, layout="coo", size=(data.num_nodes, data.num_nodes)
    )
    return feature_store, graph_store


@pytest.mark.parametrize(
    "change",
    [
        lambda data: setattr(data, "edge_index", data.edge_index.flip(0)),
        lambda data: data.edge_index.copy_(data.edge_index.flip(0)),
        lambda data: data.edge_index[0, 3:9].fill_(7),
        lambda data: data.edge_index.set_(data.edge_index.flip(0).contiguous()),
        lambda data: setattr(data.edge_index, "data", data.edge_index.flip(0)),
        lambda data: data.edge_index.data.copy_(data.edge_index.flip(0)),
        lambda data: np.copyto(data.edge_index.numpy(), data.edge_index.flip(0).numpy()),
        lambda data: setattr(data, "edge_index", data.edge_index[:, 100:]),
    ],
    ids=["set", "written", "rows", "set_", "data", "through data", "through NumPy", "fewer"],
)
def test_changed_edges_are_another_graph(data, change):
    data.edge_attr = data.edge_weight = None
    before = graph_of(data)
    change(data)
    after = graph_of(data)
    assert after is not before
    torch.testing.assert_close(edges_of(after), data.edge_index)
    assert graph_of(data) is after


def test_changed_attributes_and_numbers_of_nodes_are_another_graph(data):
    data.time = torch.arange(data.num_nodes)
    for name, kwargs in {"edge_weight": {"weight_attr": "edge_weight"}, "time": {"time_attr": "time"}}.items():
        for change in (lambda one: one.add_(1), lambda one: one.numpy().fill(3)):
            before, plain = graph_of(data, **kwargs), graph_of(data)
            change(data[name])
            after = graph_of(data, **kwargs)
            assert after is not before
            assert graph_of(data) is plain
            torch.testing.assert_close({**after.edge_attrs, **after.node_attrs}[name], data[name])
    data = Data(edge_index=data.edge_index, num_nodes=200)
    assert graph_of(data).num_nodes == 200
    data.num_nodes = 300
    assert graph_of(data).num_nodes == 300


def test_changed_types_are_another_graph(hetero):
    before = graph_of(hetero)
    hetero["venue"].num_nodes = 9
    assert graph_of(hetero).num_nodes == before.num_nodes + 4
    hetero["author", "writes", "paper"].edge_index[0, 0] = 11
    after = graph_of(hetero)
    assert after is graph_of(hetero)
    del hetero["venue", "prints", "paper"]
    assert len(graph_of(hetero).edge_types.names) == len(after.edge_types.names) - 1


def test_changed_edges_of_a_store_are_another_graph(stores):
    before = graph_of(stores)
    (attribute,) = stores[1].get_all_edge_attrs()
    stores[1].get_edge_index(attribute)[0][4] = 3
    after = graph_of(stores)
    assert after is not before
    torch.testing.assert_close(edges_of(after), torch.stack(stores[1].get_edge_index(attribute)))


def test_a_store_that_makes_edges_at_each_look_is_asked_each_time(data):
    class Made(MyGraphStore):
        def _get_edge_index(self, edge_attr):
            return tuple(one.clone() for one in super()._get_edge_index(edge_attr))

    feature_store, graph_store = stores_of(data)
    graph_store.__class__ = Made
    before = graph_of((feature_store, graph_store))
    graph_store.store[next(iter(graph_store.store))][0][4] = 3
    assert edges_of(graph_of((feature_store, graph_store)))[0, 4] == 3
    assert edges_of(before)[0, 4] == data.edge_index[0, 4]


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, torch.sparse_coo])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_edges_in_a_matrix(layout):
    matrix = torch.eye(9).roll(1, 0).to_sparse(layout=layout)
    data = Data(adj_t=matrix, num_nodes=9)
    before = graph_of(data)
    assert graph_of(data) is before
    data.adj_t = torch.eye(9).roll(2, 0).to_sparse(layout=layout)
    assert graph_of(data) is not before
    assert graph_of(data).num_edges == 9


def test_edges_that_count_their_writes_or_not(data):
    data.edge_attr = data.edge_weight = None
    data.edge_index = EdgeIndex(data.edge_index, sparse_size=(data.num_nodes, data.num_nodes))
    before = graph_of(data)
    assert graph_of(data) is before
    data.edge_index[0, 0] = 7
    assert edges_of(graph_of(data))[0, 0] == 7
    with torch.inference_mode():
        data.edge_index = torch.tensor([[0, 1], [1, 2]])
    assert edges_of(graph_of(data)).tolist() == [[0, 1], [1, 2]]
    with torch.inference_mode():
        data.edge_index[0, 0] = 5
    assert edges_of(graph_of(data)).tolist() == [[5, 1], [1, 2]]


def test_it_goes_with_the_data(data):
    data = copy.copy(data)
    graph = weakref.ref(graph_of(data))
    gc.collect()
    assert graph() is not None
    data.edge_index = data.edge_index.flip(0)
    other = weakref.ref(graph_of(data))
    gc.collect()
    assert graph() is None
    assert other() is not None
    del data
    gc.collect()
    assert other() is None


def test_copies_and_pickles_do_not_have_it(data):
    before = graph_of(data)
    size = len(pickle.dumps(Data(**data.to_dict())))
    assert len(pickle.dumps(data)) == size
    assert graph_of(copy.deepcopy(data)) is not before


def test_batches_of_a_shared_graph_are_those_of_one_alone(data):
    alone = [batch.e_id for batch in NeighborLoader(copy.copy(data), [3, 2], batch_size=30, shuffle=True, seed=3)]
    graph_of(data, weight_attr="edge_weight")
    ShaDowKHopSampler(data, 2, 3)
    shared = [batch.e_id for batch in NeighborLoader(data, [3, 2], batch_size=30, shuffle=True, seed=3)]
    torch.testing.assert_close(shared, alone)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_each_loader_warns_of_a_matrix_with_other_edges():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), adj_t=torch.eye(3).to_sparse_csr(), num_nodes=3)
    for _ in range(2):
        with pytest.warns(UserWarning, match="data.adj_t has other edges"):
            graph_of(data)
