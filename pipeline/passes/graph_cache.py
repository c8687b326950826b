"""Keep hot adjacency of a graph in memory of the GPU that samples it (GraphBolt's graph cache)."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.lowered.gpu.fetch_rows import FetchRows, GraphCache
from headrace.pipeline.plan import Facts, Machine, Rule, Window

#: The part of the GPU's memory for the cache: features, batches and the model need the rest.
SHARE = 4


def _cache(fetch: FetchRows | SampleFused, facts: Facts, machine: Machine) -> Window | None:
    """Add the cache of the hops before it to a fetch, or a new one."""
    place = facts.place
    if fetch.cache is not None or place is None or (isinstance(fetch, SampleFused) and not fetch.fetch):
        return None
    fetches = [stage for stage in facts.before if isinstance(stage, (FetchRows, SampleFused))]
    others = [stage.cache for stage in fetches if stage.cache is not None]
    number = machine.current_gpu if place.index is None else place.index
    cache = others[0] if others else GraphCache(machine.share_of_gpu(number, SHARE), number)
    return (replace(fetch, cache=cache),) if cache.num_bytes else None


RULES = (
    Rule("fetch_rows -> fetch_rows with a cache, one for all hops", (FetchRows,), _cache),
    Rule("sample_fused, which fetches rows -> with a cache, one for all hops", (SampleFused,), _cache),
)
