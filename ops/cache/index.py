"""Which rows of a table are in which slots of a cache, by one of several policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_count, as_numpy
from headrace.ops.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Policies by name.
POLICIES = {
    "static": _native.CachePolicy.STATIC,
    "lru": _native.CachePolicy.LRU,
    "clock": _native.CachePolicy.CLOCK,
    "s3-fifo": _native.CachePolicy.S3_FIFO,
    "sieve": _native.CachePolicy.SIEVE,
    "look-ahead": _native.CachePolicy.LOOK_AHEAD,
}
#: Bytes that an index takes for each slot, at most and but for some 256; expectations of look-ahead come on top.
SLOT_BYTES = {"static": 64, "lru": 72, "clock": 65, "s3-fifo": 128, "sieve": 73, "look-ahead": 116}
_NUM_LEVELS = 256


class CacheIndex:
    """Find rows in the slots of a cache, and choose the rows that get slots; it holds no rows.

    Several threads may call all methods at once; none waits longer than for one look-up. In a forked process it is
    empty at first, and earlier look-ups hold no slots.

    >>> import torch
    >>> from headrace import ops
    >>> index = ops.CacheIndex("lru", capacity=2, num_rows=10)
    >>> lookup = index.look_up(torch.tensor([7, 3]))
    >>> lookup.miss_ids.tolist(), lookup.fill_slots.tolist()  # read these rows, then copy them into these slots
    ([7, 3], [0, 1])
    >>> lookup.finish(True)
    >>> again = index.look_up(torch.tensor([3, 5, 3]))
    >>> again.hit_slots.tolist(), again.hit_positions.tolist(), again.miss_ids.tolist()
    ([1, 1], [0, 2], [5])

    Parameters
    ----------
    policy : str
        One of ``POLICIES``.
    capacity : int
        Number of slots, at most `num_rows`.
    num_rows : int
        Number of rows.
    ids : torch.Tensor or numpy.ndarray, optional
        int64[capacity], distinct: the rows of a "static" cache, which needs them.
    scores : torch.Tensor or numpy.ndarray, optional
        float64[num_rows]: for "look-ahead", the priority of rows without a known next use, in place of their numbers of
        uses.

    Raises
    ------
    InputError
        For an unknown policy, and for arguments that do not fit it.
    """

    def __init__(
        self, policy: str, capacity: int, num_rows: int, *, ids: Array | None = None, scores: Array | None = None
    ) -> None:
        stage = "CacheIndex"
        if policy not in POLICIES:
            message = f"{stage}: expected a policy, one of {', '.join(POLICIES)}, got {policy!r}"
            raise InputError(message)
        capacity = as_count(capacity, "capacity", stage=stage)
        num_rows = as_count(num_rows, "num_rows", stage=stage)
        if (ids is not None) != (policy == "static") or (scores is not None and policy != "look-ahead"):
            message = f"{stage}: a static cache takes ids, look-ahead may take scores, and no other policy takes either"
            raise InputError(message)
        fixed = None if ids is None else as_numpy(ids, "ids", stage=stage)
        levels = None if scores is None else _levels(scores, num_rows, stage)
        self._native = _native.CacheIndex(POLICIES[policy], capacity, num_rows, fixed, levels)

    def look_up(self, ids: Array) -> _native.CacheLookup:
        """Look up the rows of one read, int32[n] or int64[n], and give slots to some of the missing ones.

        Its slots are held until its ``finish(filled)`` is called; pass True if all rows were copied to their slots.
        """
        return self._native.look_up(_as_ids(ids, "look_up"))

    def invalidate(self, ids: Array) -> None:
        """Forget rows that have changed: later look-ups do not find their old copies."""
        self._native.invalidate(_as_ids(ids, "invalidate"))

    def invalidate_all(self) -> None:
        """Forget all rows, as `invalidate` does."""
        self._native.invalidate_all()

    def expect(self, ids: Array) -> None:
        """Announce the ids of a coming read, after those announced before (only for "look-ahead")."""
        self._native.expect(_as_ids(ids, "expect"))

    def expect_nothing(self) -> None:
        """Forget the announced reads."""
        self._native.expect_nothing()

    @property
    def num_expected(self) -> int:
        """The number of announced reads."""
        return self._native.num_expected

    @property
    def num_bytes(self) -> int:
        """The bytes of the index."""
        return self._native.num_bytes

    @property
    def ids_in_slots(self) -> torch.Tensor:
        """The row in each slot, int64[capacity], or -1 if none is ready."""
        return torch.from_numpy(self._native.ids_in_slots)

    def counts(self) -> dict[str, int]:
        """Return the hits, misses, evictions and bypasses of all successful reads."""
        return dict(zip(("hits", "misses", "evictions", "bypasses", "invalidations"), self._native.counts, strict=True))


def _as_ids(ids: Array, stage: str) -> NDArray[np.int64]:
    rows = as_numpy(ids, "ids", stage=stage, dtypes=ID_DTYPES)
    return rows.astype(np.int64, copy=False)


def _levels(scores: Array, num_rows: int, stage: str) -> NDArray[np.uint8]:
    """Cut the ranking of rows into levels of equal size, the highest scores in the highest level."""
    values = as_numpy(scores, "scores", stage=stage, dtypes=("float64",))
    if values.size != num_rows:
        message = f"{stage}: expected a score for each of {num_rows} rows, got {values.size}"
        raise InputError(message)
    levels = np.empty(num_rows, np.uint8)
    levels[np.argsort(values, kind="stable")] = np.arange(num_rows) * _NUM_LEVELS // max(num_rows, 1)
    return levels
