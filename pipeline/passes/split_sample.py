"""Fetch adjacency separately from sampling, for graphs that do not fit in a GPU (GraphBolt's graph fetch).

Hops that look at whole adjacency lists would read each several times over the bus. Fetched first, a list comes once, in
whole lines, and hot lists can be kept (`graph_cache`). Hops by weight stay as they are: they read weights as well, of
few edges or of as many bytes as there are.

The fused sampler fetches by itself, and the host waits once for a minibatch. Of hops that are not fused it waits for
each part.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data.graph_machinery import fits_on_gpu
from headrace.pipeline.data.place import Place
from headrace.pipeline.lowered import Hop, SampleHop
from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.lowered.gpu.fetch_rows import FetchRows, SampleFetched
from headrace.pipeline.plan import Facts, Machine, Rule, Window


def _fetch(fused: SampleFused, facts: Facts, machine: Machine) -> Window | None:
    """Let fused hops of a batch that was copied to a GPU fetch rows, if one of them looks at whole ones."""
    place = facts.place
    if fused.fetch or place is None or not any(_pays(hop, place, machine) for hop in fused.hops):
        return None
    return (replace(fused, fetch=True),)


def _split(stage: SampleHop, facts: Facts, machine: Machine) -> Window | None:
    """Split a hop of a batch that was copied to a GPU."""
    if facts.place is None or not _pays(stage.hop, facts.place, machine):
        return None
    return FetchRows(stage.graph, expand=stage.expand), SampleFetched(**stage.parameters())


def _pays(hop: Hop, place: Place, machine: Machine) -> bool:
    """Whether a hop on a GPU reads whole lists, and the graph is not copied there, as far as known."""
    if place.kind != "cuda" or not hop.on_gpu or not hop.reads_whole_rows:
        return False
    memory = machine.memory_of_gpu(place.index)
    return memory > 0 and not fits_on_gpu(hop.graph, place.index, memory)


RULES = (
    Rule(
        "sample_fused of a graph larger than a GPU's memory -> sample_fused, which fetches rows", (SampleFused,), _fetch
    ),
    Rule("sample_hop of a graph larger than a GPU's memory -> fetch_rows, sample_fetched", (SampleHop,), _split),
)
