"""Keep rows from disk in memory, as far as there is room (GraphBolt's caches; Belady's rule within the window).

A rule on the whole plan: the caches of all its fetches share a budget.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace

from headrace.pipeline.data.place import CPU, DISK
from headrace.pipeline.lowered._fetch_stage import FetchStage
from headrace.pipeline.plan import Facts, Machine, Rule, Stage, Window
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.wanted import Feature, Wanted

#: The part of the free memory for the caches of all fetches: batches and the model need the rest.
SHARE = 4


def _cache(stages: Window, facts: Sequence[Facts], machine: Machine) -> Window | None:
    """Put look-ahead caches before all features on disk, at once, so that all fetches get equal shares."""
    del facts
    fetches = {
        position: (stage, features)
        for position, stage in enumerate(stages)
        if isinstance(stage, FetchStage) and (features := _on_disk(stage.wanted, machine))
    }
    if not fetches or any(map(_has_caches, stages)):
        return None
    # Loaded only if there are features on disk.
    from headrace.pipeline.storage.cached_store import with_caches

    made: list[Stage] = list(stages)
    for position, (fetch, features) in fetches.items():
        budget = machine.share(SHARE) // len(fetches)
        wanted = fetch.wanted
        store = with_caches(wanted.store, features, budget=budget, policy="look-ahead", at=CPU)
        if store is not wanted.store:  # otherwise no row fits
            made[position] = fetch.wanting(replace(wanted, store=store)).made_of(fetch)
    return tuple(made) if any(map(operator.is_not, made, stages)) else None


def _has_caches(stage: Stage) -> bool:
    """Whether this pass has added caches to a fetch, which then has another store than the user's."""
    written = stage.origin.wants
    return stage.wants is not None and written is not None and stage.wants.store is not written.store


def _on_disk(wanted: Wanted, machine: Machine) -> list[Feature]:
    """Return the features that are on disk."""
    features = zip(wanted.features, wanted.sources(), strict=True)
    return [feature for feature, source in features if _reads_disk(source, machine)]


def _reads_disk(source: FeatureSource, machine: Machine) -> bool:
    """Whether rows of a source are read from disk repeatedly."""
    if source.place != DISK or source.row_bytes == 0:
        return False
    # The system caches the pages of a mapped file itself.
    return source.rows_in_place is None or source.num_rows * source.row_bytes > machine.memory // 2


RULES = (Rule("fetch_feature from disk -> fetch_feature with a cache before it", (), _cache),)
