"""Types of nodes and edges: ranges of one id space."""

from __future__ import annotations

import torch

import headrace as hr


def types_of(counts):
    """Types as the nodes of a graph have them."""
    return hr.Graph.from_coo([], [], node_types=counts).node_types


def test_ranges_follow_the_counts_in_order():
    types = types_of({"movie": 3, "empty": 0, "actor": 2})
    assert types.offsets.tolist() == [0, 3, 3, 5]
    assert types.num_types == 3
    assert types.num_ids == 5
    assert types.id_range("movie") == range(3)
    assert types.id_range("empty") == range(3, 3)
    assert types.id_range("actor") == range(3, 5)


def test_global_ids_count_from_the_first_of_their_type():
    types = types_of({"movie": 3, "actor": 2})
    assert types.global_ids("movie", [2, 0, 2]).tolist() == [2, 0, 2]
    found = types.global_ids("actor", torch.tensor([1, 0], dtype=torch.int16))
    assert found.tolist() == [4, 3]
    assert found.dtype == torch.int64
    assert types.global_ids("actor", []).tolist() == []


def test_type_of_skips_empty_types():
    types = types_of({"none": 0, "movie": 2, "empty": 0, "actor": 2, "last": 0})
    assert types.type_of(torch.tensor([3, 0, 2, 1], dtype=torch.int32)).tolist() == [3, 1, 3, 1]
    assert types.type_of(torch.tensor([], dtype=torch.int64)).tolist() == []
    assert types.numbers_of(torch.tensor([[3, 9], [0, 9]], dtype=torch.int32)[:, 0]).tolist() == [3, 1]


def test_types_are_equal_by_value():
    types = types_of({"a": 1, "b": 3})
    assert types == types_of({"a": 1, "b": 3})
    assert hash(types) == hash(types_of({"a": 1, "b": 3}))
    assert types != types_of({"a": 1, "b": 4})
    assert types != types_of({"a": 1, "c": 3})
    assert types != "a"
    assert "'a': 1, 'b': 3" in repr(types)
