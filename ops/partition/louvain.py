"""Owners of nodes by communities that the Louvain method (arXiv 0803.0476) finds, through igraph."""

from __future__ import annotations

import heapq
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headrace.ops._arrays import Array, as_count
from headrace.ops.graphs.undirected import Undirected, undirected
from headrace.ops.optional import require
from headrace.ops.partition.stream import part_capacity

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How much larger than the mean a part may become, as METIS has it.
SLACK = 0.03


def louvain_owners(indptr: Array, indices: Array, num_parts: int | None, *, seed: int = 0) -> torch.Tensor:
    """Pack communities of the undirected graph into parts of equal size, or return them as they are.

    The largest community goes first, each into the part that has the fewest nodes. One that does not fit, because it
    is larger than a fair share or because the rest of the part is filled, is split, along the communities that the
    method found on its earlier levels where it can.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    num_parts : int or None
        At least 1; None for a part for each community.
    seed : int
        Of the order in which the method visits nodes.

    Returns
    -------
    torch.Tensor
        int32[num_nodes]; of packed parts none has more than 1.03 times the mean number of nodes, rounded up.

    Raises
    ------
    ModuleNotFoundError
        If igraph is not installed.
    InputError
        If the graph's arrays are malformed.
    """
    igraph = require("igraph", extra="louvain", stage="Partition.louvain")
    parts = None if num_parts is None else as_count(num_parts, "num_parts", stage="louvain_owners")
    graph = undirected(indptr, indices)
    levels = _communities(igraph, graph, seed) if graph.neighbors.size else []
    num_nodes = graph.starts.size - 1
    if parts is None:
        coarsest = levels[-1] if levels else np.arange(num_nodes)
        return torch.from_numpy(coarsest.astype(np.int32))
    return torch.from_numpy(pack(levels, num_nodes, parts, part_capacity(num_nodes, parts, SLACK)))


def _communities(igraph: Any, graph: Undirected, seed: int) -> list[NDArray[np.int64]]:
    """Return the community of each node on every level, int64[num_nodes], the finest first."""
    rows = graph.rows
    once = rows < graph.neighbors
    edges = np.stack([rows[once], graph.neighbors[once]], axis=1).astype(np.int64)
    network = igraph.Graph(n=graph.starts.size - 1, edges=edges)
    # igraph draws from a generator of the whole process, which is Python's unless another is given.
    igraph.set_random_number_generator(random.Random(seed))  # noqa: S311 - the order of visits, not a secret
    try:
        levels = network.community_multilevel(weights=graph.weights[once].tolist(), return_levels=True)
    finally:
        igraph.set_random_number_generator(random)
    return [np.asarray(level.membership, np.int64) for level in levels]


def pack(levels: list[NDArray[np.int64]], num_nodes: int, num_parts: int, capacity: int) -> NDArray[np.int32]:
    """Pack nested communities, largest first, each into the part with the fewest nodes.

    Parameters
    ----------
    levels : list of numpy.ndarray
        int64[num_nodes] each, the finest first. Without levels every node is on its own.
    num_nodes, num_parts : int
        Sizes.
    capacity : int
        Nodes that a part may hold; num_parts times as many must be at least num_nodes. What does not fit is split.

    Returns
    -------
    numpy.ndarray
        int32[num_nodes].
    """
    # Communities within communities are contiguous in this order, so that cutting it cuts few of them.
    every = levels or [np.arange(num_nodes)]
    order = np.lexsort(every)
    coarsest = every[-1][order]
    starts = np.flatnonzero(np.diff(coarsest, prepend=-1))
    stops = np.append(starts[1:], num_nodes)
    # Heaps of (-size, start) and of (size, part): ties go to what comes first.
    pieces = [(int(start - stop), int(start)) for start, stop in zip(starts, stops, strict=True)]
    parts = [(0, part) for part in range(num_parts)]
    heapq.heapify(pieces)
    owners = np.empty(num_nodes, np.int32)
    while pieces:
        negative, start = heapq.heappop(pieces)
        size, part = heapq.heappop(parts)
        taken = min(-negative, capacity - size)
        owners[order[start : start + taken]] = part
        heapq.heappush(parts, (size + taken, part))
        if taken < -negative:
            heapq.heappush(pieces, (negative + taken, start + taken))
    return owners
