"""A graph of some of the edges of another one."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.types import TypeOffsets


def with_edges(graph: Graph, kept: Tensor) -> Graph:
    """Return the graph of the edges that are kept, numbered in their order: bool[num_edges] by input edge id."""
    ids = graph.edge_ids.long()
    positions = kept[ids].nonzero().reshape(-1)
    before = starts_of(kept[ids])  # kept positions before each one
    new_ids = starts_of(kept)[:-1][ids[positions]]
    in_order = bool((new_ids[1:] > new_ids[:-1]).all())
    types = graph.edge_types
    if types is not None:
        ranges = {name: types.id_range(name) for name in types.names}
        types = TypeOffsets.from_counts({name: int(kept[own.start : own.stop].sum()) for name, own in ranges.items()})
    return replace(
        graph,
        indptr=before[graph.indptr],
        indices=graph.indices[positions],
        edge_permutation=None if in_order else new_ids.to(graph.edge_ids.dtype),
        edge_attrs_csc={name: rows[positions] for name, rows in graph.edge_attrs_csc.items()},
        edge_types=types,
        edge_times=None if graph.edge_times is None else graph.edge_times[positions],
    )
