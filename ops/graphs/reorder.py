"""Renumber the nodes of a graph, such as part by part, so that nodes that belong together lie side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headrace.ops._arrays import ID_DTYPES, Array, as_num_threads, as_numpy, graph_arrays
from headrace.ops.errors import InputError
from headrace.ops.features.gather import gather_rows
from headrace.ops.graphs.csc import Csc, check_csc
from headrace.ops.graphs.rows import edge_positions, row_starts

if TYPE_CHECKING:
    from numpy.typing import NDArray


def reorder_csc(indptr: Array, indices: Array, order: Array, *, num_threads: int | None = None) -> Csc:
    """Renumber the nodes: node ``order[i]`` becomes node i.

    In-edges of a node keep their order. Besides the result it takes 8 bytes per node and a buffer of edges; the graph
    may be a memory map.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    order : torch.Tensor or numpy.ndarray
        int32[num_nodes] or int64[num_nodes], every node once.
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it.

    Returns
    -------
    Csc
        The new graph; its ``edge_ids`` are the positions of edges in the given `indices`, None if edges keep their
        positions.

    Raises
    ------
    InputError
        If the graph's arrays are malformed, or the order lacks a node.
    """
    stage = "reorder_csc"
    num_threads = as_num_threads(num_threads, stage=stage)
    starts, sources = graph_arrays(indptr, indices, stage)
    num_nodes, num_edges = starts.size - 1, sources.size
    check_csc(starts, sources, num_nodes, num_threads=num_threads)
    rows = as_numpy(order, "order", stage=stage, dtypes=ID_DTYPES)
    places = _places(rows, num_nodes, stage)

    new_starts = row_starts(starts, rows)
    stays = bool(((gather_rows(starts, rows) == new_starts[:-1]) | (new_starts.diff() == 0)).all())
    new_sources = torch.empty(num_edges, dtype=places.dtype, device="cpu")
    edge_ids = None if stays else torch.empty(num_edges, dtype=_narrowest(num_edges), device="cpu")
    for piece, positions in edge_positions(starts, rows, new_starts):
        olds = gather_rows(sources, positions, num_threads=num_threads)
        gather_rows(places, olds, out=new_sources[piece], num_threads=num_threads)
        if edge_ids is not None:
            edge_ids[piece] = positions
    return Csc(new_starts, new_sources, edge_ids)


def _places(order: NDArray[Any], num_nodes: int, stage: str) -> torch.Tensor:
    """Return where each node is in an order that holds all of them, in the narrowest dtype."""
    low, high = (int(order.min()), int(order.max())) if order.size else (0, -1)
    places = torch.full((num_nodes,), -1, dtype=_narrowest(num_nodes), device="cpu")
    if order.size == num_nodes and low >= 0 and high < num_nodes:
        places.numpy()[order] = np.arange(num_nodes)
    if order.size != num_nodes or bool((places < 0).any()):
        message = (
            f"{stage}: expected order to hold each of {num_nodes} nodes once, got {order.size} ids from {low} to {high}"
            f"{', some of them repeated' if order.size == num_nodes and low >= 0 and high < num_nodes else ''}"
        )
        raise InputError(message)
    return places


def _narrowest(count: int) -> torch.dtype:
    return torch.int32 if count <= torch.iinfo(torch.int32).max else torch.int64
