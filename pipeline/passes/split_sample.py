"""Fetch rows apart from sampling them, of graphs that do not fit in a GPU (GraphBolt's graph fetch).

Hops that look at whole rows would read each several times over the bus. Fetched first, rows come once, in whole lines,
and what is hot can be kept (`graph_cache`). A rule on the whole plan: which GPU a batch was copied to stands before the
sampler. Hops by weight stay as they are: they read weights as well, of few edges or of as many bytes as there are.
"""

from __future__ import annotations

from headrace.pipeline.data.place import Place
from headrace.pipeline.lowered.fetch_rows import FetchRows, SampleFetched
from headrace.pipeline.lowered.hop import SampleHop
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.stage import Stage


def _split(stages: Window, machine: Machine) -> Window | None:
    """Split the first hop that is to be split."""
    place: Place | None = None
    for position, stage in enumerate(stages):
        place = stage.moves_to or place
        if isinstance(stage, SampleHop) and place is not None and _pays(stage, place, machine):
            return (*stages[:position], *_parts(stage), *stages[position + 1 :])
    return None


def _pays(hop: SampleHop, place: Place, machine: Machine) -> bool:
    """Whether a hop on a GPU looks at whole rows, and the graph is not copied there, as far as that is known."""
    if place.kind != "cuda" or not hop.on_gpu or not hop.reads_whole_rows:
        return False
    memory = machine.memory_of_gpu(place.index)
    return memory > 0 and not hop.graph.fits_on_gpu(place.index, memory)


def _parts(hop: SampleHop) -> tuple[Stage, ...]:
    sample = SampleFetched(**hop.parameters())
    return FetchRows(hop.graph, expand=hop.expand).made_of(hop), sample.made_of(hop)


RULES = (Rule("sample_hop of a graph larger than a GPU's memory -> fetch_rows, sample_fetched", (), _split),)
