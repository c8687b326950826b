"""Edge list to compressed sparse columns: the layout every sampler reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_count, as_num_threads, as_numpy, graph_arrays
from headrace.ops.errors import InputError
from headrace.ops.memory_limit import check_fits_memory


@dataclass(frozen=True)
class Csc:
    """A graph by destination: column v lists the in-neighbours of v.

    Attributes
    ----------
    indptr : torch.Tensor
        int64[num_nodes + 1], the in-neighbours of v are ``indices[indptr[v]:indptr[v + 1]]``.
    indices : torch.Tensor
        int32[num_edges] when every node id is below 2**31, else int64[num_edges].
    edge_ids : torch.Tensor or None
        int32[num_edges] or int64[num_edges], the position of each edge in the input; None if the input was already in
        this order.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    edge_ids: torch.Tensor | None


def coo_to_csc(src: Array, dst: Array, num_nodes: int, *, num_threads: int | None = None) -> Csc:
    """Sort edges by destination with a stable parallel counting sort.

    Edges of one destination keep their input order. Peak memory is below 1.2 times that of the result.

    Parameters
    ----------
    src, dst : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges], the edge src[i] -> dst[i] carries a message to dst[i]. Strided arrays are
        read in place; when the two dtypes differ, the narrower one is copied.
    num_nodes : int
        Ids are in [0, num_nodes).
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it.

    Raises
    ------
    InputError
        For ids out of range, arrays of different lengths, wrong dtypes or devices, more nodes than fit in memory.
    """
    stage = "coo_to_csc"
    num_nodes = as_count(num_nodes, "num_nodes", stage=stage)
    sources = as_numpy(src, "src", stage=stage, dtypes=ID_DTYPES, contiguous=False)
    destinations = as_numpy(dst, "dst", stage=stage, dtypes=ID_DTYPES, contiguous=False)
    if sources.shape != destinations.shape:
        message = (
            f"{stage}: expected src and dst to have one entry per edge, got {sources.size} and {destinations.size}"
        )
        raise InputError(message)
    check_fits_memory(
        8 * (num_nodes + 1),
        f"{stage}: got num_nodes = {num_nodes:,}",
        "is it, or the largest id, a slip?",
    )
    common = np.promote_types(sources.dtype, destinations.dtype)
    sources, destinations = sources.astype(common, copy=False), destinations.astype(common, copy=False)
    indptr, indices, edge_ids = _native.coo_to_csc(
        sources, destinations, num_nodes, as_num_threads(num_threads, stage=stage)
    )
    return Csc(
        torch.from_numpy(indptr),
        torch.from_numpy(indices),
        None if edge_ids is None else torch.from_numpy(edge_ids),
    )


def check_csc(
    indptr: Array, indices: Array, num_nodes: int, *, num_rows: int | None = None, num_threads: int | None = None
) -> None:
    """Check a graph that was not built by coo_to_csc.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_rows + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    num_nodes : int
        Ids are in [0, num_nodes).
    num_rows : int, optional
        Rows of a part of a graph; by default those of all nodes.
    num_threads : int, optional
        Default: the cores this process may use.

    Raises
    ------
    InputError
        For wrong dtypes, lengths or devices, wrong ends of indptr, a decreasing indptr, ids out of range.
    """
    stage = "check_csc"
    num_nodes = as_count(num_nodes, "num_nodes", stage=stage)
    starts = as_numpy(indptr, "indptr", stage=stage)
    sources = as_numpy(indices, "indices", stage=stage, dtypes=ID_DTYPES)
    name, rows = ("num_nodes", num_nodes) if num_rows is None else ("num_rows", num_rows)
    if starts.size != rows + 1:
        message = f"{stage}: expected indptr to have {name} + 1 = {rows + 1} entries, got {starts.size}"
        raise InputError(message)
    _native.check_csc(starts, sources, num_nodes, as_num_threads(num_threads, stage=stage))


def has_parallel_edges(indptr: Array, indices: Array, *, num_threads: int | None = None) -> bool:
    """Return whether any node has several in-edges from one source.

    LABOR gives parallel edges separate variates and so must number them; without any it skips that. Sorted rows are
    read once, others through a hash table, up to the first parallel edge.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    num_threads : int, optional
        Default: the cores this process may use.

    Raises
    ------
    InputError
        If the graph's arrays are malformed.
    """
    stage = "has_parallel_edges"
    starts, sources = graph_arrays(indptr, indices, stage)
    return _native.has_parallel_edges(starts, sources, as_num_threads(num_threads, stage=stage))


def order_of_rows(indptr: torch.Tensor, keys: torch.Tensor, *, num_threads: int | None = None) -> torch.Tensor | None:
    """Return the order that sorts each row of a graph by keys of its edges; edges of equal keys stay in theirs.

    Parameters
    ----------
    indptr : torch.Tensor
        int64[num_nodes + 1].
    keys : torch.Tensor
        int64[num_edges], in CSC order.
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it.

    Returns
    -------
    torch.Tensor or None
        int64[num_edges], the CSC position of each edge in the order; None where rows are sorted already.

    Raises
    ------
    InputError
        For arrays of other dtypes or lengths, or an indptr that does not bound rows.
    """
    stage = "order_of_rows"
    starts = as_numpy(indptr, "indptr", stage=stage)
    values = as_numpy(keys, "keys", stage=stage)
    order = _native.order_of_rows(starts, values, as_num_threads(num_threads, stage=stage))
    return None if order is None else torch.from_numpy(order)
