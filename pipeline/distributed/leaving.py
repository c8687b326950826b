"""Training loops that ranks leave: all of them behind the same batch, or those that go on learn who did not."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from traceback import format_exception_only
from typing import Any

from headrace.ops.errors import PeerError
from headrace.pipeline.distributed.channel import LOOK
from headrace.pipeline.distributed.progress import Progress

#: Seconds in which the error may still arrive for which a rank left its loop.
REASON = 1.0


def no_failure() -> PeerError | None:
    """Return nothing: no rank failed."""
    return None


class MessageLog(ABC):
    """Where ranks leave messages for all, without waiting for any.

    Attributes
    ----------
    look_every
        Seconds between two looks of a rank.
    """

    look_every = LOOK

    @abstractmethod
    def post(self, text: str) -> None:
        """Leave a message; safe in a destructor."""

    @abstractmethod
    def read(self) -> list[tuple[int, str]]:
        """Return what was posted since the last call, with the rank that did; one thread at a time."""


@dataclass(eq=False, repr=False)
class _Left:
    """A rank's message that it left a loop.

    Parameters
    ----------
    batches
        How many it had received there.
    rank
        The rank.
    word
        Where it left, and why.
    final
        Whether it has gone on to something else, or ended: it comes to nothing any more that belongs to the loop.
    """

    batches: int
    rank: int
    word: str
    final: bool = False


class Loops:
    """The training loops of one rank, and what the other ranks said when they left theirs.

    A loop is an iteration of a loader; ranks make their loaders, and begin to iterate, in the same order, so both have
    numbers. To leave a loop harms only those who go on: where another rank left behind the n-th batch, this one may
    leave there too, but not ask for the next. What its threads make ahead says nothing: all ranks make it, see
    `PrefetchNode`.

    Parameters
    ----------
    rank
        This rank.
    log
        Where all ranks leave messages.
    """

    def __init__(self, rank: int, log: MessageLog) -> None:
        self._rank = rank
        self._log = log
        self.look_every = log.look_every
        self._reading = threading.Lock()
        self._looked = 0.0
        self._asked: dict[int, tuple[int, int]] = {}  # the last loop of each loader, and batches asked for in it
        self._num_loops: dict[int, int] = {}  # of each loader
        self._left: dict[tuple[int, int], list[_Left]] = {}  # by loop
        self._ended: dict[int, str] = {}  # ranks, and why
        self.progress = Progress()
        self.failure: Callable[[], PeerError | None] = no_failure  # what a rank said of an error, if one did
        self._has_left = False  # whether this rank left a loop, and did nothing since of which others would know
        self.own_left = ""  # where this rank left its last loop, until a batch of the next one shows that others did
        _ALL.add(self)

    def begin(self, loader: int) -> Loop:
        """Begin a loop over a loader.

        Raises
        ------
        PeerError
            If another rank left the one before at another batch.
        """
        self.go_on()
        self.look()
        return Loop(self, loader, self._num_loops.get(loader, 0))

    def go_on(self) -> None:
        """Let the other ranks know that a loop that was left is over for this one."""
        if self._has_left:
            self._has_left = False
            self._post({"final": True})

    def end(self, why: str) -> None:
        """Let the other ranks know that this one ends, and why if it is an error that ends it."""
        self._post({"final": True, "ended": True, "why": why})

    def ask(self, loop: Loop, batches: int) -> None:
        """Note how many batches a loop has asked for."""
        self._num_loops[loop.loader] = loop.number + 1
        self._asked[loop.loader] = loop.number, batches

    def forget(self, generation: int) -> None:
        """Forget the loops that are over, as all ranks begin anew."""
        self.progress.begin(generation)
        running = {loop.loader for loop in _running() if loop.loops is self}
        for loader in set(self._asked) - running:
            del self._asked[loader]

    def leave(self, loop: Loop, batches: int, word: str) -> None:
        """Let the other ranks know that this one leaves a loop behind so many batches; safe in a destructor."""
        self._has_left = True
        self.own_left = word
        self._post({"loop": [loop.loader, loop.number], "batches": batches, "word": word})

    def leave_to_the_parent(self) -> None:
        """Make a new lock in a forked process: the old one is perhaps held by a thread that was not taken along."""
        self._reading = threading.Lock()

    def break_off(self) -> None:
        """Say nothing of the loops that run: another rank is why they end, and all know which."""
        for loop in _running():
            if loop.loops is self:
                loop.is_running = False

    def look(self, *, every: float = 0.0) -> None:
        """See whether a rank has left a loop in which this one went on, if that was not done in so many seconds.

        Raises
        ------
        PeerError
            If so. It names the rank.
        """
        now = time.monotonic()
        if now - self._looked < every:
            return
        self._looked = now
        for left, asked in self._in_loops_of_this_rank():
            if asked > left.batches:
                raise self._reason() or PeerError(
                    f"rank {left.rank} {left.word}; rank {self._rank} went on: all ranks leave their loops at the "
                    "same batch"
                )

    def look_for(self, came: Callable[[int], bool]) -> None:
        """See whether the model waits for a rank that left behind the same batch, and will not call its own, or ended.

        That is certain when the rank has ended, or gone on to another loop. Before that it may call the model behind
        the loop, after whatever else it does there; so it has all the time that ranks have for an exchange.

        Parameters
        ----------
        came
            Returns whether a rank has come to what this one waits in.

        Raises
        ------
        PeerError
            If so. It names the rank.
        """
        for left, asked in self._in_loops_of_this_rank():
            if asked == left.batches and left.final and not came(left.rank):
                raise PeerError(
                    f"rank {left.rank} {left.word}; rank {self._rank} waits for it in the model: all ranks call the "
                    "model for the same batches"
                )
        for rank, why in list(self._ended.items()):
            if not came(rank):
                raise PeerError(f"rank {rank} ended{why.removeprefix(' and ended')}; rank {self._rank} waits for it")

    def ended(self) -> set[int]:
        """Return the other ranks that have said that they end."""
        self._read()
        return set(self._ended)

    def last_words(self, rank: int) -> str:
        """Return where a rank left a loop of this one, if it did."""
        return "".join(f", which {left.word}" for left, _ in self._in_loops_of_this_rank() if left.rank == rank)

    def left_by(self, rank: int) -> str:
        """Return where a rank and this one left their last loops, if they did, as an error ends."""
        words = [f"rank {self._rank} {self.own_left}"] if self.own_left else []
        if last := self.last_words(rank):
            words.append(f"rank {rank} {last.removeprefix(', which ')}")
        return f"; {' and '.join(words)}" if words else ""

    def _in_loops_of_this_rank(self) -> list[tuple[_Left, int]]:
        """Return who left those loops, first the one who left first, and how many batches this rank has asked for."""
        self._read()
        if not self._left:
            return []
        found = [
            (left, asked)
            for loader, (number, asked) in list(self._asked.items())
            for left in list(self._left.get((loader, number), ()))
        ]
        return sorted(found, key=lambda one: (one[0].batches, one[0].rank))

    def _read(self) -> None:
        with self._reading:
            for rank, text in self._log.read():
                if rank != self._rank:
                    self._note(rank, json.loads(text))

    def _note(self, rank: int, message: dict[str, Any]) -> None:
        if "loop" in message:
            loader, number = message["loop"]
            self._forget_before(loader)
            self._left.setdefault((loader, number), []).append(_Left(message["batches"], rank, message["word"]))
        if "final" in message:
            for loop in self._left.values():
                for left in loop:
                    if left.rank == rank and not left.final:
                        left.final = True
                        left.word += message.get("why", "")
        if "ended" in message:
            self._ended[rank] = message.get("why", "")

    def _forget_before(self, loader: int) -> None:
        """Forget who left loops of a loader that this rank is done with, so that many epochs keep no list of them."""
        last = self._num_loops.get(loader, 0) - 1
        for loop in [loop for loop in self._left if loop[0] == loader and loop[1] < last]:
            del self._left[loop]

    def _reason(self) -> PeerError | None:
        """Return the error for which a rank left, if it says so: a loop is left before ``with`` hears of its error."""
        began = time.monotonic()
        while time.monotonic() - began < REASON:
            failure = self.failure()
            if failure is not None:
                return failure
            time.sleep(REASON / 20)
        return None

    def _post(self, what: dict[str, Any]) -> None:
        with suppress(RuntimeError):  # where the log is gone, the others find out
            self._log.post(json.dumps(what))


class Loop:
    """How far this rank has come in one loop; made by :meth:`Loops.begin`.

    Attributes
    ----------
    is_running
        Whether it was neither left nor finished.
    """

    def __init__(self, loops: Loops, loader: int, number: int) -> None:
        self.loops = loops
        self.loader = loader
        self.number = number
        self.is_running = True
        self._has_asked = False
        self._received = 0
        self._epoch, self._batch = 0, 0  # received last
        _LOOPS[id(self)] = self

    def ask(self) -> None:
        """Note that the loop goes on to the next batch."""
        self._has_asked = True
        self.loops.ask(self, self._received + 1)
        to = f"batch {self._batch + 1} of epoch {self._epoch}" if self._received else "a further loop"
        self.loops.progress.ask(f"went on to {to}")

    def receive(self, epoch: int, batch: int) -> None:
        """Note that the batch came.

        Raises
        ------
        PeerError
            If another rank left before it.
        """
        self._received += 1
        self.loops.own_left = ""
        self._epoch, self._batch = epoch, batch
        self.loops.look(every=self.loops.look_every)

    def look_back(self) -> None:
        """Do nothing behind the last batch: others who did not come to it wait for this rank, and say so."""

    def finish(self, *, came_to_its_end: bool) -> None:
        """Note that no further batch is asked for, as there was none or as an error ended the loop.

        One that never asked for any was none: only this rank knows of it.
        """
        self.is_running = False
        if came_to_its_end and self._has_asked:
            self.loops.ask(self, self._received)
            self.loops.progress.end(f"reached the end of epoch {self._epoch}")

    def leave(self) -> None:
        """Let the other ranks know that this one goes no further, if it has come anywhere; safe in a destructor."""
        running, self.is_running = self.is_running, False
        if running and self._received:
            self.loops.leave(self, self._received, f"left epoch {self._epoch} after batch {self._batch}")


_ALL: weakref.WeakSet[Loops] = weakref.WeakSet()

#: All loops that are there, by id.
_LOOPS: weakref.WeakValueDictionary[int, Loop] = weakref.WeakValueDictionary()


def _running() -> list[Loop]:
    """Return the loops that were neither left nor finished.

    Other threads begin loops meanwhile, and destructors end them, in this thread as well, where a lock would not keep
    them out. So what is gone through is a copy, which is made in one step.
    """
    loops = [reference() for reference in _LOOPS.valuerefs()]
    return [loop for loop in loops if loop is not None and loop.is_running]


def _leave_to_the_parent() -> None:
    """Say nothing of any loop in a forked process: it is the parent who runs them."""
    for loop in _running():
        loop.is_running = False
    for loops in list(_ALL):
        loops.leave_to_the_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)


def end_all(loops: Loops) -> None:
    """Let the other ranks know that Python ends, before anybody waits for threads, which wait for the other ranks."""
    for loop in _running():
        loop.leave()
    error = getattr(sys, "last_value", None)  # what ends the program, if an error does
    loops.end("" if error is None else f" and ended with {''.join(format_exception_only(error)).strip()}")
