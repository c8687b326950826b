"""Graphs: built from edges and arrays, compared, copied, with types and without."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

from edge_lists import edge_lists


@given(edge_lists(), st.sampled_from([1, 2, 4]))
def test_from_coo_keeps_every_edge_and_leads_back(edges, num_threads):
    src, dst, num_nodes = edges
    attribute = np.arange(2 * src.size, dtype=np.float32).reshape(-1, 2)
    graph = hr.Graph.from_coo(
        src, dst, num_nodes=num_nodes, edge_attrs={"a": attribute, "i": np.arange(src.size)}, num_threads=num_threads
    )

    assert graph.num_nodes == num_nodes
    assert graph.num_edges == src.size
    assert graph.indptr.dtype == torch.int64
    assert graph.indices.dtype == torch.int32
    columns = np.repeat(np.arange(num_nodes), graph.in_degrees().numpy())
    order = graph.edge_ids.numpy()
    # Mapping identity: what sits at a CSC position is the input edge that edge_ids names.
    np.testing.assert_array_equal(graph.indices.numpy(), src[order])
    np.testing.assert_array_equal(columns, dst[order])
    np.testing.assert_array_equal(np.sort(order), np.arange(src.size))
    # Stable: within a destination, input order.
    np.testing.assert_array_equal(order, np.argsort(dst, kind="stable"))
    np.testing.assert_array_equal(graph.edge_attrs_csc["a"].numpy(), attribute[order])
    np.testing.assert_array_equal(graph.edge_attrs_csc["i"].numpy(), order)
    np.testing.assert_array_equal(graph.edge_attrs["a"].numpy(), attribute)
    np.testing.assert_array_equal(graph.edge_attrs["i"].numpy(), np.arange(src.size))


@given(edge_lists())
def test_from_csc_round_trip(edges):
    src, dst, num_nodes = edges
    graph = hr.Graph.from_coo(src, dst, num_nodes=num_nodes, edge_attrs={"i": np.arange(src.size)})
    again = hr.Graph.from_csc(
        graph.indptr, graph.indices.long(), edge_ids=graph.edge_ids, edge_attrs=dict(graph.edge_attrs_csc)
    )
    assert again.indices.dtype == torch.int32
    assert torch.equal(again.indptr, graph.indptr)
    assert torch.equal(again.indices, graph.indices)
    assert torch.equal(again.edge_ids.long(), graph.edge_ids.long())
    assert torch.equal(again.edge_attrs_csc["i"], graph.edge_attrs_csc["i"])
    assert torch.equal(again.edge_attrs["i"], graph.edge_attrs["i"])


def test_sorted_input_needs_no_permutation():
    graph = hr.Graph.from_coo([2, 0, 1], [0, 1, 2])
    assert graph.edge_permutation is None
    assert graph.edge_ids.tolist() == [0, 1, 2]


def test_num_nodes_defaults_to_the_largest_id():
    assert hr.Graph.from_coo([0, 5], [1, 2]).num_nodes == 6
    assert hr.Graph.from_coo([0], [0]).num_nodes == 1


def test_graph_without_edges():
    for graph in (hr.Graph.from_coo([], [], num_nodes=3), hr.Graph.from_csc([0, 0, 0, 0], [])):
        assert (graph.num_nodes, graph.num_edges) == (3, 0)
        assert graph.in_degrees().tolist() == [0, 0, 0]
        assert graph.edge_ids.tolist() == []


def test_strided_input_is_accepted():
    pairs = torch.tensor([[3, 0], [1, 0], [0, 2]])
    wide = torch.arange(6).reshape(3, 2)
    graph = hr.Graph.from_coo(pairs[:, 0], pairs[:, 1], edge_attrs={"w": wide[:, 1]})
    assert graph.indices.tolist() == [3, 1, 0]
    assert graph.edge_attrs["w"].tolist() == [1, 3, 5]
    indptr = torch.tensor([[0, 9], [1, 9], [2, 9]])[:, 0]
    graph = hr.Graph.from_csc(indptr, torch.tensor([1, 9, 0, 9])[::2])
    assert graph.indptr.is_contiguous()
    assert graph.indices.tolist() == [1, 0]


def test_read_only_memory_maps_are_accepted(tmp_path):
    np.save(tmp_path / "indices.npy", np.array([1, 0], dtype=np.int32))
    indices = np.load(tmp_path / "indices.npy", mmap_mode="r")
    graph = hr.Graph.from_csc(np.array([0, 1, 2]), indices)
    assert graph.indices.data_ptr() == indices.ctypes.data  # In place: a graph may be larger than memory.


def test_mixed_id_dtypes():
    graph = hr.Graph.from_coo(torch.tensor([1, 0], dtype=torch.int32), torch.tensor([1, 0]))
    assert graph.indices.tolist() == [0, 1]


def test_types_split_one_id_space():
    graph = hr.Graph.from_coo(
        [0, 1, 2, 3],
        [2, 3, 0, 1],
        node_types={"user": 2, "item": 2},
        edge_types={("user", "buys", "item"): 2, ("item", "bought", "user"): 2},
    )
    assert graph.node_types is not None
    assert graph.edge_types is not None
    assert graph.node_types.id_range("item") == range(2, 4)
    assert graph.edge_types.id_range(("item", "bought", "user")) == range(2, 4)
    assert "node_types=['user', 'item']" in repr(graph)


TYPED = {
    "nodes": {"node_types": {"author": 3, "paper": 1}},
    "edges": {"edge_types": {"cites": 3, "writes": 1}},
    "both": {"node_types": {"author": 3, "paper": 1}, "edge_types": {"cites": 4}},
}


@pytest.mark.parametrize("types", TYPED)
def test_walks_refuse_graphs_with_types_unless_said(types):
    graph = hr.Graph.from_coo([0, 1, 2, 3], [3, 3, 0, 1], edge_attrs={"w": torch.rand(4)}, **TYPED[types])
    plain = hr.Graph.from_coo([0, 1, 2, 3], [3, 3, 0, 1], edge_attrs=graph.edge_attrs)
    items = hr.ItemSampler([3], seed=0)
    samplers = [
        lambda one: items.sample_pinsage(one, 2, 2, 2),
        lambda one: items.sample_saint_node(one, 2),
        lambda one: items.sample_saint_edge(one, 2),
        lambda one: items.sample_saint_walk(one, 2),
    ]
    for sample in samplers:
        with pytest.raises(hr.InputError, match=r"sample_\w+: expected a graph without types.*graph\.untyped\(\)"):
            sample(graph)
        assert [batch.digest() for batch in sample(graph.untyped()).loader()] == [
            batch.digest() for batch in sample(plain).loader()
        ]


def test_untyped_shares_the_arrays():
    graph = hr.Graph.from_coo([0, 1], [1, 0], edge_attrs={"w": torch.rand(2)}, node_types={"a": 1, "b": 1})
    plain = graph.untyped()
    assert plain == hr.Graph.from_coo([0, 1], [1, 0], edge_attrs=graph.edge_attrs)
    for one, other in (
        (plain.indices, graph.indices),
        (plain.edge_permutation, graph.edge_permutation),
        (plain.edge_attrs_csc["w"], graph.edge_attrs_csc["w"]),
    ):
        assert one.data_ptr() == other.data_ptr()
    shard = graph.shard(hr.Partition.range(2, 2), 1).untyped()
    assert shard.node_types is None
    assert shard.part == 1


def test_frozen_and_attributes_read_only():
    graph: Any = hr.Graph.from_coo([0], [0], edge_attrs={"w": [1.0]})
    with pytest.raises(AttributeError):
        graph.indptr = torch.zeros(2)
    with pytest.raises(TypeError):
        graph.edge_attrs["w"] = torch.zeros(1)
    with pytest.raises(TypeError):
        graph.edge_attrs_csc["w"] = torch.zeros(1)


def test_equality_is_by_content():
    def make(weight=1.0, num_nodes=2, types=None):
        return hr.Graph.from_coo([0, 1], [1, 0], num_nodes=num_nodes, edge_attrs={"w": [weight, 1.0]}, node_types=types)

    assert make() == make()
    assert hash(make()) == hash(make())
    assert make() != make(weight=2.0)
    assert make() != make(num_nodes=3)
    assert make() != make(types={"a": 1, "b": 1})
    assert make(types={"a": 1, "b": 1}) != make(types={"a": 1, "c": 1})
    assert make() != "graph"
    assert len(make().content_digest()) == 32


def test_digest_of_large_arrays_sees_their_ends():
    indices = torch.zeros(3_000_000, dtype=torch.int32)
    indptr = torch.tensor([0, indices.numel(), indices.numel()])
    before = hr.Graph.from_csc(indptr, indices).content_digest()
    indices[-1] = 1
    assert hr.Graph.from_csc(indptr, indices).content_digest() != before


def test_pickle_and_copy():
    graph = hr.Graph.from_coo(
        [0, 1], [1, 0], edge_attrs={"w": [1.0, 2.0]}, node_types={"a": 1, "b": 1}, edge_types={"e": 1, "f": 1}
    )
    list(hr.ItemSampler(2).sample_neighbor(graph, [1]).loader())  # what a graph keeps for samplers is no part of it
    for again in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):  # noqa: S301 - our own bytes
        assert again == graph
        assert again.edge_types == graph.edge_types


def test_whether_there_are_parallel_edges():
    """Two edges from 1 to 0; edges of two destinations from one source are no parallel ones."""
    multigraph = hr.Graph.from_coo(torch.tensor([1, 2, 1]), torch.tensor([0, 0, 0]))
    simple = hr.Graph.from_coo(torch.tensor([1, 2, 1]), torch.tensor([0, 0, 2]))
    assert multigraph.has_parallel_edges
    assert not simple.has_parallel_edges


@pytest.mark.parametrize("fuse_sampling", [True, False])
def test_labor_picks_parallel_edges_as_often_as_others(fuse_sampling):
    """Of edges from a, a and b one third each, at 3,000 destinations, to 5 sigma; a shared variate gave 1/2, 0, 1/2."""
    dst = torch.arange(3_000).repeat_interleave(3)
    src = 3_000 + 2 * dst + torch.tensor([0, 0, 1]).repeat(3_000)
    plan = hr.ItemSampler(3_000, batch_size=3_000, seed=1).sample_layer_neighbor(hr.Graph.from_coo(src, dst), [1])
    (batch,) = plan.loader(fuse_sampling=fuse_sampling, prefetch=False)
    edge_ids = batch.blocks[0].edge_ids
    assert edge_ids is not None
    assert ((edge_ids % 3).bincount(minlength=3) - 1_000).abs().max() < 5 * 26
