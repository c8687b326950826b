"""Rows of edges that come sorted by destination: where each ends, and which edges repeat another one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

#: Nodes without edges that are written at a time.
_NODES = 1 << 20


def index_dtype(count: int) -> np.dtype[np.signedinteger]:
    """Return the dtype of numbers below a count."""
    return np.dtype(np.int32 if count <= np.iinfo(np.int32).max else np.int64)


class RowEnds:
    """The array ``indptr`` of sorted destinations, as far as it is known behind each batch."""

    def __init__(self, num_nodes: int) -> None:
        self._num_nodes = num_nodes
        self._num_edges = 0
        self._node = 0  # the first one whose row may go on

    def begin(self) -> Ids:
        """Return the first entry, 0."""
        return np.zeros(1, np.int64)

    def add(self, dst: Ids) -> Iterator[Ids]:
        """Yield the ends of rows that the next destinations have ended."""
        if len(dst):
            yield from self._up_to(int(dst[-1]), dst)
            self._num_edges += len(dst)

    def end(self) -> Iterator[Ids]:
        """Yield the ends of all other rows."""
        yield from self._up_to(self._num_nodes, np.empty(0, np.int64))

    def _up_to(self, node: int, dst: Ids) -> Iterator[Ids]:
        while self._node < node:
            last = min(node, self._node + _NODES)
            yield self._num_edges + np.searchsorted(dst, np.arange(self._node, last), side="right")
            self._node = last


class Repeats:
    """Counts edges between the same nodes beyond the first, by the kind of the edges; kinds below 0 do not count.

    Of the destination that a batch ends in the sources are kept, as the next batch may go on with it.
    """

    def __init__(self, num_nodes: int, num_kinds: int) -> None:
        self._num_nodes, self._num_kinds = num_nodes, num_kinds
        self.counts = np.zeros(num_kinds, np.int64)
        self._open = -1  # the destination that the last batch has ended in
        self._seen: list[_Seen | None] = [None] * num_kinds

    def add(self, src: Ids, dst: Ids, kinds: Ids) -> None:
        """Count those of the next edges."""
        counted = kinds >= 0
        if not counted.all():
            src, dst, kinds = src[counted], dst[counted], kinds[counted]
        if not len(dst):
            return
        if int(dst[0]) != self._open:
            self._seen = [None] * self._num_kinds
        if int(dst[0]) == int(dst[-1]):
            self._add_to_open(src, kinds)
        else:
            first = int(np.searchsorted(dst, dst[0], side="right")) if int(dst[0]) == self._open else 0
            if first:
                self._add_to_open(src[:first], kinds[:first])
            last = int(np.searchsorted(dst, dst[-1], side="left"))
            self._add_whole(src[first:last], dst[first:last], kinds[first:last])
            self._seen = [None] * self._num_kinds
            self._add_to_open(src[last:], kinds[last:])
        self._open = int(dst[-1])

    def _add_whole(self, src: Ids, dst: Ids, kinds: Ids) -> None:
        if len(src):
            keys = np.sort(((dst - dst[0]) * self._num_kinds + kinds) * self._num_nodes + src)
            same = np.flatnonzero(keys[1:] == keys[:-1])
            self.counts += np.bincount((keys[same] // self._num_nodes) % self._num_kinds, minlength=self._num_kinds)

    def _add_to_open(self, src: Ids, kinds: Ids) -> None:
        for kind in range(self._num_kinds):
            mine = src if self._num_kinds == 1 else src[kinds == kind]
            fresh = unique(mine)
            known = self._seen[kind]
            self.counts[kind] += len(mine) - (len(fresh) if known is None else known.add(fresh))
            if known is None and len(fresh):
                self._seen[kind] = _Seen(fresh, self._num_nodes)


def unique(some: Ids) -> Ids:
    """Return numbers sorted, each once: `numpy.unique` puts them into a table first, which takes ten times as long."""
    in_order = np.sort(some)
    is_first = np.concatenate([np.ones(min(1, len(some)), bool), in_order[1:] != in_order[:-1]])
    found: Ids = in_order[is_first]
    return found


def set_bits(bits: NDArray[np.uint8], places: Ids) -> None:
    """Set the bits of some places, of which the first of a byte is its lowest."""
    np.bitwise_or.at(bits, places >> 3, np.left_shift(1, places & 7).astype(np.uint8))


class _Seen:
    """A set of sources: a sorted array while that is smaller than one bit for each node."""

    def __init__(self, first: Ids, num_nodes: int) -> None:
        self._num_nodes = num_nodes
        self._sorted: Ids = first
        self._bits: NDArray[np.uint8] | None = None

    def add(self, fresh: Ids) -> int:
        """Add unique sources, and return how many were not there."""
        if self._bits is None:
            before = len(self._sorted)
            self._sorted = unique(np.concatenate([self._sorted, fresh]))
            if len(self._sorted) > self._num_nodes // 64:
                self._bits = np.zeros(-(-self._num_nodes // 8), np.uint8)
                self._set(self._sorted)
            return len(self._sorted) - before
        new = fresh[(self._bits[fresh >> 3] >> (fresh & 7).astype(np.uint8)) & 1 == 0]
        self._set(new)
        return len(new)

    def _set(self, some: Ids) -> None:
        assert self._bits is not None
        set_bits(self._bits, some)
