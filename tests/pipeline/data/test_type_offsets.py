from __future__ import annotations

from copy import deepcopy

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.data.types import TypeOffsets

from cuda_host.stand_in import StandIn


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
    ],
)
def test_bad_offsets_are_refused(make, message):
    with pytest.raises(hr.InputError, match=message):
        make()
