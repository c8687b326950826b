"""Sets of ids: found as a dictionary finds them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import InputError
from headrace.ops.graphs.ranks import Ranks

#: Sizes around words and blocks, of which one has the bits of 384 ids.
SIZES = (1, 63, 64, 65, 383, 384, 385, 767, 768, 1000)


@st.composite
def sets_of_ids(draw) -> tuple[int, list[int]]:
    size = draw(st.sampled_from(SIZES))
    return size, sorted(draw(st.sets(st.integers(0, size - 1))))


def ranked(ids: list[int], size: int) -> Ranks:
    return Ranks.of(torch.tensor(ids, dtype=torch.int64), size)


@pytest.mark.parametrize("device", ["cpu", "by operations of torch"])
@given(given_set=sets_of_ids())
def test_places_are_those_in_the_list(given_set, device):
    size, ids = given_set
    rows, every = ranked(ids, size), torch.arange(size)
    place = {one: number for number, one in enumerate(ids)}
    found = rows.find(every) if device == "cpu" else rows.find_by_torch(every)
    assert found.tolist() == [place.get(one, -1) for one in range(size)]


@given(given_set=sets_of_ids())
def test_members_and_counts_are_those_of_the_list(given_set):
    size, ids = given_set
    ranks = ranked(ids, size)
    assert ranks.members().tolist() == ids
    assert [ranks.num_below(bound) for bound in range(size + 1)] == [sum(i < b for i in ids) for b in range(size + 1)]


def test_sets_of_all_and_of_none():
    for size in SIZES:
        assert ranked(list(range(size)), size).find(torch.arange(size)).tolist() == list(range(size))
        assert ranked([], size).find(torch.arange(size)).unique().tolist() == [-1]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, 0], "ids that ascend in .0, 9., got 0 behind 0"),
        ([3, 2], "got 2 behind 3"),
        ([9], "got 9 behind -1"),
        ([-1], "got -1 behind -1"),
    ],
)
def test_ids_that_are_no_set_are_refused(ids, message):
    with pytest.raises(InputError, match=message):
        ranked(ids, 9)


def test_other_ids_are_refused():
    for node in (-1, 9, 1 << 40):
        with pytest.raises(InputError, match=rf"expected ids in \[0, 9\), got {node}"):
            ranked([1], 9).find(torch.tensor([node]))
