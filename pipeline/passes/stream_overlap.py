"""Run copies and fetches of a GPU on their own stream, while the training loop computes on another.

A thread launches them for the next batch, and the training loop waits for them, on its stream, when it takes the batch.
"""

from __future__ import annotations

from headrace.pipeline.lowered.gpu.fetch_to import FetchTo
from headrace.pipeline.lowered.gpu.on_stream import OnStream, WaitStream, runs_on_stream
from headrace.pipeline.plan import CONVERTED, Facts, Machine, Rule, Window
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.steps import Prefetch


def _overlap(prefetch: Prefetch, copy: CopyTo, facts: Facts, machine: Machine) -> Window | None:
    """Launch the copy from its own thread, on a side stream."""
    if machine.cores < 2 or prefetch.workers == 0:
        return None
    stream = _on_stream(copy, (), facts)
    if stream is None:
        return None
    return (prefetch, stream.made_of(copy), Prefetch(workers=1, depth=1), WaitStream().made_of(copy))


def _overlap_ahead(copy: CopyTo, behind: Window, prefetch: Prefetch, facts: Facts, machine: Machine) -> Window | None:
    """Launch the copy, and the sampling and fetches behind it, in the threads of a prefetch that follows."""
    del machine
    if prefetch.workers == 0:
        return None
    stream = _on_stream(copy, behind, facts)
    return None if stream is None else (stream, prefetch, WaitStream())


def _on_stream(copy: CopyTo, behind: Window, facts: Facts) -> OnStream | None:
    """Return a copy to a GPU, and stages there, as one stage; None for another copy, and for converted batches."""
    place = copy.moves_to
    if place is None or place.kind != "cuda" or facts.given == CONVERTED:
        return None
    there = [stage for stage in behind if runs_on_stream(stage)]
    return OnStream((copy, *there), place) if len(there) == len(behind) else None


def _take_along(
    stream: OnStream, prefetch: Prefetch, wait: WaitStream, fetch: FetchTo, facts: Facts, machine: Machine
) -> Window | None:
    """Join a fetch after the copy to it."""
    del facts, machine
    if fetch.place != stream.place:
        return None
    return (OnStream((*stream.stages, fetch), stream.place).made_of(stream), prefetch, wait)


RULES = (
    Rule("fetch_to behind on_stream -> in it", (OnStream, Prefetch, WaitStream, FetchTo), _take_along),
    Rule("copy_to a GPU, prefetch -> on_stream, prefetch, wait_stream", (CopyTo, ..., Prefetch), _overlap_ahead),
    Rule("prefetch, copy_to a GPU -> on_stream, prefetch, wait_stream", (Prefetch, CopyTo), _overlap),
)
