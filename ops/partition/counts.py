"""What a partition costs: edges and copies of nodes of each part, edges between parts."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_count, as_numpy, graph_arrays

#: Beyond this many parts the edges between them are not counted: the matrix would be larger than it is useful.
MOST_PARTS_OF_MATRIX = 1 << 10


@dataclass(frozen=True)
class PartCounts:
    """Counts of a partition over one graph.

    Attributes
    ----------
    edges : torch.Tensor
        int64[num_parts], edges of each part.
    copies : torch.Tensor
        int64[num_parts], nodes that each part owns, or that begin or end one of its edges.
    between : torch.Tensor or None
        int64[num_parts, num_parts], edges by the owner of their source and of their destination; None beyond 1,024
        parts.
    cut : int
        Edges between nodes of different owners.
    """

    edges: torch.Tensor
    copies: torch.Tensor
    between: torch.Tensor | None
    cut: int


def count_parts(
    indptr: Array, indices: Array, owners: Array, num_parts: int, num_columns: int | None = None
) -> PartCounts:
    """Count what the parts of a graph hold.

    Parts form a grid, part p in row ``p // num_columns`` and column ``p % num_columns``, and edge u -> v is in the row
    of u's owner and the column of v's. A partition of nodes, of which every owner holds the in-edges of what it
    owns, is the grid of one row.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    owners : torch.Tensor or numpy.ndarray
        int32[num_nodes], in [0, num_parts).
    num_parts : int
        From 1 to 65,536.
    num_columns : int, optional
        A divisor of num_parts; by default num_parts, one row.

    Raises
    ------
    InputError
        If owners are no parts, or the columns do not divide the parts.
        If the graph's arrays are malformed.
    """
    stage = "count_parts"
    starts, sources = graph_arrays(indptr, indices, stage)
    parts = as_count(num_parts, "num_parts", stage=stage)
    edges, copies, between, cut = _native.count_parts(
        starts,
        sources,
        as_numpy(owners, "owners", stage=stage, dtypes=("int32",)),
        parts,
        parts if num_columns is None else as_count(num_columns, "num_columns", stage=stage),
        parts <= MOST_PARTS_OF_MATRIX,
    )
    matrix = None if between is None else torch.from_numpy(between).reshape(parts, parts)
    return PartCounts(torch.from_numpy(edges), torch.from_numpy(copies), matrix, cut)
