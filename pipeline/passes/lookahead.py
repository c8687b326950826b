"""Fetch features with knowledge of the next batches, if that saves reads.

A minibatch is a pure function of its index, so the next ones can be sampled before the rows of this one are read. Rows
on disk are then read by windows of batches: each row once, in the order of the file, which a disk does many times
faster than reading rows one by one. So windows get the memory of caches of `tiered_cache` that do not hold all rows;
those that do are filled once, and stay. A look-ahead cache of the user's evicts by Belady's rule within the window. For
a cache on a GPU, a stage before the copy announces the reads, or, if the batch is sampled there, a stage directly
before the fetch.

A rule on the whole plan: all fetches share the memory for the next batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from headrace.pipeline.passes.tiered_cache import SHARE as CACHES
from headrace.pipeline.plan import Facts, Machine, Rule, Stage, Window
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.storage.reads_ahead import gains_by_expecting, gains_by_foresight
from headrace.pipeline.storage.wanted import Wanted

#: The part of the free memory for the next batches of all fetches: caches and the model need the rest. Windows of rows
#: have that of caches as well.
SHARE = 8

#: Their memory if the free memory is unknown.
BYTES_OF_UNKNOWN = 1 << 28


def _look_ahead(stages: Window, facts: Sequence[Facts], machine: Machine) -> Window | None:
    """Give the coming batches to the fetches that gain by them."""
    return _fetch_ahead(stages, machine) or _tell(stages, facts, machine)


def _fetch_ahead(stages: Window, machine: Machine) -> Window | None:
    """Give fetches the coming batches; the memory of each depends on the number of fetches that gain."""
    fetches = [(stage, _by_windows(stage)) for stage in stages if isinstance(stage, FetchFeature)]
    gains = [(stage, wanted) for stage, wanted in fetches if any(map(gains_by_foresight, wanted.sources()))]
    if not gains:
        return None
    from headrace.pipeline.lowered.fetch_ahead import FetchAhead

    most = machine.share(SHARE) if machine.memory else BYTES_OF_UNKNOWN
    if any(wanted is not stage.wanted for stage, wanted in gains):
        most += machine.share(CACHES)
    made = {id(stage): FetchAhead(wanted, bytes_in_view=most // len(gains)).made_of(stage) for stage, wanted in gains}
    return tuple(made.get(id(stage), stage) for stage in stages)


def _by_windows(stage: FetchFeature) -> Wanted:
    """Return what a fetch wants: without caches that were added, if these cannot hold all rows on disk."""
    written = stage.origin.wants
    if written is None or written.store is stage.wanted.store:
        return stage.wanted
    bare = replace(stage.wanted, store=written.store)
    pairs = zip(bare.sources(), stage.wanted.sources(), strict=True)
    too_large = any(cached is not source and gains_by_expecting(cached) for source, cached in pairs)
    return bare if too_large else stage.wanted


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
