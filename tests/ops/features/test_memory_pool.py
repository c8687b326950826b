"""Memory that waits for the next minibatch is handed back when it is asked for."""

from __future__ import annotations

import torch

from headrace.ops import gather_rows, trim_pool

NUM_BYTES = 1 << 24


def test_what_was_given_back_is_handed_to_the_system_once():
    trim_pool()
    rows = gather_rows(torch.zeros(1, NUM_BYTES // 4), torch.zeros(1, dtype=torch.int64))
    assert trim_pool() == 0  # it is in use
    del rows
    assert NUM_BYTES <= trim_pool() < 2 * NUM_BYTES
    assert trim_pool() == 0


def test_rows_are_right_in_memory_that_is_new_again():
    table, ids = torch.randn(100, 1 << 12), torch.randint(100, (500,))
    for _ in range(2):
        assert torch.equal(gather_rows(table, ids), table[ids])
        assert trim_pool() > 0


def test_what_waits_and_what_is_used_are_no_more_than_was_used_at_once():
    """Blocks of sizes that no longer come make room for those that do: a limit on memory has to hold both."""
    table, one = torch.zeros(1, NUM_BYTES // 4), torch.zeros(1, dtype=torch.int64)
    small = torch.zeros(1, NUM_BYTES // 8)
    trim_pool()
    at_once = [gather_rows(table, one) for _ in range(4)]
    del at_once  # 64 MiB wait
    others = [gather_rows(small, one) for _ in range(6)]  # 48 MiB, which none of them serves
    most = 4 * NUM_BYTES * 9 // 8
    assert len(others) * NUM_BYTES // 2 + trim_pool() <= most + 4 * NUM_BYTES // 8
