"""The rows of a graph or of a part of one: where the in-edges of a node are, and whose an edge is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headrace.pipeline.data.graph_machinery import rows_of_nodes

if TYPE_CHECKING:
    from headrace.pipeline.data.graph_view import GraphView


def in_edges(graph: GraphView, node: int) -> slice:
    """Return the positions of the in-edges of a node; none of one of another part."""
    rows = rows_of_nodes(graph)
    place = node if isinstance(rows, Tensor) else int(rows.ranks.find(torch.tensor([node], device="cpu")))
    return slice(0, 0) if place < 0 else slice(*graph.indptr[place : place + 2].tolist())


def destinations_of(graph: GraphView, positions: Tensor) -> Tensor:
    """Return the nodes to which edges lead, int64[n], by their positions, int64[n]."""
    rows = torch.searchsorted(graph.indptr, positions, right=True) - 1
    own = graph._own_nodes  # noqa: SLF001 - of this wing
    return rows if own is None else own[rows]
