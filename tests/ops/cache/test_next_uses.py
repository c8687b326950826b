"""A look-ahead cache knows of later uses of a row whatever becomes of the next one."""

from __future__ import annotations

import pytest
import torch

from headrace import ops

PASSED_OVER = 64  # reads that were passed over by so many are given up


def made():
    """Return a cache of one row, in which row 2 is, and was used most."""
    index = ops.CacheIndex("look-ahead", 1, 200)
    for _ in range(10):
        read(index, 2)
    return index


def read(index, *rows):
    """Read rows; return how many were found."""
    lookup = index.look_up(torch.tensor(rows))
    lookup.finish(True)
    return len(lookup.hit_slots)


def expect(index, *reads):
    for rows in reads:
        index.expect(torch.tensor(rows))


@pytest.mark.parametrize("overlapping", [False, True])
def test_the_next_read_comes_while_the_row_is_filled_in(overlapping):
    index = made()
    expect(index, [1], [1], [1])
    filling = index.look_up(torch.tensor([1]))
    if not overlapping:
        filling.finish(True)
    assert read(index, 1) == (not overlapping)
    if overlapping:
        filling.finish(True)
    read(index, 2)
    assert read(index, 1) == 1


def test_of_several_later_uses_the_nearest_is_known():
    index = made()
    expect(index, [1], [1], [1], [3], [3], [1])
    filling = index.look_up(torch.tensor([1]))
    read(index, 1)
    filling.finish(True)
    read(index, 3)  # which is used again before the last use of row 1, but not before the next one
    assert read(index, 1) == 1


def test_the_read_that_gives_the_next_one_up_uses_the_row():
    index = made()
    others = [[100 + number] for number in range(PASSED_OVER - 1)]
    expect(index, [1], [1, 5], *others, [1], [1])
    for rows in ([1], *others):
        read(index, *rows)
    assert index.num_expected == 3
    assert read(index, 1) == 1
    assert index.num_expected == 1
    read(index, 2)
    assert read(index, 1) == 1


def test_the_next_read_is_given_up_while_the_row_is_held():
    index = made()
    expect(index, [1])
    others = [[100 + number] for number in range(PASSED_OVER)]
    expect(index, [1, 5], *others, [1])
    filling = index.look_up(torch.tensor([1]))
    for rows in others:
        read(index, *rows)
    assert index.num_expected == 1
    filling.finish(True)
    read(index, 2)
    assert read(index, 1) == 1
