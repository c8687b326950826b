"""Keep hot parts of a graph's rows in memory of the GPU that samples it (GraphBolt's graph cache).

A rule on the whole plan: hops of one graph share a cache.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data.place import Place
from headrace.pipeline.lowered.fetch_rows import FetchRows
from headrace.pipeline.lowered.graph_cache import GraphCache
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.stage import Stage

#: The part of the GPU's memory that the cache takes: features, batches and the model need the rest.
SHARE = 4


def _cache(stages: Window, machine: Machine) -> Window | None:
    """Give all fetches of rows a cache, if none has one."""
    place: Place | None = None
    cache: GraphCache | None = None
    made: list[Stage] = []
    for stage in stages:
        place = stage.moves_to or place
        if isinstance(stage, FetchRows) and stage.cache is None and place is not None:
            number = machine.current_gpu if place.index is None else place.index
            cache = cache or GraphCache(machine.share_of_gpu(number, SHARE), number)
            made.append(replace(stage, cache=cache).made_of(stage))
        else:
            made.append(stage)
    return tuple(made) if cache is not None and cache.num_bytes else None


RULES = (Rule("fetch_rows -> fetch_rows with a cache, one for all hops", (), _cache),)
