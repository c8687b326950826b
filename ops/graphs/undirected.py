"""The undirected graph behind a directed one, as partitioners of other libraries take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.ops import _native
from headrace.ops._arrays import Array, as_num_threads, graph_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Undirected:
    """Neighbours of each node, every edge from both of its ends.

    Attributes
    ----------
    starts : numpy.ndarray
        int64[num_nodes + 1].
    neighbors : numpy.ndarray
        int32 or int64[num_entries], ascending within a row, without repeats and self-loops.
    weights : numpy.ndarray
        int64[num_entries], how many directed edges there are between the two, in both directions together.
    """

    starts: NDArray[np.int64]
    neighbors: NDArray[Any]
    weights: NDArray[np.int64]

    @property
    def rows(self) -> NDArray[Any]:
        """The node of each entry, int[num_entries]."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=self.neighbors.dtype), np.diff(self.starts))


def undirected(indptr: Array, indices: Array, *, num_threads: int | None = None) -> Undirected:
    """Return the graph with every edge in both directions, parallel edges merged into one of their number.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it.

    Raises
    ------
    InputError
        If the graph's arrays are malformed.
    """
    stage = "undirected"
    starts, sources = graph_arrays(indptr, indices, stage)
    threads = as_num_threads(num_threads, stage=stage)
    _native.check_csc(starts, sources, starts.size - 1, threads)
    num_nodes = starts.size - 1
    destinations = np.repeat(np.arange(num_nodes, dtype=sources.dtype), np.diff(starts))
    kept = sources != destinations
    one, other = sources[kept], destinations[kept]
    # Two stable sorts, by one end and then by the other: entries come out ordered within their rows.
    first, second = np.concatenate([one, other]), np.concatenate([other, one])
    by_second, first, _ = _native.coo_to_csc(first, second, num_nodes, threads)
    second = np.repeat(np.arange(num_nodes, dtype=first.dtype), np.diff(by_second))
    rows, neighbors, _ = _native.coo_to_csc(second, first, num_nodes, threads)
    node = np.repeat(np.arange(num_nodes, dtype=neighbors.dtype), np.diff(rows))
    fresh = np.ones(neighbors.size, np.bool_)
    fresh[1:] = (neighbors[1:] != neighbors[:-1]) | (node[1:] != node[:-1])
    places = np.flatnonzero(fresh)
    merged = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(node[places], minlength=num_nodes), out=merged[1:])
    return Undirected(merged, neighbors[places], np.diff(places, append=neighbors.size).astype(np.int64))
