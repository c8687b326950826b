"""Let copies and fetches of a GPU run on a stream of their own, while the training loop computes on its own.

A thread launches them for the next batch, and the training loop waits for them, on its stream, when it takes the batch.
"""

from __future__ import annotations

from itertools import pairwise

from headrace.pipeline.lowered.fetch_to import FetchTo
from headrace.pipeline.lowered.on_stream import OnStream, WaitStream
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.stage import CONVERTED
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.prefetch import Prefetch


def _overlap(stages: Window, machine: Machine) -> Window | None:
    """Launch the copy from a thread, on a side stream: of minibatches alone, and what comes the whole plan says."""
    if not machine.gpus or machine.cores < 2:
        return None
    for position, (prefetch, copy) in enumerate(pairwise(stages)):
        place = copy.moves_to
        if CONVERTED in (prefetch.gives, copy.gives):
            return None
        ahead = isinstance(prefetch, Prefetch) and prefetch.workers > 0
        if ahead and isinstance(copy, CopyTo) and place is not None and place.kind == "cuda":
            made = (OnStream((copy,), place).made_of(copy), Prefetch(workers=1, depth=1), WaitStream())
            return (*stages[: position + 1], *made, *stages[position + 2 :])
    return None


def _overlap_ahead(stages: Window, machine: Machine) -> Window | None:
    """Where users have put a prefetch behind the copy, its threads launch it; what comes the whole plan says."""
    if not machine.gpus:
        return None
    given = None
    for position, copy in enumerate(stages):
        end = next((end for end in range(position + 1, len(stages)) if not isinstance(stages[end], FetchTo)), 0)
        place, given = copy.moves_to, copy.gives or given
        prefetch = stages[end]
        ahead = isinstance(prefetch, Prefetch) and prefetch.workers > 0
        if ahead and isinstance(copy, CopyTo) and place is not None and place.kind == "cuda" and given != CONVERTED:
            fetches = tuple(stage for stage in stages[position + 1 : end] if isinstance(stage, FetchTo))
            if all(fetch.place == place for fetch in fetches):
                stream = OnStream((copy, *fetches), place).made_of(copy)
                return (*stages[:position], stream, prefetch, WaitStream(), *stages[end + 1 :])
    return None


def _take_along(
    stream: OnStream, prefetch: Prefetch, wait: WaitStream, fetch: FetchTo, machine: Machine
) -> Window | None:
    """Let a fetch behind the copy go along."""
    del machine
    if fetch.place != stream.place:
        return None
    return (OnStream((*stream.stages, fetch), stream.place).made_of(stream), prefetch, wait)


RULES = (
    Rule("fetch_to behind on_stream -> in it", (OnStream, Prefetch, WaitStream, FetchTo), _take_along),
    Rule("copy_to a GPU, prefetch -> on_stream, prefetch, wait_stream", (), _overlap_ahead),
    Rule("prefetch, copy_to a GPU -> on_stream, prefetch, wait_stream", (), _overlap),
)
