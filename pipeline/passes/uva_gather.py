"""Let a GPU read rows of features where they are, in memory of the host, instead of a gather and a copy.

A kernel reads pinned memory over the bus (unified virtual addressing): rows come once, and no core of the host works
for them. The batch is copied first then, without its rows, and these are fetched behind the copy.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data.place import Place
from headrace.pipeline.lowered.fetch_to import FetchTo
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Pass, Promise, Rule, Window
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.fetch_feature import FetchFeature


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
    labels = fetch.labels if fetch.labels is not None and _reads_to(fetch.store.node[fetch.labels], place) else None
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


def _reads_to(source: object, place: Place) -> bool:
    """Whether a source says that it can read rows to a place."""
    reads_to = getattr(source, "reads_to", None)
    return reads_to is not None and reads_to(place)


UVA_GATHER = Pass(
    "uva_gather",
    Promise.SAME_BATCHES,
    rules=(
        Rule("fetch_feature, copy_to a GPU -> copy_to, fetch_to", (FetchFeature, CopyTo), _fetch_behind),
        Rule("fetch_feature of a batch on a GPU -> fetch_to", (), _fetch_there),
    ),
    needs_gpu=True,
)
