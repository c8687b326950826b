"""Where the edges of pairs of nodes are in a graph, as samplers take edges that they are not to pick."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_num_threads, as_numpy, graph_arrays
from headrace.ops.errors import InputError, ItemsError

if TYPE_CHECKING:
    from headrace.ops._native import Excluded


class EdgePositions(NamedTuple):
    """Edges of a graph, by row.

    Attributes
    ----------
    rows : torch.Tensor
        int64[num_rows], the destinations, ascending; with slots a row is repeated for each.
    starts : torch.Tensor
        int64[num_rows + 1]: the edges of ``rows[i]`` are ``positions[starts[i]:starts[i + 1]]``.
    positions : torch.Tensor
        int64[num_edges], the positions of edges in the graph's CSC arrays, ascending in each row.
    slots : torch.Tensor or None
        int64[num_rows], the tree for which each row is left out, ascending in a row; None for all trees.
    """

    rows: torch.Tensor
    starts: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor | None = None


def find_edges(
    indptr: Array,
    indices: Array,
    sources: Array,
    destinations: Array,
    *,
    slots: Array | None = None,
    num_threads: int = 1,
) -> EdgePositions:
    """Find all edges between pairs of nodes, parallel ones included.

    Rows of the destinations are read completely, because they are not sorted by source.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_graph_edges] or int64[num_graph_edges].
    sources, destinations : torch.Tensor or numpy.ndarray
        int64[num_pairs]. Pairs may have no edge, and may repeat.
    slots : torch.Tensor or numpy.ndarray, optional
        int64[num_pairs], the tree of each pair: edges are returned for each tree with such a pair.
    num_threads : int
        The result does not depend on it.

    Raises
    ------
    GraphError
        If the graph's arrays are malformed.
    ItemsError
        For ids that are not nodes, and for different numbers of sources, destinations and slots.
    """
    stage = "find_edges"
    starts, neighbors = graph_arrays(indptr, indices, stage)
    found = _native.find_edges(
        starts,
        neighbors,
        as_numpy(sources, "sources", stage=stage, error=ItemsError),
        as_numpy(destinations, "destinations", stage=stage, error=ItemsError),
        as_num_threads(num_threads, stage=stage),
        None if slots is None else as_numpy(slots, "slots", stage=stage, error=ItemsError),
    )
    rows, first, positions, of_trees = found
    return EdgePositions(
        torch.from_numpy(rows),
        torch.from_numpy(first),
        torch.from_numpy(positions),
        None if of_trees is None else torch.from_numpy(of_trees),
    )


def by_tree(excluded: EdgePositions | None) -> bool:
    """Whether edges are left out of some trees and stay in others, which CPUs alone do."""
    return isinstance(excluded, EdgePositions) and excluded.slots is not None


def native_excluded(excluded: EdgePositions | None, stage: str) -> Excluded | None:
    """Return edges as the kernels of the CPU take those that they are not to pick."""
    if excluded is None:
        return None
    if not isinstance(excluded, EdgePositions):
        message = (
            f"{stage}: expected excluded to be what find_edges returned for this graph, got {type(excluded).__name__}"
        )
        raise InputError(message)
    return (
        as_numpy(excluded.rows, "excluded.rows", stage=stage),
        as_numpy(excluded.starts, "excluded.starts", stage=stage),
        as_numpy(excluded.positions, "excluded.positions", stage=stage),
        None if excluded.slots is None else as_numpy(excluded.slots, "excluded.slots", stage=stage),
    )
