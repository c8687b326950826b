"""How often the ranks of a job have met to begin with a loader, and what failed since: for all channels of a rank."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from headrace.ops.errors import PeerError
from headrace.pipeline.distributed.channel_errors import gave_up, late
from headrace.pipeline.distributed.job_store import JobStore
from headrace.pipeline.distributed.leaving import Loops

#: The outcome of a meeting to which all ranks came.
MET = "met"

#: Seconds between two looks at what all ranks come to.
POLL = 1e-3

#: Seconds in which the reason for a lost connection may still arrive, and ranks that are there are heard of.
GRACE = 2.0


class Generations:
    """The meetings of the ranks of a job, and the failures reported since the last of them.

    Parameters
    ----------
    store, loops
        What all channels of this rank share.
    timeout
        Seconds after which a rank that does not come is given up.
    """

    # Of the process, as a later job may use the same store.
    _number = 0  # the same on every rank; see meet
    _beginning = False  # whether this process has said, in meet, all that it has to say of its generation
    _reporting = threading.Lock()  # held while one of the two is read and acted upon

    def __init__(self, store: JobStore, loops: Loops, *, timeout: float) -> None:
        self.store = store
        self.loops = loops
        self.timeout = timeout
        self.grace = max(GRACE, 3 * store.look_every)  # in which all who are there have looked
        loops.failure = self.failure

    @property
    def number(self) -> int:
        """How often the ranks have met."""
        return self._number

    @classmethod
    def leave_to_the_parent(cls) -> None:
        """Make a new lock in a forked process: the old one is perhaps held by a thread that was not taken along."""
        cls._reporting = threading.Lock()

    def fail(self, reason: str, *, blames: bool) -> None:
        """Leave the reason in the job's store."""
        try:
            with self._reporting:
                # On the way to the next generation, those who are there already must hear of it as well.
                for generation in range(self._number, self._number + (2 if self._beginning else 1)):
                    if not self.store.is_reported(_failed(generation)):
                        self.store.report(_failed(generation), reason, blames=blames)
        except RuntimeError:
            pass  # the rank that keeps the store is gone: the others find out the same way

    def failure(self) -> PeerError | None:
        """Return the error of a rank that failed since all began, if one did."""
        key = _failed(self._number)
        return self.store.reported_error(key, self.loops.last_words) if self.store.is_reported(key) else None

    def meet(self, *, needs_new_group: bool) -> tuple[bool, PeerError | None]:
        """Meet at the store; return whether all ranks take a new group, and the error to raise.

        All ranks must take a new group, or none. So each says before it arrives whether it needs one, and when all have
        arrived they all read the same. Only the thread that trains comes here: what it left unfinished, and what made
        others leave, was said before. A thread of a loader that fails from now on needs no new group here, but its
        failure must not be forgotten with the others: `fail` carries it on.
        """
        self.loops.go_on()
        began, generation = time.monotonic(), self._number
        arrived, renew = _arrived(generation), _renew(generation)
        with self._reporting:
            needs_new_group = self._ask_for_a_new_group(needs_new_group)
            Generations._beginning = True
        met, absence = False, ""
        try:
            self.store.add(f"{arrived}/{self.store.rank}", 1)
            self.store.add(arrived, 1)
            looked = began
            while self.store.add(arrived, 0) < self.store.world_size and not absence:
                if time.monotonic() - looked > self.store.look_every:
                    looked = time.monotonic()
                    absence = self._absence(arrived, looked - began)
                time.sleep(POLL)
            # One that gives up does so for all: those that come later have been to the same meeting.
            outcome = self.store.first(f"{arrived}/outcome", absence or MET)
            met = True
        finally:
            with self._reporting:
                Generations._beginning = False
                Generations._number += met
        self.loops.forget(self._number)
        self._forget(generation - 1)
        if outcome != MET:
            self.loops.break_off()
            self.store.report(_failed(generation), outcome, blames=True)
            return needs_new_group, PeerError(outcome)
        refused = _refused(generation)
        error = self.store.reported_error(refused) if self.store.is_reported(refused) else None
        return self.store.is_reported(renew), error

    def refuse(self, reason: str, *, needs_new_group: bool) -> bool:
        """Arrive at the store with a refusal; return whether this rank needs a new group."""
        generation = self._number
        try:
            with self._reporting:
                needs_new_group = self._ask_for_a_new_group(needs_new_group)
                self.store.report(_refused(generation), reason)
                self.store.add(f"{_arrived(generation)}/{self.store.rank}", 1)
                self.store.add(_arrived(generation), 1)
                Generations._number += 1
        except RuntimeError:
            pass  # the rank that keeps the store is gone: the others find out the same way
        return needs_new_group

    def late(self, absent: list[int], where: str) -> PeerError:
        """Return the error for ranks that did not come in time; who waits elsewhere meanwhile is not at fault."""
        before = self.beats()
        time.sleep(self.grace)
        silent = [rank for rank in absent if rank in self.silent(before)] or absent
        named = " and ".join(f"rank {rank}{self.loops.last_words(rank)}" for rank in silent)
        setting = "init_process_group(timeout=)"
        return late(named, where, self.timeout, self.store.rank, setting, self.loops.own_left)

    def beats(self) -> list[int]:
        """Return how often each rank was seen to wait."""
        with suppress(RuntimeError):
            return self.store.said("beat")
        return [0] * self.store.world_size

    def silent(self, before: list[int]) -> list[int]:
        """Return the other ranks that were not seen to wait for anything since `before`, or all if all were."""
        others = [rank for rank in range(self.store.world_size) if rank != self.store.rank]
        beats = self.beats()
        return [rank for rank in others if beats[rank] == before[rank]] or others

    def _ask_for_a_new_group(self, needs: bool) -> bool:
        """Say so if this rank needs one, also from the last time, when a rank refused. Returns whether it does."""
        needs = needs or self.store.is_reported(_failed(self._number))
        if needs:
            self.store.add(_renew(self._number), 1)
        return needs

    def _absence(self, arrived: str, waited: float) -> str:
        """Return why to give up a meeting, if a rank cannot come to it any more, or has not come in time."""
        ended, is_late = self.loops.ended(), waited > self.timeout
        if not (ended or is_late):
            return ""
        absent = {rank for rank, came in enumerate(self.store.said(arrived)) if not came}
        if absent & ended:
            return f"rank {min(absent & ended)} ended, where the others begin with a loader"
        if absent and is_late:
            error = self.late(sorted(absent), "to where all ranks begin with a loader")
            return f"{error}\n{gave_up(self.store.rank)}"
        return ""

    def _forget(self, generation: int) -> None:
        """Delete what was said at a meeting from which all ranks have come to a further one.

        A failure stays: threads of loaders may read it at any time.
        """
        if generation < 0:
            return
        arrived, asked, rank = _arrived(generation), f"asked/{generation}", self.store.rank
        self.store.delete(f"{arrived}/{rank}", f"{asked}/what/{rank}", f"{asked}/there/{rank}")
        if rank == 0:
            refused, failed = _refused(generation), _failed(generation)
            self.store.delete(arrived, f"{arrived}/outcome", asked, _renew(generation), refused, f"{refused}/reason")
            if not self.store.is_reported(failed):
                self.store.delete(failed)


# Keys of the job's store, under which ranks count in each generation.
def _arrived(generation: int) -> str:
    return f"begin/{generation}"


def _renew(generation: int) -> str:
    return f"renew/{generation}"


def _refused(generation: int) -> str:
    return f"refused/{generation}"


def _failed(generation: int) -> str:
    return f"failed/{generation}"
