"""Run copies and fetches of a GPU on their own stream, while the training loop computes on another.

A thread launches them for the next batch, and the training loop waits for them, on its stream, when it takes the batch.
"""

from __future__ import annotations

from headrace.pipeline.data import Place
from headrace.pipeline.lowered.gpu.fetch_to import FetchTo
from headrace.pipeline.lowered.gpu.on_stream import OnStream, WaitStream, runs_on_stream
from headrace.pipeline.plan import CONVERTED, Facts, Machine, Rule, Window
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.steps import Prefetch


def _overlap(prefetch: Prefetch, copy: CopyTo, facts: Facts, machine: Machine) -> Window | None:
    """Launch the copy from its own thread, on a side stream."""
    place = _gpu_of(copy, facts)
    if place is None or machine.cores < 2 or prefetch.workers == 0:
        return None
    stream, wait = OnStream(place).made_of(copy), WaitStream().made_of(copy)
    return (prefetch, stream, copy, Prefetch(workers=1, depth=1), wait)


def _overlap_ahead(copy: CopyTo, behind: Window, prefetch: Prefetch, facts: Facts, machine: Machine) -> Window | None:
    """Launch the copy, and the sampling and fetches behind it, in the threads of a prefetch that follows."""
    del machine
    place = _gpu_of(copy, facts)
    if place is None or prefetch.workers == 0 or not all(map(runs_on_stream, behind)):
        return None
    return (OnStream(place), copy, *behind, prefetch, WaitStream())


def _gpu_of(copy: CopyTo, facts: Facts) -> Place | None:
    """Return the GPU of a copy; None for a copy elsewhere, of converted batches, and where it is launched already."""
    place = copy.moves_to
    is_launched = facts.last is not None and facts.last.stream == "launch"
    return None if place is None or place.kind != "cuda" or facts.given == CONVERTED or is_launched else place


def _take_along(
    stream: OnStream,
    behind: Window,
    prefetch: Prefetch,
    wait: WaitStream,
    fetch: FetchTo,
    facts: Facts,
    machine: Machine,
) -> Window | None:
    """Launch a fetch after the copy with it."""
    del facts, machine
    return (stream, *behind, fetch, prefetch, wait) if fetch.place == stream.place else None


RULES = (
    Rule(
        "fetch_to behind wait_stream -> before the prefetch",
        (OnStream, ..., Prefetch, WaitStream, FetchTo),
        _take_along,
    ),
    Rule(
        "copy_to a GPU, prefetch -> on_stream, copy_to, prefetch, wait_stream", (CopyTo, ..., Prefetch), _overlap_ahead
    ),
    Rule(
        "prefetch, copy_to a GPU -> prefetch, on_stream, copy_to, prefetch, wait_stream", (Prefetch, CopyTo), _overlap
    ),
)
