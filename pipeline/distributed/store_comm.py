"""Channels of ranks that share a store: what they look at, and report to each other, while a collective waits."""

from __future__ import annotations

import json
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from headrace.ops.errors import PeerError
from headrace.pipeline.distributed.channel import LOOK, Comm, gave_up, late, parted
from headrace.pipeline.distributed.collective_order import CollectiveOrder
from headrace.pipeline.distributed.job_store import JobStore
from headrace.pipeline.distributed.leaving import Loops
from headrace.pipeline.distributed.same_place import Notes

#: The outcome of a meeting to which all ranks came.
MET = "met"

#: Seconds between two looks at what all ranks come to.
POLL = 1e-3

#: Seconds in which the reason for a lost connection may still arrive, and ranks that are there are heard of.
GRACE = 2.0

#: Seconds that a collective of a thread goes on when Python ends, for what all ranks have begun.
FINISH = 5.0


class StoreComm(Comm):
    """A channel whose ranks find out, through a store, what keeps another one from a collective.

    Parameters
    ----------
    store, loops
        What all channels of this rank share.
    timeout
        Seconds after which a rank that does not come to a collective is given up.
    agrees
        Whether ranks agree at the store on collectives that do not follow from those of the batch before: for the
        channel of models, whose exchanges are called by what the user writes.
    """

    _generation = 0  # of failures, the same on every rank; see begin
    _beginning = False  # whether this process has said, in begin, all that it has to say of its generation
    _reporting = threading.Lock()  # held while one of the two is read and acted upon
    _ends_since: float | None = None  # when a thread first found that Python ends

    def __init__(self, store: JobStore, loops: Loops, *, timeout: float, agrees: bool) -> None:
        super().__init__(store.rank, store.world_size)
        self._store = store
        self._loops = loops
        self._timeout = timeout
        self._agrees = agrees
        self._grace = max(GRACE, 3 * store.look_every)  # in which all who are there have looked
        self._unfinished = False  # whether this rank has left a collective of the group before its end
        self._needs_new_group = False  # what begin found, until there is one
        self._key = ""
        self._number = 0  # of the last collective of the group
        self._num_meetings = 0
        self._met: tuple[str, str] | None = None  # the last of them, and what all brought to it
        self._order = CollectiveOrder()
        loops.failure = partial(_failure, store, loops.last_words)

    @property
    def loops(self) -> Loops:
        """The training loops of this rank."""
        return self._loops

    @property
    def notes(self) -> Notes:
        """The job's store."""
        return self._store

    @property
    def generation(self) -> int:
        """How often the ranks have met in `begin`."""
        return self._generation

    def fail(self, reason: str, *, blames: bool = False) -> None:
        """Leave the reason in the job's store."""
        try:
            with self._reporting:
                # On the way to the next generation, those who are there already must hear of it as well.
                for generation in range(self._generation, self._generation + (2 if self._beginning else 1)):
                    if not self._store.is_reported(_failed(generation)):
                        self._store.report(_failed(generation), reason, blames=blames)
        except RuntimeError:
            pass  # the rank that keeps the store is gone: the others find out the same way

    def begin(self) -> None:
        """Meet at the store; go on with a new group where the last one may hold half a collective.

        All ranks must take a new group, or none. So each says before it arrives whether it needs one, and when all have
        arrived they all read the same. Only the thread that trains uses this channel, and that thread is here: what it
        left unfinished, and what made others leave, was said before. A thread of a loader that fails from now on needs
        no new group here, but its failure must not be forgotten with the others: `fail` carries it on.
        """
        self._loops.go_on()
        began, generation = time.monotonic(), self._generation
        arrived, renew = _arrived(generation), _renew(generation)
        with self._reporting:
            needs_new_group = self._ask_for_a_new_group(renew)
            StoreComm._beginning = True
        met, absence = False, ""
        try:
            self._store.add(f"{arrived}/{self.rank}", 1)
            self._store.add(arrived, 1)
            looked = began
            while self._store.add(arrived, 0) < self.world_size and not absence:
                if time.monotonic() - looked > self._store.look_every:
                    looked = time.monotonic()
                    absence = self._absence(arrived, looked - began)
                time.sleep(POLL)
            # One that gives up does so for all: those that come later have been to the same meeting.
            outcome = self._store.first(f"{arrived}/outcome", absence or MET)
            met = True
        finally:
            with self._reporting:
                StoreComm._beginning = False
                StoreComm._generation += met
        self._loops.forget(self._generation)
        self._label, self._order = (-1, -1, -1), CollectiveOrder()
        self._forget(generation - 1)
        if outcome != MET:
            self._needs_new_group = needs_new_group
            self._loops.break_off()
            self._store.report(_failed(generation), outcome, blames=True)
            raise PeerError(outcome)
        self._needs_new_group = self._store.is_reported(renew)
        if self._store.is_reported(_refused(generation)):
            raise self._store.reported_error(_refused(generation))
        if self._needs_new_group:
            self.close()
            self.open()

    def _forget(self, generation: int) -> None:
        """Delete what was said at a meeting from which all ranks have come to a further one.

        A failure stays: threads of loaders may read it at any time.
        """
        if generation < 0:
            return
        arrived, asked = _arrived(generation), f"asked/{generation}"
        self._store.delete(f"{arrived}/{self.rank}", f"{asked}/what/{self.rank}", f"{asked}/there/{self.rank}")
        if self.rank == 0:
            refused, failed = _refused(generation), _failed(generation)
            self._store.delete(arrived, f"{arrived}/outcome", asked, _renew(generation), refused, f"{refused}/reason")
            if not self._store.is_reported(failed):
                self._store.delete(failed)

    def refuse(self, reason: str) -> None:
        """Arrive at the store with a refusal."""
        generation = self._generation
        try:
            with self._reporting:
                self._needs_new_group = self._ask_for_a_new_group(_renew(generation))
                self._store.report(_refused(generation), reason)
                self._store.add(f"{_arrived(generation)}/{self.rank}", 1)
                self._store.add(_arrived(generation), 1)
                StoreComm._generation += 1
        except RuntimeError:
            pass  # the rank that keeps the store is gone: the others find out the same way

    def _ask_for_a_new_group(self, renew: str) -> bool:
        """Say so if this rank needs one, also from the last time, when a rank refused. Returns whether it does."""
        needs = self._unfinished or self._needs_new_group or self._store.is_reported(_failed(self._generation))
        if needs:
            self._store.add(renew, 1)
        return needs

    def _absence(self, arrived: str, waited: float) -> str:
        """Return why to give up a meeting, if a rank cannot come to it any more, or has not come in time."""
        ended, is_late = self._loops.ended(), waited > self._timeout
        if not (ended or is_late):
            return ""
        absent = {rank for rank, came in enumerate(self._store.said(arrived)) if not came}
        if absent & ended:
            return f"rank {min(absent & ended)} ended, where the others begin with a loader"
        if absent and is_late:
            error = self._late(sorted(absent), "to where all ranks begin with a loader")
            return f"{error}\n{gave_up(self.rank)}"
        return ""

    @abstractmethod
    def _opened(self) -> object:
        """Return the group of the channel, or raise PeerError if it has none."""

    def _begin_with(self, name: str) -> None:
        """Begin with a new group, of a name that all ranks know; a later job may use it again, with the same store."""
        self._unfinished = self._needs_new_group = False
        self._key = f"channel/{self._generation}/{name}"
        self._number = self._num_meetings = 0
        self._met = None
        self._label, self._order = (-1, -1, -1), CollectiveOrder()

    def _end_with(self) -> None:
        """End with the group."""
        self._store.reached.pop(self._key, None)

    def _note_collective(self) -> None:
        """Note that a collective begins."""
        self._unfinished = True
        self._number += 1
        if self._agrees:
            self._store.reached[self._key] = self._number

    @contextmanager
    def _connection(self, began: float) -> Iterator[None]:
        """Say why the connection broke, if it does, and who broke it."""
        try:
            yield
        except PeerError:
            raise
        except RuntimeError as error:
            # The rank that broke it may have left a message, or is about to. Those that did not are in here as well.
            broke, before = time.monotonic(), self._beats()
            while time.monotonic() - broke < self._grace:
                self._look(began, in_time=False)
                time.sleep(self._store.look_every)
            if broke - began > self._timeout - LOOK:  # it was torch that gave up first
                raise self._too_late(self._came) from error
            named = " or ".join(f"rank {rank}{self._loops.last_words(rank)}" for rank in self._silent(before))
            raise self._blame(PeerError(f"rank {self.rank} lost the connection to {named}: {error}")) from error

    def _look(self, began: float, came: Callable[[int], bool] | None = None, *, in_time: bool = True) -> None:
        """Raise what keeps another rank from where this one waits; show that this one waits.

        `came` returns whether a rank has come there, by default to the collective that was begun last.
        """
        came = self._came if came is None else came
        self._store.add(f"beat/{self.rank}", 1)
        self._store.say(self._key, self._number)
        self._store.say_what_was_asked(self._loops.progress)
        key = _failed(self._generation)
        if self._store.is_reported(key):
            self._loops.break_off()
            raise self._store.reported_error(key, self._loops.last_words)
        self._look_at_loops(came)
        self._look_for_a_meeting()
        self._look_for_those_ahead(came)
        if in_time and time.monotonic() - began > self._timeout:
            raise self._too_late(came)
        self._look_for_the_end()

    def _look_at_loops(self, came: Callable[[int], bool]) -> None:
        try:
            self._loops.look()
            if self._agrees:
                self._loops.look_for(came)
        except PeerError as error:
            raise self._blame(error) from None

    def _look_for_those_ahead(self, came: Callable[[int], bool]) -> None:
        """Find out ranks that went on to a further batch, and wait in a loader for this one to ask for it as well."""
        if not self._agrees:
            return
        try:
            progress = self._loops.progress
            progress.look_for(self._store.asked(self._generation), came, self.rank, self._label)
        except PeerError as error:
            raise self._blame(error) from None

    def _came(self, rank: int) -> bool:
        """Return whether a rank was seen to come to what this one waits in: if it waits there, it is."""
        return self._store.said_by(rank, self._key) >= self._number

    def _look_for_the_end(self) -> None:
        """Leave a collective of a thread when Python has ended for some seconds: it would keep the process."""
        if threading.main_thread().is_alive():
            return
        if StoreComm._ends_since is None:
            StoreComm._ends_since = time.monotonic()
        if time.monotonic() - StoreComm._ends_since > FINISH:
            raise PeerError(f"rank {self.rank} ends, though not all other ranks reached its last exchange")

    def _agree(self, kind: str) -> None:
        """Meet at the store before a collective that does not follow from those before; counts say where they are."""
        if self._order.follows(self.place, kind):
            return
        self._opened()
        began = looked = time.monotonic()
        key = f"{self._key}/meeting/{self._num_meetings}"
        what = json.dumps([self._number, self._label, kind])
        self._unfinished = True  # a rank that gives up here comes to no collective behind it
        self._store.arrive(key, what)
        self._num_meetings += 1
        while self._store.add(key, 0) < self.world_size:
            if time.monotonic() - looked > self._store.look_every:
                looked = time.monotonic()
                self._look(began, partial(self._store.has_arrived, key))
            time.sleep(POLL)
        if not self._store.all_agree(key, what):
            self._look_for_others(key, what)
        if self._met is not None:  # who came to this meeting has left the one before
            self._store.forget_meeting(*self._met)
        self._met = key, what
        self._unfinished = False

    def _look_for_a_meeting(self) -> None:
        """Find out ranks that meet before a collective that this rank went on to, or behind."""
        key = f"{self._key}/meeting/{self._num_meetings}"
        if self._agrees and self._store.add(key, 0):
            self._look_for_others(key, None)

    def _look_for_others(self, key: str, what: str | None) -> None:
        """Raise where a rank has come to a meeting with something else than this one, which may have passed it."""
        for rank, text in self._store.brought(key).items():
            number, label, kind = json.loads(text)
            if text == what or (what is None and number >= self._number):
                continue
            raise self._blame(parted(rank, tuple(label), kind, self.rank, self._label, self._kind))

    def _beats(self) -> list[int]:
        with suppress(RuntimeError):
            return self._store.said("beat")
        return [0] * self.world_size

    def _silent(self, before: list[int]) -> list[int]:
        """Return the other ranks that were not seen to wait for anything since `before`, or all if all were."""
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        beats = self._beats()
        return [rank for rank in others if beats[rank] == before[rank]] or others

    def _too_late(self, came: Callable[[int], bool]) -> PeerError:
        """Return the error for a collective to which other ranks did not come in time."""
        absent = [rank for rank in range(self.world_size) if rank != self.rank and not came(rank)]
        return self._blame(self._late(absent, "to an exchange"))

    def _late(self, absent: list[int], where: str) -> PeerError:
        """Return the error for ranks that did not come in time; who waits elsewhere meanwhile is not at fault."""
        before = self._beats()
        time.sleep(self._grace)
        silent = [rank for rank in absent if rank in self._silent(before)] or absent
        named = " and ".join(f"rank {rank}{self._loops.last_words(rank)}" for rank in silent)
        return late(named, where, self._timeout, self.rank, "init_process_group(timeout=)")


def _failure(store: JobStore, last_words: Callable[[int], str]) -> PeerError | None:
    """Return the error of a rank that failed since all began, if one did."""
    key = _failed(StoreComm._generation)  # noqa: SLF001 - the state of the process, not of a channel
    return store.reported_error(key, last_words) if store.is_reported(key) else None


# Keys of the job's store, under which ranks count in each generation.
def _arrived(generation: int) -> str:
    return f"begin/{generation}"


def _renew(generation: int) -> str:
    return f"renew/{generation}"


def _refused(generation: int) -> str:
    return f"refused/{generation}"


def _failed(generation: int) -> str:
    return f"failed/{generation}"
