"""Graphs from edges by type: what PyG's object of the same edges gives, and refusals by name."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

BUYS, SEES, LIKES = ("user", "buys", "item"), ("user", "sees", "item"), ("user", "likes", "user")


def edges(num_users=6, num_items=9, seed=0):
    random = torch.Generator().manual_seed(seed)

    def ids(most, count):
        return torch.randint(0, most, (count,), generator=random)

    return {
        BUYS: (ids(num_users, 20), ids(num_items, 20)),
        SEES: (ids(num_users, 30), ids(num_items, 30)),
        LIKES: (ids(num_users, 10), ids(num_users, 10)),
    }


def attributes():
    return {
        BUYS: {"time": torch.arange(20), "weight": torch.rand(20)},
        SEES: {"time": torch.arange(30, dtype=torch.int32)},
        LIKES: {},
    }


def hetero_data(some, of_edges=None, of_nodes=None, counts=None):
    data = pytest.importorskip("torch_geometric.data").HeteroData()
    for name, count in (counts or {"user": 6, "item": 9}).items():
        data[name].num_nodes = count
        for one, rows in (of_nodes or {}).get(name, {}).items():
            data[name][one] = rows
    for name, ends in some.items():
        data[name].edge_index = torch.stack(ends)
        for one, rows in (of_edges or {}).get(name, {}).items():
            data[name][one] = rows
    return data


@pytest.mark.parametrize("order", [["user", "item"], ["item", "user"]])
def test_it_is_the_graph_of_the_same_hetero_data(order):
    some, of_edges = edges(), attributes()
    of_nodes = {"item": {"time": torch.arange(9)}}
    counts = {name: {"user": 6, "item": 9}[name] for name in order}
    graph = hr.Graph.from_coo(some, num_nodes=counts, edge_attrs=of_edges, node_attrs=of_nodes)
    expected = hr.Graph.from_pyg(hetero_data(some, of_edges, of_nodes, counts))
    assert graph == expected
    assert graph.content_digest() == expected.content_digest()
    assert graph.edge_attrs["weight"][20:].eq(1).all()
    assert graph.edge_attrs["time"][50:].eq(torch.iinfo(torch.int64).min).all()
    assert graph.node_types.names == tuple(order)


def test_an_edge_index_of_each_type_is_two_rows():
    some = edges()
    assert hr.Graph.from_coo({name: torch.stack(ends) for name, ends in some.items()}) == hr.Graph.from_coo(some)


def test_numbers_of_nodes_are_given_or_rows_or_the_largest_id_plus_one():
    some = {BUYS: ([0, 4], [1, 2]), LIKES: ([6], [0])}
    assert repr(hr.Graph.from_coo(some).node_types) == "TypeOffsets('user': 7, 'item': 3)"
    rows = hr.Graph.from_coo(some, node_attrs={"item": {"price": torch.rand(5)}, "user": {"price": torch.rand(7)}})
    assert repr(rows.node_types) == "TypeOffsets('user': 7, 'item': 5)"
    given = hr.Graph.from_coo(some, num_nodes={"shop": 2, "item": 8})
    assert repr(given.node_types) == "TypeOffsets('shop': 2, 'item': 8, 'user': 7)"


def test_rows_are_sorted_by_time_where_some_types_have_none():
    graph = hr.Graph.from_coo(edges(), edge_attrs=attributes(), time="time")
    timed = graph.by_time("time")
    assert timed.indices is graph.indices  # nothing left to sort
    plan = hr.ItemSampler({"item": torch.arange(3)}, time=torch.full((3,), 5)).sample_neighbor(graph, [-1], time="time")
    (batch,) = plan.loader()
    assert int(graph.edge_attrs["time"][batch.e_id].max()) <= 5


def test_features_of_pyg_are_those_of_the_object():
    of_nodes = {"user": {"x": torch.rand(6, 2), "y": torch.arange(6)}, "item": {"z": torch.rand(9)}}
    data = hetero_data(edges(), {BUYS: {"price": torch.rand(20)}}, of_nodes)
    store = hr.FeatureStore.from_pyg(data)
    assert list(store.node) == [("user", "x"), ("user", "y"), ("item", "z")]
    assert list(store.edge) == [(BUYS, "price")]
    assert store.node["user", "x"].tensor.data_ptr() == data["user"].x.data_ptr()
    plan = hr.ItemSampler({"item": 5}, seed=1).sample_neighbor(
        hr.Graph.from_coo(edges(), num_nodes={"user": 6, "item": 9}), [3]
    )
    (batch,) = plan.fetch_feature(store, node={"user": ["x"]}).loader()
    assert torch.equal(batch.node["user", "x"], data["user"].x[batch.types.within("user")])


def test_several_graphs_in_a_batch_are_warned_of():
    pyg = pytest.importorskip("torch_geometric.data")
    several = pyg.Batch.from_data_list([pyg.Data(x=torch.rand(6, 2), edge_index=torch.stack(edges()[LIKES]))] * 2)
    for cls in (hr.Graph, hr.FeatureStore):
        message = f"^{cls.__name__}.from_pyg: the data are a Batch of 2 graphs, sampled as one"
        with pytest.warns(UserWarning, match=message) as warned:
            cls.from_pyg(several)
        assert [one.filename for one in warned] == [__file__]


def test_features_of_data_without_types():
    data_of = pytest.importorskip("torch_geometric.data").Data
    ends = torch.stack(edges()[LIKES])
    data = data_of(x=torch.rand(6, 2), edge_index=ends, edge_attr=torch.rand(10), name="a graph")
    data.train_mask = torch.ones(6, dtype=torch.bool)
    with pytest.warns(UserWarning, match="left out data.name"):
        store = hr.FeatureStore.from_pyg(data)
    assert (list(store.node), list(store.edge)) == (["train_mask", "x"], ["edge_attr"])
    with pytest.raises(hr.InputError, match="expected a torch_geometric Data or HeteroData, got dict"):
        hr.FeatureStore.from_pyg({})
