"""The shares that ranks take of items of their own."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.data.rank_shares import RankShares

COUNTS = st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any)


def bounds(shares: RankShares) -> list[list[int]]:
    return [shares.before(batch) for batch in range(shares.num_batches + 1)]


@given(COUNTS, st.integers(1, 30), st.booleans())
def test_shares_go_once_through_the_items_of_all_ranks(counts, size, by_rank):
    shares = RankShares(counts, None if by_rank else size, size if by_rank else None, drop_last=False)
    rows = bounds(shares)
    assert rows[0] == [0] * len(counts)
    assert rows[-1] == counts
    for before, behind in itertools.pairwise(rows):
        sizes = [end - start for start, end in zip(before, behind, strict=True)]
        assert min(sizes) >= 0
        if by_rank:
            assert max(sizes) <= size
        else:
            assert sum(sizes) == min(size, sum(counts) - sum(before))
    ideal = [[one * sum(row) / sum(counts) for one in counts] for row in rows]
    if not by_rank:  # nobody is far from its part of what has come
        most = len(counts) / 2 + 1
        assert all(
            abs(done - part) <= most
            for row, parts in zip(rows, ideal, strict=True)
            for done, part in zip(row, parts, strict=True)
        )


def test_even_ranks_take_even_shares():
    assert bounds(RankShares([6, 6], 4, None, drop_last=False)) == [[0, 0], [2, 2], [4, 4], [6, 6]]
    assert bounds(RankShares([5, 5], None, 2, drop_last=False)) == [[0, 0], [2, 2], [4, 4], [5, 5]]
    assert bounds(RankShares([5, 2], None, 2, drop_last=False)) == [[0, 0], [2, 1], [4, 2], [5, 2]]
    assert RankShares([5, 5], None, 2, drop_last=True).num_batches == 2
    assert RankShares([5, 6], 4, None, drop_last=True).num_batches == 2
