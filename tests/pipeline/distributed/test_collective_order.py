"""Which collectives ranks expect, so that repeated ones need no agreement."""

from __future__ import annotations

import torch

from headrace.pipeline.distributed.collective_order import REMEMBERED, CollectiveOrder


def test_what_repeats_itself_is_expected():
    order = CollectiveOrder()
    step = ["rows", "rows", "gradients", "gradients", "sum"]
    seen = [[order.follows(None, kind) for kind in step] for _ in range(5)]
    assert seen[0] == [False] * 5
    assert not all(seen[1])
    assert seen[2:] == [[True] * 5] * 3
    # What comes in between, now and then, is new once; later its beginning alone is.
    between = ["rows", "rows", "total", *step]
    assert [order.follows(None, kind) for kind in between][:4] == [True, True, False, False]
    for _ in range(3):
        seen += [[order.follows(None, kind) for kind in step] for _ in range(3)]
        again = [order.follows(None, kind) for kind in between]
        assert again.count(False) <= 1
    assert seen[-6:] == [[True] * 5] * 6


def test_whatever_repeats_itself_is_expected_in_the_end():
    generator = torch.Generator().manual_seed(0)
    for length in range(1, 12):
        for _ in range(10):
            cycle = torch.randint(2, (length,), generator=generator).tolist()
            order = CollectiveOrder()
            for _ in range(4):
                expected = [order.follows(None, str(kind)) for kind in cycle]
            assert all(expected)


def test_little_is_remembered():
    order = CollectiveOrder()
    for number in range(5 * REMEMBERED):
        expected = order.follows(None, str(number % 7))
        assert expected or number < 14
    assert len(order._outside._past) <= 2 * REMEMBERED


def test_between_batches_and_other_exchanges_nothing_is_expected():
    """One rank may come to the one, another rank to the other."""
    order = CollectiveOrder()
    for batch in range(3):
        seen = [order.follows((0, batch), "rows"), *(order.follows(None, "rows") for _ in range(3))]
    assert seen == [False, False, True, True]


def test_what_follows_from_the_batch_before_needs_no_agreement():
    order = CollectiveOrder()
    step = ["rows of 32 bytes", "rows of 32 bytes", "sum of 9 numbers"]
    assert [order.follows((0, 0), kind) for kind in step] == [False] * 3
    assert [order.follows((0, 1), kind) for kind in step] == [False, True, True]  # none knew that the first ends there
    assert [order.follows((0, 2), kind) for kind in step] == [True] * 3
    assert [order.follows((1, 0), kind) for kind in step] == [False, True, True]  # another epoch
    assert [order.follows((1, 1), kind) for kind in step[:2]] == [True, True]
    assert [order.follows((1, 2), kind) for kind in step] == [False, True, False]  # it ended earlier before
    assert [order.follows((1, 3), kind) for kind in [*step, step[0]]] == [False, True, True, False]
    assert [order.follows((1, 5), kind) for kind in [*step, step[0]]] == [False, True, True, True]  # one left out
    assert [order.follows((1, 6), kind) for kind in [*step[1:], step[0]]] == [True, False, False]
