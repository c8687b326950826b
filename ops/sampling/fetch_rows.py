"""Rows of a graph that does not fit in a GPU: fetched, then sampled from, so that each comes over the bus once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from headrace.ops._arrays import Array, as_numpy, graph_arrays
from headrace.ops.cache.line_cache import LineCache, LineCounts
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_of, on_device
from headrace.ops.graphs.ranked_rows import RankedRows, bounds_of
from headrace.ops.random.dependency import BlendedKey
from headrace.ops.sampling import on_gpu
from headrace.ops.sampling.rules import Rule
from headrace.ops.sampling.sample import Hop, sample_hop


class FetchedRows(NamedTuple):
    """In-edges of a frontier, row by row.

    Attributes
    ----------
    indptr : torch.Tensor
        int64[num_dst + 1], the bounds of rows in `indices`.
    indices : torch.Tensor
        [num_edges] of the graph's index dtype, global ids of the sources.
    starts : torch.Tensor
        int64[num_dst], the position of each row's first edge in the graph's CSC arrays.
    counts : LineCounts or None
        The hits and misses of the cache; None without a cache.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    starts: torch.Tensor
    counts: LineCounts | None = None


def fetch_rows(
    indptr: Array | RankedRows, indices: Array, frontier: Array, *, cache: LineCache | None = None
) -> FetchedRows:
    """Copy the in-edges of every node of a frontier to the device of the frontier.

    On a GPU neighbouring threads copy lines of 32 sources, from pinned host memory or from a cache in GPU memory. The
    host waits for the size, and for the ends of an `indptr` on the GPU. `sample_fetched` picks from the copy the same
    edges as `sample_hop` from the graph. Rules that read whole rows, LABOR several times, then read each row over the
    bus once, or not at all.

    Parameters
    ----------
    indptr : torch.Tensor, numpy.ndarray or RankedRows
        int64[num_nodes + 1]; of a part of a graph the rows of its own nodes.
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    frontier : torch.Tensor or numpy.ndarray
        int64[num_dst]; a node that occurs twice has its row copied twice.
    cache : LineCache, optional
        Made for these indices and the GPU that the frontier is on.

    Raises
    ------
    InputError
        If the graph's arrays are malformed.
        If the frontier has ids that are not nodes.
        For a cache for another array or device.

    Examples
    --------
    >>> import numpy as np
    >>> from headrace import ops
    >>> indptr, indices = np.array([0, 1, 3, 6]), np.array([2, 0, 2, 0, 1, 2])
    >>> rows = ops.fetch_rows(indptr, indices, np.array([2, 0]))
    >>> rows.indptr.tolist(), rows.indices.tolist(), rows.starts.tolist()
    ([0, 3, 4], [0, 1, 2, 2], [3, 0])
    """
    stage = "fetch_rows"
    device = device_of(frontier)
    if cache is not None:
        cache.check_is_for(indices, device, stage)
    if device is not None:
        return FetchedRows(*on_gpu.fetch_rows(device, indptr, indices, frontier, cache, stage))
    starts, sources = graph_arrays(bounds_of(indptr), indices, stage)
    nodes = as_numpy(frontier, "frontier", stage=stage)
    num_nodes = indptr.num_ids if isinstance(indptr, RankedRows) else starts.size - 1
    foreign = (nodes < 0) | (nodes >= num_nodes)
    if foreign.any():
        item = int(foreign.argmax())
        raise InputError(
            f"{stage}: frontier[{item}] = {nodes[item]} is not a node of the graph: expected 0 <= id < num_nodes = "
            f"{num_nodes}"
        )
    if isinstance(indptr, RankedRows):
        places = indptr.ranks.find(torch.from_numpy(nodes)).numpy()
        begins, ends = (np.where(places < 0, 0, starts[places + more]) for more in (0, 1))
    else:
        begins, ends = starts[nodes], starts[nodes + 1]
    unsound = (begins < 0) | (ends < begins) | (ends > sources.size)
    if unsound.any():
        node = int(nodes[unsound.argmax()])
        raise InputError(
            f"{stage}: indptr[{node}] = {starts[node]} and indptr[{node + 1}] = {starts[node + 1]} do not bound a row: "
            f"expected 0 <= indptr[i] <= indptr[i + 1] <= num_edges = {sources.size}; run check_csc on the graph"
        )
    first = np.zeros(nodes.size + 1, np.int64)
    np.cumsum(ends - begins, out=first[1:])
    positions = np.arange(first[-1]) + np.repeat(begins - first[:-1], ends - begins)
    return FetchedRows(torch.from_numpy(first), torch.from_numpy(sources[positions]), torch.from_numpy(begins))


def sample_fetched(
    rows: FetchedRows,
    rule: Rule,
    key: int | BlendedKey,
    *,
    num_threads: int = 1,
    parallel_edges: bool = True,
    slots: Array | None = None,
) -> Hop:
    """Pick in-edges of a frontier from fetched rows: bit for bit the hop of `sample_hop` for the graph.

    Parameters
    ----------
    rows : FetchedRows
        A result of `fetch_rows`.
    rule : LaborRule or NeighborRule
        A rule that reads whole rows: LABOR-0, or all in-edges (a `NeighborRule` of fanout -1).
    key : int or BlendedKey
        Stream key of the hop.
    num_threads, parallel_edges, slots
        As for `sample_hop`.

    Raises
    ------
    InputError
        For another rule: others draw by the id of the destination, and read few edges of a row.
        If the rows are malformed.
    """
    stage = "sample_fetched"
    if not (isinstance(rule, Rule) and rule.reads_whole_rows):
        raise InputError(
            f"{stage}: expected a rule that looks at whole rows, LaborRule or NeighborRule(-1), got {rule}; call "
            "sample_hop with the graph"
        )
    if not isinstance(rows, FetchedRows):
        raise InputError(f"{stage}: expected FetchedRows, got {type(rows).__name__}; pass what fetch_rows returned")
    device = device_of(rows.indptr)
    indptr, indices, starts = _checked(rows, device, stage)
    # Rows are those of a graph of their own, of which each is asked for once.
    if device is None:
        every = torch.arange(len(starts), device="cpu")
        hop = sample_hop(
            indptr, indices, every, rule, key, num_threads=num_threads, parallel_edges=parallel_edges, slots=slots
        )
    else:
        may_repeat = parallel_edges is not False  # nothing else is a promise
        hop = Hop(*on_gpu.sample_fetched(device, indptr, indices, rule, key, slots, may_repeat, stage))
    shifts = starts - indptr[:-1]
    of_edges = torch.repeat_interleave(shifts, hop.indptr.diff(), output_size=len(hop.positions))
    return hop._replace(positions=hop.positions + of_edges)


def _checked(
    rows: FetchedRows, device: torch.device | None, stage: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return what has been fetched, as tensors where the rows are, or refuse what is not."""
    arrays = []
    for name, dtypes in (("indptr", ("int64",)), ("indices", ("int32", "int64")), ("starts", ("int64",))):
        array, what = getattr(rows, name), f"rows.{name}"
        if device is None:
            arrays.append(torch.from_numpy(as_numpy(array, what, stage=stage, dtypes=dtypes)))
        else:
            kinds = tuple(getattr(torch, one) for one in dtypes)
            arrays.append(on_device(array, what, device, stage=stage, dtypes=kinds))
    indptr, indices, starts = arrays
    if len(indptr) != len(starts) + 1:
        raise InputError(
            f"{stage}: expected rows.starts to have one entry per row ({len(indptr) - 1}), got {len(starts)}; pass "
            "what fetch_rows returned"
        )
    return indptr, indices, starts
