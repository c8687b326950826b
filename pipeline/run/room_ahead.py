"""Memory for batches that wait for the training loop: no more run ahead than have room."""

from __future__ import annotations

from headrace.ops.features.memory_pool import trim_pool
from headrace.pipeline.distributed.job import ranks_here
from headrace.pipeline.plan.machine import memory_room
from headrace.pipeline.run.nodes import Work

#: Rows of a batch, in bytes, from which on the system is asked for room: to ask takes up to a millisecond.
LARGE = 8 << 20

#: A batch that is begun needs room for itself and for one more: the training loop needs some of it, and so do reads.
SPARE = 1

#: Where there is room for so many batches, none of a few that follow asks for it.
PLENTY = 64


class RoomAhead:
    """Says whether there is room for another batch, by the largest that was made.

    Rows are most of a batch that is large. What limits memory (the machine, groups of processes, ``ulimit``) is asked
    each time, as others take memory too: caches that fill, the model, other processes of a container.
    """

    def __init__(self) -> None:
        self._largest = 0
        self._ranks: int | None = None
        self._unasked = 0

    def note(self, work: Work) -> None:
        """Learn from a batch that was made how large they are."""
        num_bytes = sum(record.counts.get("bytes", 0) for record in work.records)
        self._largest = max(self._largest, num_bytes)

    def is_there(self, being_made: int) -> bool:
        """Return whether another batch has room beside those that are being made, which take theirs yet.

        If it has none, memory that is kept for coming batches goes back to the system: limits count that as taken.
        """
        if self._largest < LARGE:
            return True
        if self._unasked > 0:
            self._unasked -= 1
            return True
        needed = (being_made + 1 + SPARE) * self._largest
        room = self._room()
        if room is None or room >= PLENTY * self._largest:
            self._unasked = PLENTY // 8
        elif room < needed and trim_pool() > 0:
            room = self._room()
        return room is None or room >= needed

    def _room(self) -> int | None:
        if self._ranks is None:
            self._ranks = ranks_here()
        return memory_room(self._ranks) or None
