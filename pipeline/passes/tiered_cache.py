"""Keep rows from disk in memory, as many as the machine has room for (GraphBolt's caches; Belady within the window).

A rule on the whole plan: the caches of all its fetches share a budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.pipeline.data.feature_names import FeatureName, label_names
from headrace.pipeline.data.place import CPU, DISK
from headrace.pipeline.plan.facts import Facts
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.storage.array_source import ArraySource
from headrace.pipeline.storage.features import FeatureSource

#: The part of the free memory that the caches of all fetches take: batches and the model need the rest.
SHARE = 4


def _cache(stages: Window, facts: Sequence[Facts], machine: Machine) -> Window | None:
    """Put look-ahead caches before all that is read from disk: once, so that no fetch is left a larger share."""
    del facts
    fetches = [
        (position, stage, *named)
        for position, stage in enumerate(stages)
        if isinstance(stage, FetchFeature) and any(named := _on_disk(stage, machine))
    ]
    if not fetches or any(isinstance(stage, FetchFeature) and _has_cache(stage) for stage in stages):
        return None
    # Loaded where there is something on disk.
    from headrace.pipeline.storage.cached_feature import CachedFeature
    from headrace.pipeline.storage.cached_store import with_caches

    made: list[Stage] = list(stages)
    fires = False
    for position, fetch, node, edge in fetches:
        budget = machine.share(SHARE) // len(fetches)
        store = with_caches(fetch.store, node, edge, budget=budget, policy="look-ahead", at=CPU)
        caches = [*(store.node[name] for name in node), *(store.edge[name] for name in edge)]
        if any(isinstance(one, CachedFeature) and one.capacity for one in caches):  # else no row has room
            made[position] = replace(fetch, store=store).made_of(fetch)
            fires = True
    return tuple(made) if fires else None


def _has_cache(fetch: FetchFeature) -> bool:
    """Whether this pass has given a fetch a cache."""
    from headrace.pipeline.storage.cached_feature import CachedFeature

    sources = [*fetch.store.node.values(), *fetch.store.edge.values()]
    return fetch.origin is not fetch and any(
        isinstance(source, CachedFeature) and source.policy == "look-ahead" for source in sources
    )


def _on_disk(fetch: FetchFeature, machine: Machine) -> tuple[list[FeatureName], list[FeatureName]]:
    """Return the node and edge features of a fetch that are read from disk."""
    names = dict.fromkeys((*fetch.node, *label_names(fetch.labels)))
    node = [name for name in names if _reads_disk(fetch.store.node[name], machine)]
    return node, [name for name in fetch.edge if _reads_disk(fetch.store.edge[name], machine)]


def _reads_disk(source: FeatureSource, machine: Machine) -> bool:
    """Whether rows of a source come from disk again and again."""
    if getattr(source, "place", None) != DISK or source.row_bytes == 0:
        return False
    # The system itself keeps the pages of a mapped file, if they have room.
    is_mapped = isinstance(source, ArraySource)
    return not is_mapped or source.num_rows * source.row_bytes > machine.memory // 2


RULES = (Rule("fetch_feature from disk -> fetch_feature with a cache before it", (), _cache),)
