"""Fetch features with knowledge of the next batches, if that saves reads.

A minibatch is a pure function of its index, so the next ones can be sampled before the rows of this one are read. A
look-ahead cache (`tiered_cache`) then evicts by Belady's rule within the window. Without a cache, rows that several
batches want are read once, in few large reads. For a cache on a GPU, a stage before the copy announces the reads, or,
if the batch is sampled there, a stage directly before the fetch.

A rule on the whole plan: all fetches share the memory for the next batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headrace.pipeline.plan import Facts, Machine, Rule, Stage, Window
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.storage.reads_ahead import gains_by_expecting, gains_by_foresight

#: The part of the free memory for the next batches of all fetches: caches and the model need the rest.
SHARE = 8

#: Their memory if the free memory is unknown.
BYTES_OF_UNKNOWN = 1 << 28


def _look_ahead(stages: Window, facts: Sequence[Facts], machine: Machine) -> Window | None:
    """Give the coming batches to the fetches that gain by them."""
    return _fetch_ahead(stages, machine) or _tell(stages, facts, machine)


def _fetch_ahead(stages: Window, machine: Machine) -> Window | None:
    """Give fetches the coming batches; the memory of each depends on the number of fetches that gain."""
    gains = [
        stage
        for stage in stages
        if isinstance(stage, FetchFeature) and any(map(gains_by_foresight, stage.wanted.sources()))
    ]
    if not gains:
        return None
    from headrace.pipeline.lowered.fetch_ahead import FetchAhead

    most = (machine.share(SHARE) if machine.memory else BYTES_OF_UNKNOWN) // len(gains)
    made = {id(stage): FetchAhead(stage.wanted, bytes_in_view=most).made_of(stage) for stage in gains}
    return tuple(made.get(id(stage), stage) for stage in stages)


def _tell(stages: Window, facts: Sequence[Facts], machine: Machine) -> Window | None:
    """Announce the coming batches to sources that a GPU reads."""
    if not machine.gpus:
        return None
    from headrace.pipeline.lowered.expect_rows import ExpectRows
    from headrace.pipeline.lowered.gpu.fetch_to import FetchTo

    told = [stage.wanted for stage in stages if isinstance(stage, ExpectRows)]
    for position, fetch in enumerate(stages):
        if not isinstance(fetch, FetchTo):
            continue
        place = fetch.place
        gaining = fetch.wanted.only(partial(gains_by_expecting, to=place), labels=any)
        if not gaining or gaining in told:
            continue
        start = position
        while _goes_along(stages[start - 1]):
            start -= 1
        copied = facts[start].place is not None
        known = machine.memory_of_gpu(place.index) if copied else machine.memory
        share = machine.share_of_gpu(place.index, SHARE) if copied else machine.share(SHARE)
        expect = ExpectRows(gaining, place, bytes_in_view=share if known else BYTES_OF_UNKNOWN)
        return (*stages[:start], expect.made_of(fetch), *stages[start:])
    return None


def _goes_along(stage: Stage) -> bool:
    """Whether a stage separates announced batches from the fetch: a copy, a thread, another such fetch."""
    return stage.moves_to is not None or stage.threads or (stage.wants is not None and stage.reads_at is not None)


RULES = (Rule("fetch_feature from disk, or fetch_to from a cache -> with the next batches in view", (), _look_ahead),)
