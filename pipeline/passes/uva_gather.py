"""Let a GPU read rows of features where they are, in memory of the host, instead of a gather and a copy.

A kernel reads pinned memory over the bus (unified virtual addressing): rows come once, and no core of the host works
for them. The batch is copied first then, without its rows, and these are fetched behind the copy.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data.feature_names import label_names
from headrace.pipeline.data.place import Place
from headrace.pipeline.lowered.fetch_stage import FetchStage
from headrace.pipeline.lowered.fetch_to import FetchTo
from headrace.pipeline.plan.checks import graphs_of
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.source import SourceStage
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.stages.prefetch import Prefetch
from headrace.pipeline.stages.sampler import Sampler


def _fetch_behind(fetch: FetchFeature, copy: CopyTo, machine: Machine) -> Window | None:
    """Fetch what the GPU can read behind the copy, and leave the rest before it."""
    split = _split(fetch, copy.moves_to, machine)
    if split is None:
        return None
    rest, behind = split
    return (*rest, copy, behind.made_of(fetch))


def _fetch_there(stages: Window, machine: Machine) -> Window | None:
    """Fetch what the GPU can read, of batches that were copied to it before: which GPU that is, the whole plan says."""
    place: Place | None = None
    for position, stage in enumerate(stages):
        place = stage.moves_to or place
        split = _split(stage, place, machine) if isinstance(stage, FetchFeature) else None
        if split is not None:
            rest, behind = split
            return (
                *stages[:position],
                *(one.made_of(stage) for one in rest),
                behind.made_of(stage),
                *stages[position + 1 :],
            )
    return None


def _split(
    fetch: FetchFeature, place: Place | None, machine: Machine
) -> tuple[tuple[FetchFeature, ...], FetchTo] | None:
    """Return what is left to fetch in CPU memory, and what a GPU at a place can read; None if that is nothing."""
    if not machine.gpus or place is None or place.kind != "cuda":
        return None
    node = tuple(name for name in fetch.node if _reads_to(fetch.store.node[name], place))
    edge = tuple(name for name in fetch.edge if _reads_to(fetch.store.edge[name], place))
    of_seeds = [fetch.store.node[name] for name in label_names(fetch.labels)]
    labels = fetch.labels if all(_reads_to(source, place) for source in of_seeds) else None
    if not node and not edge and labels is None:
        return None
    behind = FetchTo(fetch.store, place, node=node, edge=edge, labels=labels)
    if (node, edge, labels) == (fetch.node, fetch.edge, fetch.labels):
        return (), behind
    rest = replace(
        fetch,
        node=tuple(name for name in fetch.node if name not in node),
        edge=tuple(name for name in fetch.edge if name not in edge),
        labels=fetch.labels if labels is None else None,
    )
    return (rest,), behind


def _trust(stages: Window, machine: Machine) -> Window | None:
    """Let nobody look at ids that are known to have rows: what found them, the whole plan says."""
    del machine
    for position, fetch in enumerate(stages):
        if isinstance(fetch, FetchTo) and not fetch.trusted and _have_rows(fetch, stages[:position]):
            return (*stages[:position], replace(fetch, trusted=True).made_of(fetch), *stages[position + 1 :])
    return None


def _have_rows(fetch: FetchTo, before: Window) -> bool:
    """Whether all ids that stages give to a fetch have rows."""
    source, others = before[0], before[1:]
    if not isinstance(source, SourceStage) or not all(map(_gives_good_ids, others)):
        return False
    nodes = [fetch.store.node[name].num_rows for name in fetch.node]
    edges = [fetch.store.edge[name].num_rows for name in fetch.edge]
    labels = [fetch.store.node[name].num_rows for name in label_names(fetch.labels)]
    graphs = [graph for _, graph in graphs_of(before)]
    reached = source.largest_id
    # Samplers refuse seeds that are no nodes of their graph, but those of the source are in the batch as they came.
    found_by_graph = [*nodes, *(labels if any("seeds" in stage.writes for stage in others) else ())]
    found_by_source = [*(() if graphs else nodes), *labels]
    num_nodes = max((graph.num_nodes for graph in graphs), default=0)
    return (
        all(rows >= num_nodes for rows in found_by_graph)
        and (not found_by_source or (reached is not None and all(rows > reached for rows in found_by_source)))
        and all(graph.has_sound_edge_ids and rows >= graph.num_edges for graph in graphs for rows in edges)
    )


def _gives_good_ids(stage: Stage) -> bool:
    """Whether ids behind a stage are those of its graph, or those that came; what a user's own writes is not known."""
    return stage.lowered or isinstance(stage, Sampler | FetchStage | CopyTo | Prefetch)


def _reads_to(source: object, place: Place) -> bool:
    """Whether a source says that it can read rows to a place."""
    reads_to = getattr(source, "reads_to", None)
    return reads_to is not None and reads_to(place)


RULES = (
    Rule("fetch_feature, copy_to a GPU -> copy_to, fetch_to", (FetchFeature, CopyTo), _fetch_behind),
    Rule("fetch_feature of a batch on a GPU -> fetch_to", (), _fetch_there),
    Rule("fetch_to of ids that have rows -> without a look at them", (), _trust),
)
