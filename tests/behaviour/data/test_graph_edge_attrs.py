"""Attributes of edges, in the order of the input and in that of the CSC."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

# What torch has, but writes to no places.
UNSIGNED = [getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.uint8, torch.bool, torch.int16, *UNSIGNED])
def test_edge_attributes_keep_dtype_and_shape(dtype):
    values = torch.arange(12).reshape(3, 2, 2).to(dtype)
    graph = hr.Graph.from_coo([0, 1, 2], [2, 1, 0], edge_attrs={"a": values})
    assert graph.edge_attrs["a"].dtype == dtype
    assert torch.equal(graph.edge_attrs_csc["a"], values[[2, 1, 0]])
    assert torch.equal(graph.edge_attrs["a"], values)


def test_edge_attributes_are_looked_up_by_name():
    graph = hr.Graph.from_coo([0, 1], [1, 0], edge_attrs={"w": [1.0, 2.0], "v": [3, 4]})
    assert list(graph.edge_attrs) == ["w", "v"]
    assert len(graph.edge_attrs) == 2
    assert "v" in graph.edge_attrs
    assert "u" not in graph.edge_attrs
    assert repr(graph.edge_attrs) == "EdgeAttrs(['w', 'v'])"
    with pytest.raises(KeyError):
        graph.edge_attrs["u"]


def test_edge_attributes_in_csc_order_are_no_copies():
    rows = torch.rand(3)
    graph = hr.Graph.from_csc([0, 2, 3], [1, 0, 1], edge_attrs={"w": rows})
    assert graph.edge_attrs["w"].data_ptr() == graph.edge_attrs_csc["w"].data_ptr() == rows.data_ptr()


def test_edge_attributes_as_edge_features_meet_their_edges():
    """Of every sampled edge, the number that says which nodes it joins; weights pick by the same attribute."""
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
    with pytest.raises(hr.InputError, match="pass its edge_attrs_csc"):
        hr.Graph.from_csc(graph.indptr, graph.indices, edge_ids=graph.edge_ids, edge_attrs=graph.edge_attrs)


def test_bad_edge_weights_are_refused_every_time():
    graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], edge_attrs={"w": torch.tensor([1.0, -1.0, 1.0])})
    for _ in range(2):
        with pytest.raises(hr.InputError, match="sample_neighbor"):
            hr.ItemSampler(3).sample_neighbor(graph, [2], weight="w")
