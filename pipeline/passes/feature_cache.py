"""Keep rows of large features in memory of the GPU that they are copied to (GraphBolt's GPU cache).

A rule on the whole plan: the caches of all its fetches share a budget.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace

from headrace.pipeline.data.graph_machinery import bytes_to_place
from headrace.pipeline.data.place import Place
from headrace.pipeline.lowered._fetch_stage import FetchStage
from headrace.pipeline.plan import Facts, Machine, Rule, Stage, Window, graphs_of
from headrace.pipeline.storage.cached_store import with_caches
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.wanted import Feature

#: The part of the GPU's memory that the caches of all fetches take: the graph, batches and the model need the rest.
SHARE = 4

#: Features of fewer bytes are read over the bus in no time, and often lie in caches of the processor.
LEAST_BYTES = 64 << 20


def _cache(stages: Window, facts: Sequence[Facts], machine: Machine) -> Window | None:
    """Put a cache before all that a GPU would read over the bus, one of that GPU's."""
    fetches = {
        position: (stage, place, features)
        for position, stage in enumerate(stages)
        if isinstance(stage, FetchStage)
        and (place := _gpu_of(stages, facts, position)) is not None
        and (features := _large(stage, place))
    }
    made: list[Stage] = list(stages)
    for position, (fetch, place, features) in fetches.items():
        budget = _memory_for_caches(facts, place, machine) // len(fetches)
        wanted = fetch.wanted
        store = with_caches(wanted.store, features, budget=max(budget, 0), policy=None, at=place)
        if store is not wanted.store:
            made[position] = fetch.wanting(replace(wanted, store=store)).made_of(fetch)
    return tuple(made) if any(map(operator.is_not, made, stages)) else None


def _memory_for_caches(facts: Sequence[Facts], place: Place, machine: Machine) -> int:
    """Return the bytes that all caches may take on a GPU.

    They are made before the first batch, and graphs that are sampled there are copied with it. Those that other passes
    take to fit must fit then: have half of what the caches have left.
    """
    memory = machine.memory_of_gpu(place.index)
    sampled_there = graphs_of(known.last for known in facts if known.place == place and known.last is not None)
    graphs = {id(graph): graph for _, graph in sampled_there}
    free = memory
    for graph in graphs.values():
        free -= 2 * bytes_to_place(graph, place.index, free)
    return min(machine.share_of_gpu(place.index, SHARE), free)


def _gpu_of(stages: Window, facts: Sequence[Facts], position: int) -> Place | None:
    """Return the GPU that the fetch at a position could read to: its batch is there, or copied there right behind."""
    behind = next((stage for stage in stages[position:] if stage.wants is None), None)
    place = facts[position].place or (None if behind is None else behind.moves_to)
    return place if place is not None and place.kind == "cuda" else None


def _large(fetch: FetchStage, place: Place) -> list[Feature]:
    """Return the features of a fetch that are worth a cache."""

    def is_large(source: FeatureSource) -> bool:
        # What is not read in place has tiers or a cache of its own.
        in_place = source.rows_in_place is not None and source.reads_to(place)
        return in_place and source.num_rows * source.row_bytes >= LEAST_BYTES

    features = zip(fetch.wanted.features, fetch.wanted.sources(), strict=True)
    return [feature for feature, source in features if is_large(source)]


RULES = (Rule("fetch_feature for a GPU -> fetch_feature with a cache there before it", (), _cache),)
