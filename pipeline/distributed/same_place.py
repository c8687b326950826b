"""Ranks that make batches for themselves begin and end each iteration of a loader at the same places, or are told.

Nobody waits for another rank here: who begins or ends first leaves its place, the others compare theirs with it, and
who differs lets all know.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import NoReturn

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
    """Where the iterations of one loader begin and end on all ranks.

    The first iterations of all ranks belong together, and so on. One that begins its epoch again, or goes on with it,
    where the last was left midway belongs to what that one did: a rank may look at a batch and call ``set_epoch``. An
    iteration that was left midway ends where the next one begins elsewhere: a rank that takes a batch by itself and
    then begins the next epoch is noticed by those that take more of the first.
    Behind a report that places differ all count anew, as each rank is told once and may then go where the others are.

    Parameters
    ----------
    notes
        Where ranks leave their places.
    rank, world_size
        This rank.
    loader
        The number of the loader, the same on all ranks.
    at_every_batch
        Whether to compare at every batch, where the number of batches is each rank's own: one with a batch more may
        wait in its model for others that have ended.
    """

    def __init__(self, notes: Notes, rank: int, world_size: int, loader: int, *, at_every_batch: bool = False) -> None:
        self._notes = notes
        self._rank = rank
        self._world_size = world_size
        self._key = f"places/{loader}"
        self._at_every_batch = at_every_batch
        self._number = 0  # of what the next iteration begins
        self._epoch: int | None = None  # that it has not come to the end of
        self._reached = [0, 0]  # an epoch, and the batches of it that this rank has
        self._is_open = False  # whether this rank has not said yet where the last iteration ended
        self._num_said = 0  # batches of it that this rank has said it has
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
            If another rank began at another place, or ended the last one elsewhere; it says which rank is where.
        """
        self.look()
        if epoch == self._epoch and batch <= self._reached[1]:
            return
        self._say_end()
        key = f"{self._key}/{self._num_reported}/{self._number}"
        other, *place = json.loads(self._first(key, json.dumps([self._rank, epoch, batch])))
        if place != [epoch, batch]:
            self._refuse(_begun_elsewhere({other: place, self._rank: [epoch, batch]}))
        self._number += 1
        self._epoch, self._reached = epoch, [epoch, batch]
        self._is_open, self._num_said = True, 0
        self._forget(key)

    def reach(self, epoch: int, batch: int) -> None:
        """Note how many batches of an epoch this rank has.

        Raises
        ------
        PeerError
            If ranks compare at every batch, and another one ended with fewer.
        """
        self._epoch, self._reached = epoch, [epoch, batch]
        if self._at_every_batch and batch > self._num_said:
            # Who ends says so before it asks for the batches of others: of two ranks, one at least sees the other.
            self._add(f"{self._last()}/of/{self._rank}", batch - self._num_said)
            self._num_said = batch
            self._look_for_end()

    def end(self) -> None:
        """Note that the epoch is over; asks nobody."""
        self._epoch = None

    def look_back(self) -> None:
        """Say that there is no further batch.

        Raises
        ------
        PeerError
            If another rank began or ended elsewhere, or has further batches already.
        """
        self.look()
        self._say_end()

    def look(self, *, every: float = 0.0) -> None:
        """See whether ranks reported that places differ, or ended earlier, if that was not done in so many seconds.

        Raises
        ------
        PeerError
            If so, once for each report.
        """
        now = time.monotonic()
        if now - self._looked < every:
            return
        self._looked = now
        if self._add(f"{self._key}/reports") > self._num_reported:
            try:
                rank, error = json.loads(self._notes.get(f"{self._key}/report/{self._num_reported}"))
            except PeerError:
                return
            self._begin_anew()
            raise PeerError(f"{error}\n(reported by rank {rank})")
        self._look_for_end()

    @property
    def look_every(self) -> float:
        """Seconds between two looks."""
        return self._notes.look_every

    def _last(self) -> str:
        """Return the key of the end of the last iteration."""
        return f"{self._key}/{self._num_reported}/{self._number - 1}/end"

    def _say_end(self) -> None:
        """Say where the last iteration ended, unless that was done."""
        if not self._is_open:
            return
        self._is_open = False
        key = self._last()
        other, *place = json.loads(self._first(key, json.dumps([self._rank, *self._reached])))
        if place != self._reached:
            self._refuse(_ended_elsewhere({other: place, self._rank: self._reached}))
        self._forget(key)
        if not self._at_every_batch:
            return
        for other in range(self._world_size):
            num_batches = self._add(f"{key}/of/{other}")
            if num_batches > self._reached[1]:
                self._refuse(_ended_elsewhere({self._rank: self._reached, other: [self._reached[0], num_batches]}))

    def _look_for_end(self) -> None:
        """See whether another rank ended the iteration before the batches that this one has."""
        if not self._is_open or not self._add(f"{self._last()}/came"):
            return
        try:
            other, *place = json.loads(self._notes.get(self._last()))
        except PeerError:
            return
        if place < self._reached:
            self._refuse(_ended_elsewhere({other: place, self._rank: self._reached}))

    def _refuse(self, error: str) -> NoReturn:
        """Let all ranks know, unless another one did."""
        report = json.dumps([self._rank, error])
        if self._first(f"{self._key}/report/{self._num_reported}", report) == report:
            self._add(f"{self._key}/reports", 1)
        self._begin_anew()
        raise PeerError(error)

    def _begin_anew(self) -> None:
        self._num_reported += 1
        self._number, self._epoch, self._is_open = 0, None, False

    def _first(self, key: str, text: str) -> str:
        """Leave a text, or return that of another rank; where the store is gone, so are those to compare with."""
        try:
            return self._notes.first(key, text)
        except PeerError:
            return text

    def _add(self, key: str, value: int = 0) -> int:
        """Add to a counter and return it, 0 where the store is gone."""
        try:
            return self._notes.add(key, value)
        except PeerError:
            return 0

    def _forget(self, key: str) -> None:
        """Delete a place to which all ranks have come, so that many epochs keep no list of them."""
        if self._add(f"{key}/came", 1) < self._world_size:
            return
        # Ranks at this end may still ask who has more batches, but at the end before all have done so.
        before = f"{self._key}/{self._num_reported}/{self._number - 2}/end/of"
        said = [f"{before}/{rank}" for rank in range(self._world_size)] if self._at_every_batch else []
        with suppress(PeerError):
            self._notes.delete(key, f"{key}/came", *said)


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
        """Note that a batch came.

        Raises
        ------
        PeerError
            As `SamePlace.reach`.
        """
        self._has_received = True
        self._places.reach(epoch, batch + 1)

    def look_back(self) -> None:
        """See whether another rank began or ended elsewhere, behind the last batch.

        Raises
        ------
        PeerError
            If so.
        """
        self._places.look_back()

    def finish(self, *, came_to_its_end: bool) -> None:
        """Note that no further batch is asked for; safe in a destructor."""
        if came_to_its_end and self._has_received:
            self._places.end()

    def leave(self) -> None:
        """Do nothing: who leaves an epoch midway may go on with it."""


def _begun_elsewhere(places: dict[int, list[int]]) -> str:
    """Return the error for ranks that begin at different places."""
    named = " and ".join(f"{_place(*place)} on rank {rank}" for rank, place in sorted(places.items()))
    return (
        f"expected all ranks to begin an iteration at the same place, got {named}, where each takes its share of other "
        "batches; call loader.set_epoch(epoch) or loader.load_state_dict(state) on all ranks, with the same epoch or "
        "state; a loader for this rank alone, as for validation on rank 0, is made by .loader(rank=0, world_size=1)"
    )


def _ended_elsewhere(places: dict[int, list[int]]) -> str:
    """Return the error for ranks that take different numbers of batches; the first ends, the other has more."""
    named = " and ".join(
        f"{_count(batch)} of epoch {epoch} on rank {rank}" for rank, (epoch, batch) in sorted(places.items())
    )
    return (
        f"expected all ranks to take the same batches of an epoch, got {named}: what follows would belong to different "
        "epochs, or a rank would wait for the others; leave the loop at the same batch on all ranks, call "
        "loader.set_epoch(epoch) behind batches that a rank takes for itself, and let a source of your own, as a "
        "torchdata node, yield as many batches on each rank"
    )


def _place(epoch: int, batch: int) -> str:
    return f"batch {batch} of epoch {epoch}"


def _count(number: int) -> str:
    return f"{number} batch{'' if number == 1 else 'es'}"
