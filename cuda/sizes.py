"""Sizes of arrays that the device alone knows: waited for, or bounded by what minibatches before took."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headrace.cuda.faults import NONE, Faults
from headrace.cuda.launch import launch

#: Up to so many edges, of 20 bytes each, arrays have more room than they need, so that the host waits for no size.
MOST_EDGES_UNKNOWN = 1 << 24
#: What rooms have beyond the largest size so far: a part of it, and so many.
PART_MORE, MORE = 4, 64


def with_more(size: int) -> int:
    """Return the room for what took so much at most so far."""
    return size + size // PART_MORE + MORE


class TooSmallError(Exception):
    """An array needed more room than it was given; rows of it are empty, and what was made of them is not right."""


class Taken:
    """The largest sizes that minibatches of one kind took so far, in the order in which they asked for room.

    Several threads note what they see; if they lose some of it, a minibatch is made twice.

    Parameters
    ----------
    warn
        Shows a user a warning.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.warn = warn
        self.sizes: list[int] = []
        #: Ids that a minibatch had room for.
        self.num_ids = 0
        #: Different ids that a table is made for; None before the first minibatch.
        self.expected: int | None = None
        self._num_distinct = 0
        #: Whether the device had no memory for arrays with room.
        self.lacks_memory = False

    def note(self, sizes: Sequence[int], num_ids: int, num_distinct: int) -> None:
        """Take the sizes of a minibatch into account."""
        if num_distinct > self._num_distinct:
            self._num_distinct, self.expected = num_distinct, with_more(num_distinct)
        if len(sizes) == 0:
            return  # all sizes are bounded, and so is the room for ids
        self.num_ids = max(self.num_ids, num_ids)
        known = self.sizes
        both = max(len(known), len(sizes))
        padded = [[*one, *[0] * (both - len(one))] for one in (known, sizes)]
        self.sizes = [max(pair) for pair in zip(*padded, strict=True)]


class Sizes:
    """Gives room to the arrays of one minibatch: by what others took, or what they take, for which the host waits.

    Parameters
    ----------
    faults
        Looked at whenever the host waits. The last of their `sizes`, one for each of `taken`, are for what is wanted.
    taken
        What others took at most, in the order in which room is asked for.
    """

    def __init__(self, faults: Faults, taken: Sequence[int] = ()) -> None:
        self.faults = faults
        self._taken = taken
        self._first = faults.sizes.shape[0] - len(taken)
        #: What has been given, and what was wanted, where that is known already.
        self._given: list[int] = []
        self._wanted: list[int | None] = []

    @property
    def num_given(self) -> int:
        """How many arrays have asked for room so far."""
        return len(self._given)

    def fit(self, degrees: Tensor, indptr: Tensor) -> tuple[Tensor, Tensor, int]:
        """Give room to rows that begin at indptr, int64[num_rows + 1], the last of which is the size.

        Returns the degrees of segments, int64[num_rows], `indptr` and the room. Where that is too little, all rows and
        segments are empty.
        """
        largest = self._next()
        if largest is None or (room := with_more(largest)) > MOST_EDGES_UNKNOWN:
            (size,) = self.faults.check(indptr[-1])
            self.hear(size)
            return degrees, indptr, size
        fitted, fitted_degrees = torch.empty_like(indptr), torch.empty_like(degrees)
        num_rows = degrees.shape[0]
        arguments = (indptr, degrees, num_rows, room, fitted, fitted_degrees, self._give(room))
        launch("fit_rows", (), num_rows + 1, *arguments, device=degrees.device)
        return fitted_degrees, fitted, room

    def rounds(self) -> tuple[int, Tensor] | None:
        """Return how many rounds to compute, and where to write how many it takes, int64[1]; None if unknown."""
        largest = self._next()
        if largest is None:
            return None
        return largest + 2, self._give(largest + 2)

    def hear(self, size: int) -> None:
        """Note what the next array took, of which the host has heard."""
        self._given.append(size)
        self._wanted.append(size)

    def wanted(self, read: Sequence[int]) -> list[int]:
        """Return what arrays took, of all that the host has read of `faults.sizes`.

        Raises
        ------
        TooSmallError
            If some had less room.
        """
        if len(self._given) == 0:
            return []
        found = [read[self._first + place] if one is None else one for place, one in enumerate(self._wanted)]
        if any(size > room for size, room in zip(found, self._given, strict=True)):
            raise TooSmallError
        return found

    def _next(self) -> int | None:
        place = len(self._given)
        return self._taken[place] if place < len(self._taken) else None

    def _give(self, room: int) -> Tensor:
        place = self._first + len(self._given)
        self._given.append(room)
        self._wanted.append(None)
        return self.faults.sizes[place : place + 1]


assert NONE > MOST_EDGES_UNKNOWN  # a size that is not written yet is too large
