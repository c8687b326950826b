from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

import headrace as hr
from headrace.ops import _native


@st.composite
def edge_lists(draw):
    """Random multigraphs with self-loops, hubs and isolated nodes; edges in any order."""
    num_nodes = draw(st.integers(1, 12))
    num_edges = draw(st.integers(0, 40))
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    ids = nps.arrays(dtype, (2, num_edges), elements=st.integers(0, num_nodes - 1))
    src, dst = draw(ids)
    if draw(st.booleans()):
        dst = np.sort(dst)
    return src, dst, num_nodes


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


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.uint8, torch.bool, torch.int16])
def test_edge_attributes_keep_dtype_and_shape(dtype):
    values = torch.arange(12).reshape(3, 2, 2).to(dtype)
    graph = hr.Graph.from_coo([0, 1, 2], [2, 1, 0], edge_attrs={"a": values})
    assert graph.edge_attrs["a"].dtype == dtype
    assert torch.equal(graph.edge_attrs_csc["a"], values[[2, 1, 0]])
    assert torch.equal(graph.edge_attrs["a"], values)


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
def test_graphs_with_types_are_not_sampled_unless_said(types):
    graph = hr.Graph.from_coo([0, 1, 2, 3], [3, 3, 0, 1], edge_attrs={"w": torch.rand(4)}, **TYPED[types])
    plain = hr.Graph.from_coo([0, 1, 2, 3], [3, 3, 0, 1], edge_attrs=graph.edge_attrs)
    items = hr.ItemSampler([3], seed=0)
    samplers = [
        lambda one: items.sample_neighbor(one, [2]),
        lambda one: items.sample_layer_neighbor(one, [2], weight="w"),
        lambda one: items.sample_ladies(one, [2]),
        items.sample_in_subgraph,
        lambda one: items.sample_pinsage(one, 2, 2, 2),
        lambda one: items.sample_saint_node(one, 2),
        lambda one: items.sample_saint_edge(one, 2),
        lambda one: items.sample_saint_walk(one, 2),
    ]
    for sample in samplers:
        with pytest.raises(hr.GraphError, match=r"sample_\w+: expected a graph without types.*graph\.untyped\(\)"):
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


def test_edge_attributes_are_looked_up_by_name():
    graph = hr.Graph.from_coo([0, 1], [1, 0], edge_attrs={"w": [1.0, 2.0], "v": [3, 4]})
    assert list(graph.edge_attrs) == ["w", "v"]
    assert len(graph.edge_attrs) == 2
    assert "v" in graph.edge_attrs
    assert "u" not in graph.edge_attrs
    assert repr(graph.edge_attrs) == "EdgeAttrs(['w', 'v'])"
    with pytest.raises(KeyError):
        graph.edge_attrs["u"]


def test_edge_attributes_of_many_pieces(monkeypatch):
    monkeypatch.setattr("headrace.pipeline.data.edge_attrs.PIECE", 7)
    src, dst = torch.randint(0, 5, (2, 100), generator=torch.Generator().manual_seed(0))
    rows = torch.rand(100, 2)
    graph = hr.Graph.from_coo(src, dst, num_nodes=5, edge_attrs={"w": rows})
    assert graph.edge_permutation is not None
    assert torch.equal(graph.edge_attrs["w"], rows)


def test_edge_attributes_in_csc_order_are_no_copies():
    rows = torch.rand(3)
    graph = hr.Graph.from_csc([0, 2, 3], [1, 0, 1], edge_attrs={"w": rows})
    assert graph.edge_attrs["w"].data_ptr() == graph.edge_attrs_csc["w"].data_ptr() == rows.data_ptr()


def test_edge_attributes_as_edge_features_meet_their_edges():
    """Of every sampled edge, the number that says which vertices it joins; weights pick by the same attribute."""
    generator = torch.Generator().manual_seed(5)
    src, dst = torch.randint(0, 30, (2, 400), generator=generator)
    attrs = {"ends": src * 1000 + dst, "even": (src % 2 == 0).float()}
    order = torch.randperm(30, generator=generator)
    whole = hr.Graph.from_coo(src, dst, num_nodes=30, edge_attrs=attrs)
    again = hr.Graph.from_csc(
        whole.indptr, whole.indices, edge_ids=whole.edge_ids, edge_attrs=dict(whole.edge_attrs_csc)
    )
    for graph, name in ((whole, torch.arange(30)), (again, torch.arange(30)), (whole.reordered(order), order)):
        assert graph.edge_permutation is not None
        features = hr.FeatureStore(edge=graph.edge_attrs)
        plan = hr.ItemSampler(30, batch_size=8, seed=1).sample_neighbor(graph, [3, -1], weight="even")
        for batch in plan.fetch_feature(features, edge=["ends", "even"]).loader():
            for block, ends, even in zip(batch.blocks, batch.edge["ends"], batch.edge["even"], strict=True):
                sources, destinations = name[batch.n_id[block.edge_index]]
                assert torch.equal(ends, sources * 1000 + destinations)
                assert torch.equal(even, (sources % 2 == 0).float())
            assert (batch.edge["even"][-1] == 1).all()
            assert batch.blocks[-1].num_edges > 0


def test_edge_attributes_in_input_order_are_refused_as_csc():
    graph = hr.Graph.from_coo([0, 1], [1, 0], edge_attrs={"w": [1.0, 2.0]})
    with pytest.raises(hr.GraphError, match="pass its edge_attrs_csc"):
        hr.Graph.from_csc(graph.indptr, graph.indices, edge_ids=graph.edge_ids, edge_attrs=graph.edge_attrs)


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


COO_ERRORS = {
    "negative id": ({"src": [-1], "dst": [0]}, "-1"),
    "src out of range": ({"src": [2], "dst": [0], "num_nodes": 2}, "2"),
    "dst out of range": ({"src": [0], "dst": [7], "num_nodes": 2}, "7"),
    "lengths": ({"src": [0, 1], "dst": [0]}, "equal length, got 2 and 1"),
    "float ids": ({"src": [0.5], "dst": [0]}, r"expected src to be int32 or int64 ids.*got float64\[1\]"),
    "int16 ids": ({"src": np.zeros(1, np.int16), "dst": [0]}, r"got int16\[1\]"),
    "text": ({"src": ["a"], "dst": [0]}, "numeric"),
    "two dimensions": ({"src": [[0]], "dst": [0]}, r"got int64\[1, 1\]"),
    "byte-swapped": ({"src": np.zeros(1, ">i8"), "dst": [0]}, "numeric tensor or array"),
    "empty": ({"src": [], "dst": []}, "at least one node"),
    "no nodes": ({"src": [], "dst": [], "num_nodes": 0}, "at least one node"),
    "short attribute": ({"src": [0], "dst": [0], "edge_attrs": {"w": []}}, r"edge_attrs\['w'\] to have 1 rows"),
    "scalar attribute": (
        {"src": [0], "dst": [0], "edge_attrs": {"w": np.float32(1)}},
        r"edge_attrs\['w'\] to have 1 rows",
    ),
    "text attribute": ({"src": [0], "dst": [0], "edge_attrs": {"w": ["a"]}}, r"edge_attrs\['w'\] to be a numeric"),
    "device": (
        {"src": torch.zeros(1, dtype=torch.int64, device="meta"), "dst": [0]},
        r"src in CPU memory.*src\.cpu\(\)",
    ),
    "attribute device": ({"src": [0], "dst": [0], "edge_attrs": {"w": torch.zeros(1, device="meta")}}, "in CPU memory"),
    "sparse": ({"src": torch.zeros(1, dtype=torch.int64).to_sparse(), "dst": [0]}, "dense"),
    "node types": ({"src": [0], "dst": [0], "node_types": {"a": 2}}, "node_types to cover 1 ids"),
    "edge types": ({"src": [0], "dst": [0], "edge_types": {"a": 2}}, "edge_types to cover 1 ids"),
    "edge ends": (
        {"src": [0, 1], "dst": [1, 1], "node_types": {"a": 1, "b": 1}, "edge_types": {("a", "to", "b"): 2}},
        r"source ids of edge type \('a', 'to', 'b'\) in 'a'",
    ),
    "unknown node type": (
        {"src": [0], "dst": [0], "node_types": {"a": 1}, "edge_types": {("a", "to", "c"): 1}},
        "no type 'c'",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), COO_ERRORS.values(), ids=COO_ERRORS)
def test_from_coo_refuses(arguments, message):
    with pytest.raises(hr.GraphError, match=message):
        hr.Graph.from_coo(**arguments)


CSC_ERRORS = {
    "decreasing": ({"indptr": [0, 2, 1, 2], "indices": [0, 1]}, "indptr"),
    "does not start at 0": ({"indptr": [1, 2], "indices": [0, 0]}, "indptr"),
    "does not end at num_edges": ({"indptr": [0, 1], "indices": [0, 0]}, "indptr"),
    "index out of range": ({"indptr": [0, 1], "indices": [1]}, "1"),
    "negative index": ({"indptr": [0, 1], "indices": [-1]}, "-1"),
    "no nodes": ({"indptr": [0], "indices": []}, "not no nodes"),
    "no indptr": ({"indptr": [], "indices": []}, "not no nodes"),
    "float indptr": ({"indptr": [0.0, 1.0], "indices": [0]}, "float64"),
    "edge ids too short": ({"indptr": [0, 1], "indices": [0], "edge_ids": []}, "edge_ids for 1 edges, got 0"),
    "edge ids repeat": ({"indptr": [0, 2], "indices": [0, 0], "edge_ids": [1, 1]}, "permutation.*with repeats"),
    "edge ids out of range": ({"indptr": [0, 2], "indices": [0, 0], "edge_ids": [1, 2]}, "from 1 to 2"),
    "attribute": ({"indptr": [0, 1], "indices": [0], "edge_attrs": {"w": [1.0, 2.0]}}, "1 rows"),
}


@pytest.mark.parametrize(("arguments", "message"), CSC_ERRORS.values(), ids=CSC_ERRORS)
def test_from_csc_refuses(arguments, message):
    with pytest.raises(hr.GraphError, match=message):
        hr.Graph.from_csc(**arguments)


def test_the_plain_constructor_checks_dtypes_and_lengths():
    indptr, indices = torch.tensor([0, 1]), torch.tensor([0], dtype=torch.int32)
    assert hr.Graph(indptr, indices).num_edges == 1
    refused: list[tuple[Any, str]] = [
        ((indptr.int(), indices), "indptr of int64"),
        ((torch.tensor([0]), indices), "empty graph"),
        ((indptr, indices.float()), "indices of int32 or int64"),
        ((indptr, indices, torch.tensor([0, 1])), "edge_permutation to have 1 rows"),
        ((indptr.to("meta"), indices), "CPU memory"),
    ]
    for arguments, message in refused:
        with pytest.raises(hr.GraphError, match=message):
            hr.Graph(*arguments)


@settings(max_examples=30)
@given(edge_lists())
def test_bad_input_changes_nothing(edges):
    src, dst, num_nodes = edges
    before = src.copy(), dst.copy()
    with pytest.raises(hr.GraphError):
        hr.Graph.from_coo(np.append(src, num_nodes).astype(src.dtype), np.append(dst, 0), num_nodes=num_nodes)
    np.testing.assert_array_equal(before[0], src)
    np.testing.assert_array_equal(before[1], dst)


def test_edge_weights_are_looked_at_once(monkeypatch):
    looked_at = []
    check = _native.check_weights
    monkeypatch.setattr(_native, "check_weights", lambda *arguments: looked_at.append(check(*arguments)))
    graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], edge_attrs={"w": torch.ones(3), "v": torch.ones(3)})
    for name in ("w", "v"):
        plans = [
            hr.ItemSampler(3).sample_neighbor(graph, [2, 2], weight=name),
            hr.ItemSampler(3).sample_layer_neighbor(graph, [2], weight=name),
            hr.ItemSampler(3).sample_ladies(graph, [2], weight=name),
            hr.ItemSampler(3).sample_pinsage(graph, 2, 2, 2, weight=name),
        ]
        for plan in plans:
            for fuse in (True, False):
                assert len(list(plan.loader(fuse_sampling=fuse))) == 1
    assert len(looked_at) == 2


def test_bad_edge_weights_are_refused_every_time():
    graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], edge_attrs={"w": torch.tensor([1.0, -1.0, 1.0])})
    for _ in range(2):
        with pytest.raises(hr.GraphError, match="sample_neighbor"):
            hr.ItemSampler(3).sample_neighbor(graph, [2], weight="w")


def test_pickle_and_copy():
    graph = hr.Graph.from_coo(
        [0, 1], [1, 0], edge_attrs={"w": [1.0, 2.0]}, node_types={"a": 1, "b": 1}, edge_types={"e": 1, "f": 1}
    )
    graph.block_sampler()
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
