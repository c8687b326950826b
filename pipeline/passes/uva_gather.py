"""Read rows of features by the GPU directly in host memory, instead of a gather and a copy.

A kernel reads pinned memory over the bus (unified virtual addressing): rows come once, and no core of the host works
for them. The batch is copied first then, without its rows, and these are fetched behind the copy.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data import GraphView
from headrace.pipeline.data.feature_names import own_type
from headrace.pipeline.data.graph_machinery import has_sound_edge_ids
from headrace.pipeline.data.place import Place
from headrace.pipeline.lowered.gpu.fetch_to import FetchTo
from headrace.pipeline.lowered.ranks.fetch_owned import FetchOwned
from headrace.pipeline.plan import Facts, Machine, Rule, Window
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.storage.wanted import Feature, Wanted


def _fetch_behind(fetch: FetchFeature, copy: CopyTo, facts: Facts, machine: Machine) -> Window | None:
    """Move the fetch of features that the GPU can read to after the copy, and leave the rest before it."""
    del facts
    split = _split(fetch, copy.moves_to, machine)
    if split is None:
        return None
    rest, behind = split
    return (*rest, copy, behind.made_of(fetch))


def _fetch_there(fetch: FetchFeature, facts: Facts, machine: Machine) -> Window | None:
    """Fetch the features that the GPU can read, for batches that were copied to it before."""
    split = _split(fetch, facts.place, machine)
    return None if split is None else (*split[0], split[1])


def _fetch_owned_there(fetch: FetchOwned, facts: Facts, machine: Machine) -> Window | None:
    """Do the same for the rows of the nodes that this rank owns."""
    place = facts.place
    behind = _readable(fetch.wanted, place, machine)
    if not behind or place is None:
        return None
    left = fetch.wanted.without(behind)
    return (*((FetchOwned(left),) if left else ()), FetchTo(behind, place, bus_threads=machine.bus_threads))


def _split(
    fetch: FetchFeature, place: Place | None, machine: Machine
) -> tuple[tuple[FetchFeature, ...], FetchTo] | None:
    """Return the fetches for CPU memory and for a GPU at a place; None if the GPU can read none."""
    behind = _readable(fetch.wanted, place, machine)
    if not behind or place is None:
        return None
    return fetch.rest(behind), FetchTo(behind, place, bus_threads=machine.bus_threads)


def _readable(wanted: Wanted, place: Place | None, machine: Machine) -> Wanted | None:
    """Return the features that the GPU at a place can read; None if it is none."""
    if not machine.gpus or place is None or place.kind != "cuda":
        return None
    return wanted.only(lambda source: source.reads_to(place))


def _trust(fetch: FetchTo, facts: Facts, machine: Machine) -> Window | None:
    """Skip the check of ids that are known to have rows."""
    del machine
    return None if fetch.trusted or not _have_rows(fetch, facts) else (replace(fetch, trusted=True),)


def _have_rows(fetch: FetchTo, facts: Facts) -> bool:
    """Whether all ids that arrive at a fetch have rows."""
    source, graphs = facts.source, facts.graphs
    if source is None or not facts.sound_ids:
        return False
    wanted, reached = fetch.wanted, source.largest_id
    first_label = len(wanted.node) + len(wanted.edge)
    seeds_are_written = any("seeds" in stage.writes for stage in facts.before[1:])
    for place, (feature, rows) in enumerate(zip(wanted.features, wanted.sources(), strict=True)):
        domain, name = feature
        is_label, of_type = place >= first_label, own_type(name) is not None
        # Hops refuse seeds that are not nodes of their graph, but seeds of the source are in the batch unchecked. Seeds
        # of other types than the label's are refused, and types are those of a graph.
        found_by_graph = of_type or not is_label or seeds_are_written
        if found_by_graph and not all(_has_rows_of(graph, feature, rows.num_rows) for graph in graphs):
            return False
        found_by_source = domain == "node" and not of_type and (is_label or facts.hops == 0)
        if found_by_source and (reached is None or rows.num_rows <= reached):
            return False
    return True


def _has_rows_of(graph: GraphView, feature: Feature, num_rows: int) -> bool:
    """Whether there are rows of all nodes or edges of a graph, or of those of the type that a feature is of."""
    domain, name = feature
    if domain == "edge" and not has_sound_edge_ids(graph):
        return False
    types, whole = (graph.node_types, graph.num_nodes) if domain == "node" else (graph.edge_types, graph.num_edges)
    of_type = own_type(name)
    if of_type is None:
        return num_rows >= whole
    return types is not None and of_type in types.names and num_rows >= len(types.id_range(of_type))


RULES = (
    Rule("fetch_feature, copy_to a GPU -> copy_to, fetch_to", (FetchFeature, CopyTo), _fetch_behind),
    Rule("fetch_feature of a batch on a GPU -> fetch_to", (FetchFeature,), _fetch_there),
    Rule("fetch_owned of a batch on a GPU -> fetch_to", (FetchOwned,), _fetch_owned_there),
    Rule("fetch_to of ids that have rows -> without a check", (FetchTo,), _trust),
)
