from __future__ import annotations

from copy import deepcopy

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.data.types import TypeOffsets

from cuda_host.stand_in import StandIn


def test_ranges_follow_the_counts_in_order():
    types = TypeOffsets.from_counts({"movie": 3, "empty": 0, "actor": 2})
    assert types.offsets.tolist() == [0, 3, 3, 5]
    assert types.num_types == 3
    assert types.num_ids == 5
    assert types.id_range("movie") == range(3)
    assert types.id_range("empty") == range(3, 3)
    assert types.id_range("actor") == range(3, 5)


def test_global_ids_count_from_the_first_of_their_type():
    types = TypeOffsets.from_counts({"movie": 3, "actor": 2})
    assert types.global_ids("movie", [2, 0, 2]).tolist() == [2, 0, 2]
    found = types.global_ids("actor", torch.tensor([1, 0], dtype=torch.int16))
    assert found.tolist() == [4, 3]
    assert found.dtype == torch.int64
    assert types.global_ids("actor", []).tolist() == []


def test_type_of_skips_empty_types():
    types = TypeOffsets.from_counts({"none": 0, "movie": 2, "empty": 0, "actor": 2, "last": 0})
    assert types.type_of(torch.tensor([3, 0, 2, 1], dtype=torch.int32)).tolist() == [3, 1, 3, 1]
    assert types.type_of(torch.tensor([], dtype=torch.int64)).tolist() == []
    assert types.numbers_of(torch.tensor([[3, 9], [0, 9]], dtype=torch.int32)[:, 0]).tolist() == [3, 1]


def test_value_equality_and_repr():
    one = TypeOffsets(("a", "b"), torch.tensor([0, 1, 4]))
    two = TypeOffsets.from_counts({"a": 1, "b": 3})
    assert one == two
    assert hash(one) == hash(two)
    assert one != TypeOffsets.from_counts({"a": 1, "b": 4})
    assert one != "a"
    assert repr(one) == "TypeOffsets('a': 1, 'b': 3)"


def test_a_gpu_gets_the_offsets_once_and_they_are_no_part_of_the_value():
    types = TypeOffsets.from_counts({"a": 1, "b": 3})
    with stand_in(StandIn()):
        ids = torch.tensor([3, 0, 1])
        assert [types.numbers_of(ids).tolist() for _ in range(2)] == [[1, 0, 1]] * 2
        (copy,) = vars(types)["_copies"].values()
        assert torch.equal(copy, types.offsets)
    copied = deepcopy(types)
    assert copied == types
    assert "_copies" not in vars(copied)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TypeOffsets(("a", "a"), torch.tensor([0, 1, 2])), "names that all differ"),
        (lambda: TypeOffsets(("a",), torch.tensor([0, 1, 2])), r"int64\[2\] for 1 names"),
        (lambda: TypeOffsets(("a",), torch.tensor([0.0, 1.0])), "float32"),
        (lambda: TypeOffsets(("a",), torch.tensor([1, 2])), "start at 0"),
        (lambda: TypeOffsets(("a", "b"), torch.tensor([0, 2, 1])), "never decrease"),
        (lambda: TypeOffsets.from_counts({"a": -1}), "counts >= 0"),
        (lambda: TypeOffsets.from_counts({"a": 2}).id_range("b"), r"no type 'b'; the types are \['a'\]"),
        (lambda: TypeOffsets.from_counts({"a": 2}).type_of(torch.tensor([2])), r"ids in \[0, 2\), got ids from 2"),
        (lambda: TypeOffsets.from_counts({"a": 2}).type_of(torch.tensor([-1])), "got ids from -1"),
        (
            lambda: TypeOffsets.from_counts({"a": 2, "b": 3}).global_ids("a", [0, 2]),
            r"in \[0, 2\), got ids from 0 to 2",
        ),
        (lambda: TypeOffsets.from_counts({"a": 2}).global_ids("a", [-1]), "got ids from -1 to -1"),
        (lambda: TypeOffsets.from_counts({"a": 2}).global_ids("b", [0]), "no type 'b'"),
        (lambda: TypeOffsets.from_counts({"a": 2}).global_ids("a", [0.0]), r"integer ids, got float64\[1\]"),
    ],
)
def test_bad_offsets_are_refused(make, message):
    with pytest.raises(hr.InputError, match=message):
        make()
