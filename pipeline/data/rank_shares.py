"""How many of its own items each rank has handed out before a batch, where every rank brings its own."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence


class RankShares:
    """Shares of ranks that have different numbers of items, in as many batches on all ranks.

    All ranks come to the ends of their items together: a batch takes from each rank in proportion to what it has. By
    `batch_size`, which counts all ranks together, every batch but the last has just so many items: item j of a rank
    with n of them stands at (j + 1/2) / n of the epoch, and batches are cut from the order of all these places
    (Webster's apportionment). By `batch_size_per_rank` the rank that has most takes so many for each batch, and none
    takes more.

    >>> shares = RankShares([6, 2], batch_size=4, batch_size_per_rank=None, drop_last=False)
    >>> [shares.before(batch) for batch in range(shares.num_batches + 1)]
    [[0, 0], [3, 1], [6, 2]]

    Parameters
    ----------
    counts
        Items of each rank.
    batch_size, batch_size_per_rank
        One of the two.
    drop_last
        Whether a last batch is left out for which the items, or those of the rank that has most, do not suffice.
    """

    def __init__(
        self, counts: Sequence[int], batch_size: int | None, batch_size_per_rank: int | None, *, drop_last: bool
    ) -> None:
        self._counts = list(counts)
        self._by_rank = batch_size is None
        size = batch_size_per_rank if batch_size is None else batch_size
        assert size is not None  # one of the two is set
        self._size = size
        # Places are whole numbers in units of half this, so that comparisons are exact.
        self._epoch = math.lcm(*(count for count in counts if count))
        self._last = max(counts) if self._by_rank else sum(counts)
        self.num_batches = self._last // size if drop_last else -(-self._last // size)

    def before(self, batch: int) -> list[int]:
        """Return the number of items that each rank has handed out before a batch."""
        done = min(batch * self._size, self._last)
        halves = [(2 * done * count + self._last) // (2 * self._last) for count in self._counts]  # rounded half up
        return halves if self._by_rank else self._corrected(halves, done)

    def _corrected(self, taken: list[int], total: int) -> list[int]:
        """Return the first `total` of the order of places, from those before or at one place; ties go by rank."""
        surplus = sum(taken) - total
        if surplus > 0:
            last = [(-self._place(rank, taken[rank] - 1), -rank) for rank in range(len(taken)) if taken[rank]]
            heapq.heapify(last)
            for _ in range(surplus):
                rank = -heapq.heappop(last)[1]
                taken[rank] -= 1
                if taken[rank]:
                    heapq.heappush(last, (-self._place(rank, taken[rank] - 1), -rank))
        elif surplus < 0:
            following = [(self._place(rank, taken[rank]), rank) for rank in self._with_more(taken)]
            heapq.heapify(following)
            for _ in range(-surplus):
                rank = heapq.heappop(following)[1]
                taken[rank] += 1
                if taken[rank] < self._counts[rank]:
                    heapq.heappush(following, (self._place(rank, taken[rank]), rank))
        return taken

    def _with_more(self, taken: list[int]) -> list[int]:
        return [rank for rank, count in enumerate(self._counts) if taken[rank] < count]

    def _place(self, rank: int, item: int) -> int:
        return (2 * item + 1) * (self._epoch // self._counts[rank])
