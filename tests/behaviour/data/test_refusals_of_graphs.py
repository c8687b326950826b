"""Edges, arrays and attributes that are no graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import headrace as hr

from edge_lists import edge_lists

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
    "node types": (
        {"src": [0], "dst": [0], "num_nodes": 1, "node_types": {"a": 2}},
        "node_types to cover 1 ids",
    ),
    "too few of types": ({"src": [0], "dst": [2], "node_types": {"a": 2}}, "2"),
    "half a node": ({"src": [0], "dst": [0], "num_nodes": 1.5}, "num_nodes to be an integer of at least 0, got 1.5"),
    "half of a type": ({"src": [0], "dst": [0], "node_types": {"a": 1.5}}, "the count of 'a' to be an integer"),
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
    with pytest.raises(hr.InputError, match=message):
        hr.Graph.from_coo(**arguments)


CSC_ERRORS = {
    "decreasing": ({"indptr": [0, 2, 1, 2], "indices": [0, 1]}, "indptr"),
    "does not start at 0": ({"indptr": [1, 2], "indices": [0, 0]}, "indptr"),
    "does not end at num_edges": ({"indptr": [0, 1], "indices": [0, 0]}, "indptr"),
    "index out of range": ({"indptr": [0, 1], "indices": [1]}, "1"),
    "negative index": ({"indptr": [0, 1], "indices": [-1]}, "-1"),
    "no nodes": ({"indptr": [0], "indices": []}, "not without nodes"),
    "no indptr": ({"indptr": [], "indices": []}, "not without nodes"),
    "float indptr": ({"indptr": [0.0, 1.0], "indices": [0]}, "float64"),
    "edge ids too short": ({"indptr": [0, 1], "indices": [0], "edge_ids": []}, "edge_ids for 1 edges, got 0"),
    "edge ids repeat": ({"indptr": [0, 2], "indices": [0, 0], "edge_ids": [1, 1]}, "permutation.*with repeats"),
    "edge ids out of range": ({"indptr": [0, 2], "indices": [0, 0], "edge_ids": [1, 2]}, "from 1 to 2"),
    "attribute": ({"indptr": [0, 1], "indices": [0], "edge_attrs": {"w": [1.0, 2.0]}}, "1 rows"),
}


@pytest.mark.parametrize(("arguments", "message"), CSC_ERRORS.values(), ids=CSC_ERRORS)
def test_from_csc_refuses(arguments, message):
    with pytest.raises(hr.InputError, match=message):
        hr.Graph.from_csc(**arguments)


def test_the_plain_constructor_checks_dtypes_and_lengths():
    indptr, indices = torch.tensor([0, 1]), torch.tensor([0], dtype=torch.int32)
    assert hr.Graph(indptr, indices).num_edges == 1
    refused: list[tuple[Any, str]] = [
        ((indptr.int(), indices), "indptr of int64"),
        ((torch.tensor([0]), indices), "expected at least one node, got none"),
        ((indptr, indices.float()), "indices of int32 or int64"),
        ((indptr, indices, torch.tensor([0, 1])), "edge_permutation to have 1 rows"),
        ((indptr.to("meta"), indices), "CPU memory"),
        (([0, 1], [0]), "CSC form, got list and list; hr.Graph.from_coo"),
        ((torch.tensor([0, 1]), torch.tensor([1, 2, 3])), "number of indices, 3, got 0 to 1; hr.Graph.from_coo"),
        ((torch.tensor([1, 1]), indices), "number of indices, 1, got 1 to 1; hr.Graph.from_coo"),
    ]
    for arguments, message in refused:
        with pytest.raises(hr.InputError, match=message):
            hr.Graph(*arguments)


def test_attributes_are_no_arguments_of_their_own():
    weight = [0.5]
    with pytest.raises(hr.PlanError, match=r"got edge_weight=; write edge_attrs=\{'edge_weight': edge_weight\}"):
        hr.Graph.from_coo([0], [1], edge_weight=weight)
    assert hr.Graph.from_coo([0], [1], edge_attrs={"edge_weight": weight}).edge_attrs["edge_weight"].tolist() == weight
    with pytest.raises(hr.InputError, match=r"got dict; hr.FeatureStore\(node="):
        hr.ItemSampler(2).fetch_feature({"x": torch.zeros(2)}, node=["x"])


@settings(max_examples=30)
@given(edge_lists())
def test_bad_input_changes_nothing(edges):
    src, dst, num_nodes = edges
    before = src.copy(), dst.copy()
    with pytest.raises(hr.InputError):
        hr.Graph.from_coo(np.append(src, num_nodes).astype(src.dtype), np.append(dst, 0), num_nodes=num_nodes)
    np.testing.assert_array_equal(before[0], src)
    np.testing.assert_array_equal(before[1], dst)
