"""Times of graphs: what counts as one, the order that integers keep, and rows sorted by them."""

from __future__ import annotations

import math
import pickle

import pytest
import torch

import headrace as hr


def copied(one):
    return pickle.loads(pickle.dumps(one))  # noqa: S301 - our own bytes


def graph(**attrs):
    return hr.Graph.from_coo([0, 1, 2, 0, 3], [1, 1, 1, 2, 1], num_nodes=4, **attrs)


def test_rows_are_sorted_by_the_later_time_of_edge_and_source():
    whole = graph(edge_attrs={"t": [5, 3, 9, 1, 3]}, node_attrs={"t": [0, 4, 0, 3]})
    timed = whole.by_time("t")
    assert timed.edge_times.tolist() == [3, 4, 5, 9, 1]
    assert timed.indices.tolist() == [3, 1, 0, 2, 0]
    assert timed.edge_ids.tolist() == [4, 1, 0, 2, 3]
    assert timed.edge_attrs["t"].tolist() == whole.edge_attrs["t"].tolist()
    assert whole.by_time("t") is timed
    assert copied(timed) == timed


def test_edges_of_one_time_stay_in_their_order():
    assert graph(edge_attrs={"t": [2, 1, 2, 0, 1]}).by_time("t").edge_ids.tolist() == [1, 4, 0, 2, 3]


def test_sorted_rows_are_not_copied():
    whole = graph(edge_attrs={"t": [1, 2, 3, 0, 4]})
    timed = whole.by_time("t")
    assert timed.indices is whole.indices
    assert timed.edge_permutation is whole.edge_permutation
    assert timed.edge_times.tolist() == [1, 2, 3, 4, 0]


def test_sorted_at_construction():
    sorted_graph = graph(edge_attrs={"t": [5, 3, 9, 1, 3]}, time="t")
    assert sorted_graph.edge_times is None
    assert sorted_graph.edge_ids.tolist() == [1, 4, 0, 2, 3]
    assert sorted_graph.by_time("t").indices is sorted_graph.indices


def test_node_attributes_stay_with_the_graph():
    whole = graph(node_attrs={"t": [0, 4, 0, 3]})
    assert "node_attrs=['t']" in repr(whole)
    assert copied(whole) == whole
    assert whole != graph()
    assert whole.content_digest() != graph().content_digest()
    assert whole.with_self_loops().node_attrs["t"].tolist() == [0, 4, 0, 3]
    assert whole.reordered([3, 2, 1, 0]).node_attrs["t"].tolist() == [3, 0, 4, 0]
    shard = whole.shard(hr.Partition.hash(4, 2), 0)
    assert shard.node_attrs["t"].tolist() == [0, 4, 0, 3]
    assert copied(shard) == shard


def test_a_graph_of_csc_form_has_them_too():
    whole = hr.Graph.from_csc([0, 1, 1], [1], node_attrs={"t": [1, 2]})
    assert whole.by_time("t").edge_times.tolist() == [2]


def test_pyg_graphs_bring_the_times_of_nodes():
    data = pytest.importorskip("torch_geometric.data")
    one = data.Data(edge_index=torch.tensor([[0], [1]]), time=torch.tensor([3, 4]), num_nodes=2)
    assert hr.Graph.from_pyg(one).node_attrs["time"].tolist() == [3, 4]
    assert not hr.Graph.from_pyg(one, node_attrs=[]).node_attrs
    with pytest.raises(hr.InputError, match="expected node attribute 'when' with a row for each node, of every type"):
        hr.Graph.from_pyg(one, node_attrs=["when"])
    both = data.HeteroData()
    both["a"].num_nodes, both["b"].num_nodes = 2, 1
    both["a"].time, both["b"].time = torch.tensor([1, 2]), torch.tensor([3])
    both["a", "to", "b"].edge_index = torch.tensor([[1], [0]])
    assert hr.Graph.from_pyg(both).node_attrs["time"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("of", ["edges", "nodes"])
def test_times_that_were_written_are_refused(of):
    """What is sorted by them is kept with the graph."""
    times = {"edge_attrs": {"t": torch.arange(3)}, "node_attrs": {"t": torch.arange(4)}}
    graph = hr.Graph.from_csc(torch.tensor([0, 1, 2, 3, 3]), torch.tensor([1, 2, 3], dtype=torch.int32), **times)
    source = hr.ItemSampler(torch.arange(4), time=torch.arange(4))
    plans = [
        source.sample_neighbor(graph, [2], time="t"),
        hr.ItemSampler(torch.tensor([[0, 1]]), time=torch.tensor([2])).sample_uniform_negative(graph, 2, time="t"),
    ]
    for plan in plans:
        next(iter(plan.loader(prefetch=False)))
    {"edges": graph.edge_attrs_csc, "nodes": graph.node_attrs}[of]["t"].add_(1)
    for plan in plans:
        with pytest.raises(hr.InputError, match=r"times 't' to stay as they were.*make a new graph"):
            next(iter(plan.loader(prefetch=False)))


def test_added_loops_have_always_been_there():
    times = {"time": torch.tensor([5, 7], dtype=torch.int32), "edge_time": torch.tensor([0.5, 2.0])}
    attrs = times | {"weight": torch.tensor([3.0, 4.0]), "kind": torch.tensor([8, 9])}
    whole = hr.Graph.from_coo([0, 1], [1, 0], edge_attrs=attrs)
    looped = whole.with_self_loops()
    first = torch.iinfo(torch.int32).min
    assert {name: rows[2:].tolist() for name, rows in looped.edge_attrs.items()} == {
        "time": [first] * 2,
        "edge_time": [-math.inf] * 2,
        "weight": [1.0] * 2,
        "kind": [1] * 2,
    }
    (batch,) = hr.ItemSampler([0], time=[0]).sample_neighbor(looped, [-1], time="time").loader()
    assert batch.blocks[0].edge_ids.tolist() == [2], "the loop of node 0 alone: its edge comes later"
    given = whole.with_self_loops(fill={"kind": 6, "time": 2}).edge_attrs
    assert [given[name][2].item() for name in ("kind", "time", "weight")] == [6, 2, 1.0]
    assert whole.with_self_loops(4).edge_attrs["time"][2:].tolist() == [4, 4], "a number is that of all"
    with pytest.raises(hr.InputError, match=r"expected fill by names of edge attributes, .*got 'wieght'"):
        whole.with_self_loops(fill={"wieght": 1})
    with pytest.raises(hr.InputError, match=r"edge_attrs\['kind'\] can hold, which is int64, got 0.5"):
        whole.with_self_loops(fill={"kind": 0.5})
