"""The running counterparts of stages: nodes that pass finished work and its bookkeeping along."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from headrace.ops.errors import PeerError, add_note
from headrace.pipeline.plan import BatchSource, Counts, MapStage, PlanError, Runner, RunSettings
from headrace.pipeline.run.base_node import BaseNode

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch
    from headrace.pipeline.run.hand_over import Reading


class StageRecord(NamedTuple):
    """What one stage did for one batch.

    Parameters
    ----------
    stage
        Its name in the plan that runs.
    origin
        The name of the stage that the user wrote, of which passes made it.
    start, seconds
        When it began, on ``time.perf_counter``'s clock, and how long it took.
    thread
        The thread that ran it.
    counts
        What it counted.
    """

    stage: str
    origin: str
    start: float
    seconds: float
    thread: int
    counts: dict[str, int]


@dataclass(slots=True, eq=False, repr=False)
class Work:
    """A batch on its way, with the source's position behind it, so that state belongs to the batch handed out.

    Nobody changes one, but for its notes; it is not frozen, as every stage makes one for every batch and that takes
    three times as long.

    Parameters
    ----------
    batch
        A MiniBatch, or what a conversion (to_pyg, to_dgl) made of it.
    epoch, index
        Which batch it is.
    state
        The source's position behind it.
    records
        What the stages did for it.
    notes
        What was read for it ahead of the training loop, which may write it.
    """

    batch: Any
    epoch: int
    index: int
    state: dict[str, Any]
    records: tuple[StageRecord, ...]
    notes: tuple[Note, ...] = ()


Step = Callable[[Work], Work]


class Note(NamedTuple):
    """That a stage read what a training loop may write.

    Parameters
    ----------
    reading
        The stage; see `headrace.pipeline.run.hand_over.Reading`.
    versions
        How often each thing that it reads was written before it did.
    batch, records
        What it made its work of; of a source, None and nothing.
    contents
        How often each tensor of the batch was written.
    """

    reading: Reading
    versions: list[int | None]
    batch: Any
    records: tuple[StageRecord, ...]
    contents: list[int | None]


Answer = TypeVar("Answer")


def step_of(name: str, origin: str, stage: MapStage, run: Runner, settings: RunSettings) -> Step:
    """Return the function that runs one stage on a piece of work and records it under its two names."""
    comm = settings.comm if stage.ranks.collective else None
    keyed = stage.keyed
    call, check = named(name, origin, run, settings), named(name, origin, _outcome, settings)

    def step(work: Work) -> Work:
        start = time.perf_counter()
        if comm is not None:
            comm.at((work.epoch, work.index))
        made = call(work, work.batch, work.epoch, work.index) if keyed else call(work, work.batch)
        # Small batches feel each call: what runners return as a rule is known without one.
        if type(made) is not tuple or len(made) != 2 or type(made[1]) is not dict:
            made = check(work, made)
        batch, counts = made
        seconds = time.perf_counter() - start
        record = StageRecord(name, origin, start, seconds, threading.get_ident(), dict(counts))
        return Work(batch, work.epoch, work.index, work.state, (*work.records, record), work.notes)

    return step


def named(name: str, origin: str, function: Callable[..., Answer], settings: RunSettings) -> Callable[..., Answer]:
    """Return what calls the function of a stage for a piece of work; errors say in which stage, and at which batch."""
    comm = settings.comm
    shown = origin if origin == name else f"{origin} ({name})"

    def report(error: Exception) -> None:
        """Let other ranks know at once, though the training loop will see the error only at the batch's turn."""
        if comm is not None and not isinstance(error, PeerError):
            comm.fail("".join(traceback.format_exception(error)))

    def call(work: Work, *arguments: Any) -> Answer:
        try:
            return function(*arguments)
        except StopIteration as error:
            report(error)
            # Passed on, it would end the epoch here as if there were no more batches.
            raise RuntimeError(f"stage {shown} raised StopIteration at {_which(work)}") from error
        except Exception as error:
            add_note(error, f"headrace: in stage {shown}, {_which(work)}")
            report(error)
            raise

    return call


def _outcome(returned: Any) -> tuple[Any, Counts]:
    """Return what a runner made and counted, if that is what it returned."""
    if isinstance(returned, tuple) and len(returned) == 2:
        counts = returned[1]
        if type(counts) is dict or isinstance(counts, Mapping):
            return returned
    raise PlanError(
        f"expected a runner to return a batch and what it counted, got {type(returned).__name__}; return batch, {{}} "
        "where there is nothing to count"
    )


def drawn(name: str, batch: MiniBatch, state: dict[str, Any], start: float) -> Work:
    """Return a batch that a source of this name has drawn since `start`, as work."""
    seconds = time.perf_counter() - start
    record = StageRecord(name, name, start, seconds, threading.get_ident(), {"seeds": len(batch.seeds)})
    return Work(batch, batch.epoch, batch.index, state, (record,))


class SourceNode(BaseNode[Work]):
    """Begins a pipeline: draws batches from a source. Its state is ``{"epoch": ..., "source": ...}``."""

    def __init__(self, name: str, source: BatchSource, reading: Reading | None = None) -> None:
        super().__init__()
        self._name = name
        self._reading = reading
        self._source = source
        self._epoch = 0
        self._drawn = 0

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        self._epoch = 0 if initial_state is None else initial_state["epoch"]
        state = None if initial_state is None else initial_state["source"]
        self._drawn = 0 if state is None else int(state["batch"])
        self._source.seek(self._epoch, state)

    def next(self) -> Work:
        start = time.perf_counter()
        versions = None if self._reading is None else self._reading.versions()
        try:
            batch = self._source.draw()
            self._drawn += 1
            work = drawn(self._name, batch, self.get_state(), start)
        except StopIteration:
            raise
        except Exception as error:
            add_note(error, f"headrace: in stage {self._name}, batch {self._drawn} of epoch {self._epoch}")
            raise
        if self._reading is not None and versions is not None:
            work.notes = (Note(self._reading, versions, None, (), []),)
        return work

    def get_state(self) -> dict[str, Any]:
        return {"epoch": self._epoch, "source": {"batch": self._drawn, **self._source.state()}}


class MapNode(BaseNode[Work]):
    """Runs steps on every piece of work, in the thread that asks for it."""

    def __init__(self, upstream: BaseNode[Work], steps: tuple[Step, ...]) -> None:
        super().__init__()
        self._upstream = upstream
        self._steps = steps

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        self._upstream.reset(initial_state)

    def next(self) -> Work:
        work = next(self._upstream)
        for step in self._steps:
            work = step(work)
        return work

    def close(self, timeout: float | None = None) -> None:
        """Stop whatever runs upstream, and wait for it, or for some seconds."""
        close_node(self._upstream, timeout)

    def stop(self) -> None:
        """Stop whatever runs upstream, without waiting."""
        stop_node(self._upstream)


#: Seconds that an error is held back for threads to end.
HELD_BACK = 2.0


def patience(error: BaseException | None) -> float | None:
    """Return the seconds to wait for threads behind an error, or None for as long as they take.

    A function of the user's that does not return must not keep an error from being seen. What is no `Exception` cuts
    the program short: Ctrl-C, sys.exit, a generator being destroyed. That waits for nobody.
    """
    if error is None or isinstance(error, StopIteration):
        return None
    return HELD_BACK if isinstance(error, Exception) else 0.0


def close_node(node: BaseNode[Work], timeout: float | None = None) -> None:
    """Close a node that has something to close, waiting for its threads, or for some seconds."""
    close = getattr(node, "close", None)
    if close is not None:
        close(timeout)


def stop_node(node: BaseNode[Work]) -> None:
    """Let a node stop without waiting for it."""
    stop = getattr(node, "stop", None)
    if stop is not None:
        stop()


def _which(work: Work) -> str:
    return f"batch {work.index} of epoch {work.epoch}"
