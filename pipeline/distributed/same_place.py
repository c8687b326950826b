"""Ranks that make batches for themselves begin each iteration of a loader at the same place, or are told who does not.

Nobody waits for another rank here: who begins first leaves its place, the others compare theirs with it, and who
differs lets all know.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod

from headrace.ops.errors import PeerError
from headrace.pipeline.distributed.channel import LOOK


class Notes(ABC):
    """Where ranks leave texts and count, without waiting for any.

    Attributes
    ----------
    look_every
        Seconds between two looks of a rank.
    """

    look_every = LOOK

    @abstractmethod
    def first(self, key: str, text: str) -> str:
        """Leave a text under a key where there is none; return the one that is there then."""

    @abstractmethod
    def get(self, key: str) -> str:
        """Return the text under a key; it is there."""

    @abstractmethod
    def add(self, key: str, value: int) -> int:
        """Add to a counter, which begins at 0, and return it."""

    @abstractmethod
    def delete(self, *keys: str) -> None:
        """Delete keys that no rank reads any more."""


class SamePlace:
    """Where the iterations of one loader begin on all ranks.

    The first iterations of all ranks belong together, and so on. One that begins its epoch again, or goes on with it,
    where the last was left midway belongs to what that one did: a rank may look at a batch and call ``set_epoch``.
    Behind a report that places differ all count anew, as each rank is told once and may then go where the others are.

    Parameters
    ----------
    notes
        Where ranks leave their places.
    rank, world_size
        This rank.
    loader
        The number of the loader, the same on all ranks.
    """

    def __init__(self, notes: Notes, rank: int, world_size: int, loader: int) -> None:
        self._notes = notes
        self._rank = rank
        self._world_size = world_size
        self._key = f"places/{loader}"
        self._number = 0  # of what the next iteration begins
        self._epoch: int | None = None  # that it has not come to the end of
        self._reached = 0  # batches of it, by this rank
        self._num_reported = 0  # how often ranks differed, as far as this one was told
        self._looked = 0.0

    def turn(self, epoch: int, batch: int) -> Turn:
        """Return what an iteration notes that begins there."""
        return Turn(self, epoch, batch)

    def begin(self, epoch: int, batch: int) -> None:
        """Begin an iteration.

        Raises
        ------
        PeerError
            If another rank began at another place; it says which rank is where.
        """
        self.look()
        if epoch == self._epoch and batch <= self._reached:
            return
        key = f"{self._key}/{self._num_reported}/{self._number}"
        try:
            text = self._notes.first(key, json.dumps([self._rank, epoch, batch]))
        except PeerError:  # the store is gone, and with it who could be compared with
            return
        other, *place = json.loads(text)
        if place != [epoch, batch]:
            error = _differs({other: place, self._rank: [epoch, batch]})
            self._report(error)
            raise PeerError(error)
        self._number += 1
        self._epoch, self._reached = epoch, batch
        self._forget(key)

    def reach(self, epoch: int, batch: int) -> None:
        """Note how many batches of an epoch this rank has."""
        self._epoch, self._reached = epoch, batch

    def end(self) -> None:
        """Note that the epoch is over."""
        self._epoch = None

    def look(self, *, every: float = 0.0) -> None:
        """See whether a rank reported that places differ, if that was not done in so many seconds.

        Raises
        ------
        PeerError
            If so, once for each report.
        """
        now = time.monotonic()
        if now - self._looked < every:
            return
        self._looked = now
        try:
            if self._notes.add(f"{self._key}/reports", 0) <= self._num_reported:
                return
            rank, error = json.loads(self._notes.get(f"{self._key}/report/{self._num_reported}"))
        except PeerError:
            return
        self._begin_anew()
        raise PeerError(f"{error}\n(reported by rank {rank})")

    @property
    def look_every(self) -> float:
        """Seconds between two looks."""
        return self._notes.look_every

    def _report(self, error: str) -> None:
        """Let all ranks know, unless another one did."""
        report = json.dumps([self._rank, error])
        try:
            if self._notes.first(f"{self._key}/report/{self._num_reported}", report) == report:
                self._notes.add(f"{self._key}/reports", 1)
        except PeerError:
            return
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._num_reported += 1
        self._number, self._epoch = 0, None

    def _forget(self, key: str) -> None:
        """Delete a place to which all ranks have come, so that many epochs keep no list of them."""
        try:
            if self._notes.add(f"{key}/came", 1) == self._world_size:
                self._notes.delete(key, f"{key}/came")
        except PeerError:
            return


class Turn:
    """One iteration of a rank; as `Loop` is, where ranks make batches together.

    Parameters
    ----------
    places
        Those of its loader.
    epoch, batch
        Where it begins.
    """

    def __init__(self, places: SamePlace, epoch: int, batch: int) -> None:
        self._places = places
        self._begins_at = epoch, batch
        self._has_begun = False
        self._has_received = False

    def ask(self) -> None:
        """Begin, at the first call; see from time to time whether another rank began elsewhere.

        Raises
        ------
        PeerError
            If so.
        """
        if self._has_begun:
            self._places.look(every=self._places.look_every)
        else:
            self._places.begin(*self._begins_at)
            self._has_begun = True

    def receive(self, epoch: int, batch: int) -> None:
        """Note that a batch came."""
        self._has_received = True
        self._places.reach(epoch, batch + 1)

    def look_back(self) -> None:
        """See whether another rank began elsewhere, behind the last batch.

        Raises
        ------
        PeerError
            If so.
        """
        self._places.look()

    def finish(self, *, came_to_its_end: bool) -> None:
        """Note that no further batch is asked for; safe in a destructor."""
        if came_to_its_end and self._has_received:
            self._places.end()

    def leave(self) -> None:
        """Do nothing: who leaves an epoch midway may go on with it."""


def _differs(places: dict[int, list[int]]) -> str:
    """Return the error for ranks that begin at different places."""
    named = " and ".join(f"{_place(*place)} on rank {rank}" for rank, place in sorted(places.items()))
    return (
        f"expected all ranks to begin an iteration at the same place, got {named}, where each takes its share of other "
        "batches; call loader.set_epoch(epoch) or loader.load_state_dict(state) on all ranks, with the same epoch or "
        "state; a loader for this rank alone, as for validation on rank 0, is made by .loader(rank=0, world_size=1)"
    )


def _place(epoch: int, batch: int) -> str:
    return f"batch {batch} of epoch {epoch}"
