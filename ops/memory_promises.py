"""Memory that caches of this process may fill: what is promised to one is not given to the next.

A cache of rows is planned when its loader is made and filled while that runs. Until then the system counts its memory
as free, so that every further cache would be given the same memory again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import NamedTuple

from headrace.ops.forks import ProcessLock

#: Memory of the host; that of GPUs goes by their numbers.
HOST = -1

_LOCK = ProcessLock()
_LIVING: weakref.WeakSet[Promise] = weakref.WeakSet()


class Promise:
    """Memory that its owner may take, until the owner and with it the promise is gone.

    Parameters
    ----------
    num_bytes : int
        How much.
    filled : callable
        Returns how much of it the owner holds now, so that the system counts that as taken. It must not keep the owner
        alive.
    allocated : bool
        Whether the owner has allocated all of it: limits on addresses count that already.
    place : int
        Where: ``HOST``, or the number of a GPU.
    """

    def __init__(
        self, num_bytes: int, filled: Callable[[], int], *, allocated: bool = False, place: int = HOST
    ) -> None:
        self.num_bytes = num_bytes
        self.filled = filled
        self.allocated = allocated
        self.place = place
        with _LOCK.held():
            _LIVING.add(self)


class Promised(NamedTuple):
    """What is promised at one place.

    Attributes
    ----------
    num_bytes : int
        To all owners together.
    unfilled : int
        What of that the system counts as free.
    unallocated : int
        What of that limits on addresses count as free.
    """

    num_bytes: int
    unfilled: int
    unallocated: int


def promised(place: int = HOST) -> Promised:
    """Return what is promised at a place to all that live in this process."""
    with _LOCK.held():
        living = [promise for promise in _LIVING if promise.place == place]
    left = [max(promise.num_bytes - promise.filled(), 0) for promise in living]
    not_allocated = [one for one, promise in zip(left, living, strict=True) if not promise.allocated]
    return Promised(sum(promise.num_bytes for promise in living), sum(left), sum(not_allocated))
