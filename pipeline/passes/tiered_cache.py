"""Keep rows from disk in memory, as many as the machine has room for (GraphBolt's caches; Belady within the window)."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data.feature_names import label_names
from headrace.pipeline.data.place import DISK
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Pass, Promise, Rule, Window
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.storage.array_source import ArraySource
from headrace.pipeline.storage.cached_feature import CachedFeature
from headrace.pipeline.storage.cached_store import cached
from headrace.pipeline.storage.features import FeatureSource

#: The part of the free memory that the caches of one fetch take: batches and the model need the rest. A plan with
#: several fetches from disk gives each as much.
SHARE = 4


def _cache(fetch: FetchFeature, machine: Machine) -> Window | None:
    """Put a look-ahead cache before all that is read from disk."""
    budget = machine.memory // SHARE
    node = [name for name in (*fetch.node, *label_names(fetch.labels)) if _reads_disk(fetch.store.node[name], machine)]
    edge = [name for name in fetch.edge if _reads_disk(fetch.store.edge[name], machine)]
    if not node and not edge:
        return None
    store = cached(fetch.store, node=node, edge=edge, bytes=budget, policy="look-ahead")
    caches = [*(store.node[name] for name in node), *(store.edge[name] for name in edge)]
    if not any(isinstance(one, CachedFeature) and one.capacity for one in caches):  # no room for a single row
        return None
    return (replace(fetch, store=store),)


def _reads_disk(source: FeatureSource, machine: Machine) -> bool:
    """Whether rows of a source come from disk again and again."""
    if getattr(source, "place", None) != DISK or source.row_bytes == 0:
        return False
    # The system itself keeps the pages of a mapped file, if they have room.
    is_mapped = isinstance(source, ArraySource)
    return not is_mapped or source.num_rows * source.row_bytes > machine.memory // 2


TIERED_CACHE = Pass(
    "tiered_cache",
    Promise.SAME_BATCHES,
    rules=(Rule("fetch_feature from disk -> fetch_feature with a cache before it", (FetchFeature,), _cache),),
)
