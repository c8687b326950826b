"""Cache policies of users: which rows a cache in CPU memory gives up."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.forks import ProcessLock
from headrace.pipeline.data.arrays import as_cpu_tensor
from headrace.pipeline.data.own_methods import check_methods

Int64s = NDArray[np.int64]


class CachePolicy(ABC):
    """Decides which rows a cache in CPU memory keeps: the base class of a policy of your own.

    Give one to ``hr.CachedFeature(source, policy, rows=...)``. One cache has one policy object, and calls its methods
    from one thread at a time; reads of other threads wait. A read first fills free slots.

    >>> import torch
    >>> import headrace as hr
    >>> class KeepsSmallIds(hr.ext.CachePolicy):
    ...     def evict(self, kept, missed, count):
    ...         order = torch.cat((kept, missed)).sort(descending=True).values[:count]
    ...         return order[torch.isin(order, kept)]
    >>> cached = hr.CachedFeature(torch.eye(6), KeepsSmallIds(), rows=2)
    >>> for ids in ([5, 4], [0, 1], [3, 0]):
    ...     rows = cached.read(torch.tensor(ids))
    >>> cached.stats()["hits"], cached.stats()["bypasses"]  # 0 was kept, and 3 got no slot
    (1, 1)
    """

    def used(self, ids: Tensor) -> None:  # noqa: B027 - most policies decide by what they saw, others by ids alone
        """Note the distinct rows of a read, int64[n], before slots are given to those that were missing."""

    @abstractmethod
    def evict(self, kept: Tensor, missed: Tensor, count: int) -> Tensor:
        """Return the rows that make room for missing ones.

        Parameters
        ----------
        kept: int64[num_kept]
            The rows in the cache, but for those of this read.
        missed: int64[num_missed]
            The missing rows that find no free slot, in the order of the read: each evicted row makes room for the next.
        count
            ``len(missed)``.

        Returns
        -------
        int64[n]
            Distinct rows of `kept`, at most `count`. With fewer, the last of the missing rows get no slot.
        """


@dataclass(eq=False)
class UsersLookup:
    """The slots of the rows of one read, as `CacheIndex.look_up` returns them.

    Rows to fill that are invalidated while the read runs are not `fresh`: their copies are not found later.
    """

    index: UsersIndex
    hit_slots: Int64s
    hit_positions: Int64s
    miss_ids: Int64s
    miss_positions: Int64s
    repeat_positions: Int64s
    repeated_positions: Int64s
    fill_slots: Int64s
    process: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        self.fresh = np.ones(len(self.fill_slots), bool)

    @property
    def fill_ids(self) -> Int64s:
        """The missing rows that have slots: the first ones."""
        return self.miss_ids[: len(self.fill_slots)]

    @property
    def fill_positions(self) -> Int64s:
        """Their positions in the read."""
        return self.miss_positions[: len(self.fill_slots)]

    @property
    def holds_slots(self) -> bool:
        """Whether this process, rather than the one that forked it, has looked up."""
        return self.process == os.getpid()

    def finish(self, filled: bool) -> None:
        """Let later reads find the rows that were copied to their slots, if they were."""
        self.index.finish(self, filled=filled)


#: The index that has each policy, by the identity of the policy, which the index keeps alive.
_INDEXES: WeakValueDictionary[int, UsersIndex] = WeakValueDictionary()


class UsersIndex:
    """Finds rows in the slots of a cache by a policy of a user's; the twin of `CacheIndex`.

    Parameters
    ----------
    policy
        The policy.
    capacity
        Number of slots.
    num_rows
        Number of rows.

    Raises
    ------
    InputError
        If another cache has the policy, or a method of it does not take what it is called with.
    """

    num_expected = 0

    def __init__(self, policy: CachePolicy, capacity: int, num_rows: int) -> None:
        check_methods(policy, CachePolicy, type(policy).__name__, InputError)
        if _INDEXES.get(id(policy)) is not None:
            raise InputError(
                f"CachedFeature: expected a policy of its own for each cache, got a {type(policy).__name__} that "
                "another cache has; make one for each, or copy.deepcopy(policy)"
            )
        _INDEXES[id(policy)] = self
        self._policy = policy
        self._lock = ProcessLock()
        self._process = os.getpid()
        self._slots = np.full(num_rows, -1, np.int64)
        self._ids = np.full(capacity, -1, np.int64)
        self._running: list[UsersLookup] = []  # whose slots are read or filled
        self._counts = dict.fromkeys(("hits", "misses", "evictions", "bypasses", "invalidations"), 0)

    def look_up(self, ids: Tensor) -> UsersLookup:
        """Look up the rows of one read, and give slots to some of the missing ones."""
        rows = self._checked(ids, "look_up")
        with self._lock.held():
            if self._process != os.getpid():  # a forked process has copies of the slots, some of them half filled
                self._process, self._running = os.getpid(), []
                self._forget(self._ids[self._ids >= 0])
            slots = self._slots[rows]
            missing, hits = slots < 0, np.flatnonzero(slots >= 0)
            distinct, first, number = np.unique(rows, return_index=True, return_inverse=True)
            misses = np.sort(first[self._slots[distinct] < 0])  # where each is read first, in the order of the read
            missing[misses] = False
            again = np.flatnonzero(missing)
            self._policy.used(torch.from_numpy(distinct))
            fill_slots = self._slots_for(rows[misses], slots[hits])
            lookup = UsersLookup(self, slots[hits], hits, rows[misses], misses, again, first[number[again]], fill_slots)
            self._running.append(lookup)
            return lookup

    def _slots_for(self, missed: Int64s, hit_slots: Int64s) -> Int64s:
        """Return slots for the first of the missing rows: free ones, and those of rows that are evicted."""
        usable = np.ones(len(self._ids), bool)
        usable[hit_slots] = False
        for running in self._running:
            usable[running.hit_slots] = usable[running.fill_slots] = False
        free = np.flatnonzero(usable & (self._ids < 0))
        if len(missed) > len(free):
            evicted = self._evicted(self._ids[usable & (self._ids >= 0)], missed[len(free) :])
            free = np.concatenate((free, self._slots[evicted]))
            self._forget(evicted)
            self._counts["evictions"] += len(evicted)
        return free[: len(missed)]

    def _evicted(self, kept: Int64s, missed: Int64s) -> Int64s:
        name = f"{type(self._policy).__name__}.evict"
        rows = self._policy.evict(torch.from_numpy(kept.copy()), torch.from_numpy(missed.copy()), len(missed))
        if not isinstance(rows, Tensor) or rows.dtype != torch.int64 or rows.ndim != 1 or not rows.is_cpu:
            described = f"{rows.dtype}{list(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            raise InputError(f"{name}: expected a CPU tensor int64[n] of rows to give up, got {described}")
        evicted: Int64s = rows.numpy()
        if len(evicted) > len(missed) or len(np.unique(evicted)) < len(evicted) or not np.isin(evicted, kept).all():
            raise InputError(
                f"{name}: expected at most {len(missed)} distinct rows among the {len(kept)} of `kept`, got "
                f"{evicted.tolist()[:10]}"
            )
        return evicted

    def finish(self, lookup: UsersLookup, *, filled: bool) -> None:
        """End a read."""
        with self._lock.held():
            if not lookup.holds_slots:
                return
            self._running.remove(lookup)
            if filled:
                # Another read may have missed the same row, and ended first.
                fresh = lookup.fresh & (self._slots[lookup.fill_ids] < 0)
                ids, slots = lookup.fill_ids[fresh], lookup.fill_slots[fresh]
                self._ids[slots], self._slots[ids] = ids, slots
                self._counts["misses"] += len(lookup.miss_ids)
                self._counts["hits"] += len(lookup.hit_slots) + len(lookup.repeat_positions)
                self._counts["bypasses"] += len(lookup.miss_ids) - len(lookup.fill_ids)

    def _forget(self, rows: Int64s) -> None:
        self._ids[self._slots[rows]] = -1
        self._slots[rows] = -1

    def invalidate(self, ids: Tensor) -> None:
        """Forget rows that have changed, and those that running reads have read before."""
        rows = np.unique(self._checked(ids, "invalidate"))
        with self._lock.held():
            self._invalidate(rows[self._slots[rows] >= 0])
            for lookup in self._running:
                lookup.fresh &= ~np.isin(lookup.fill_ids, rows)

    def invalidate_all(self) -> None:
        """Forget all rows, as `invalidate` does."""
        with self._lock.held():
            self._invalidate(self._ids[self._ids >= 0])
            for lookup in self._running:
                lookup.fresh[:] = False

    def _invalidate(self, rows: Int64s) -> None:
        self._forget(rows)
        self._counts["invalidations"] += len(rows)

    def _checked(self, ids: Tensor, function: str) -> Int64s:
        rows = as_cpu_tensor(ids, "ids").numpy().astype(np.int64, copy=False)
        outside = rows[(rows < 0) | (rows >= len(self._slots))]
        if len(outside):
            raise InputError(f"{function}: expected ids from 0 to {len(self._slots) - 1}, got {int(outside[0])}")
        return rows

    def expect(self, ids: Any) -> None:
        """Refuse announcements, which policies of users do not read."""
        del ids
        raise InputError(f"expect: expected the policy look-ahead, got {type(self._policy).__name__}")

    def expect_nothing(self) -> None:
        """Refuse the same."""
        self.expect(None)

    def counts(self) -> dict[str, int]:
        """Return the hits, misses, evictions and bypasses of all successful reads."""
        return dict(self._counts)
