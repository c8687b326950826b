"""Where the edges of pairs of nodes are in a graph, as samplers take edges that they are not to pick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_num_threads, as_numpy
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_of
from headrace.ops.graphs.ranked_rows import RankedRows, row_arrays
from headrace.ops.sampling import find_edges_on_gpu
from headrace.ops.sampling.edge_positions import EdgePositions
from headrace.ops.sampling.typed_rows import TypedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


def find_edges(
    indptr: Array | RankedRows,
    indices: Array,
    sources: Array,
    destinations: Array,
    *,
    slots: Array | None = None,
    rows: TypedRows | None = None,
    relations: Array | None = None,
    wanted: Array | None = None,
    edge_ids: Array | None = None,
    num_threads: int = 1,
) -> EdgePositions:
    """Find all edges between pairs of nodes, parallel ones included, on the device of the pairs.

    Rows of the destinations are read completely, because they are not sorted by source. On a GPU the host waits once,
    for the number of edges.

    Parameters
    ----------
    indptr : torch.Tensor, numpy.ndarray or RankedRows
        int64[num_nodes + 1]; with `rows` that of the rows. Of a part of a graph the rows of its own nodes.
    indices : torch.Tensor or numpy.ndarray
        int32[num_graph_edges] or int64[num_graph_edges].
    sources, destinations : torch.Tensor or numpy.ndarray
        int64[num_pairs]. Pairs may have no edge, and may repeat.
    slots : torch.Tensor or numpy.ndarray, optional
        int64[num_pairs], the tree of each pair: edges are returned for each tree with such a pair.
    rows : TypedRows, optional
        The rows of a graph with types.
    relations : torch.Tensor or numpy.ndarray, optional
        int64[num_pairs], with `rows`: of which relation the edges of each pair are. A pair has none if its relation
        does not end in its destination.
    wanted : torch.Tensor or numpy.ndarray, optional
        int64[num_pairs], the id of the one edge that is meant of each pair; -1 for none. By default all are.
    edge_ids : torch.Tensor or numpy.ndarray, optional
        int32[num_graph_edges] or int64[num_graph_edges], with `wanted`: the id of each edge, by default its position.
    num_threads : int
        The result does not depend on it.

    Raises
    ------
    InputError
        If the graph's arrays are malformed.
        For `relations` without `rows`, or `rows` without `relations`, and for `edge_ids` without `wanted`.
        For ids that are not nodes, and for different numbers of sources, destinations, slots, relations and wanted ids.
    """
    stage = "find_edges"
    if (rows is None) != (relations is None) or (edge_ids is not None and wanted is None):
        message = f"{stage}: expected relations beside rows, and wanted beside edge_ids; pass both, or neither"
        raise InputError(message)
    device = device_of(sources)
    if device is not None:
        of_pairs = {"slots": slots, "relations": relations, "wanted": wanted}
        return find_edges_on_gpu.find_edges(
            device, indptr, indices, edge_ids, sources, destinations, of_pairs, rows, stage
        )
    starts, neighbors = row_arrays(indptr, indices, stage)
    src, dst = (
        as_numpy(array, name, stage=stage) for name, array in (("sources", sources), ("destinations", destinations))
    )
    trees, kinds, ids = (
        None if array is None else _of_pairs(array, name, src.size, stage)
        for name, array in (("slots", slots), ("relations", relations), ("wanted", wanted))
    )
    if rows is not None and kinds is not None:
        there, dst = (one.numpy() for one in rows.rows_of(torch.from_numpy(dst), torch.from_numpy(kinds)))
        src = src[there]
        trees, ids = (None if array is None else array[there] for array in (trees, ids))
    found = _native.find_edges(starts, neighbors, src, dst, as_num_threads(num_threads, stage=stage), trees)
    if ids is not None:
        of_edges = None
        if edge_ids is not None:
            of_edges = as_numpy(edge_ids, "edge_ids", stage=stage, dtypes=ID_DTYPES)
            if of_edges.size != neighbors.size:
                message = (
                    f"{stage}: expected edge_ids to have one entry per edge ({neighbors.size}), got {of_edges.size}"
                )
                raise InputError(message)
        found = _wanted_alone(found, neighbors, of_edges, src, dst, trees, ids)
    first, begins, positions = map(torch.from_numpy, found[:3])
    return EdgePositions(first, begins, positions, None if found[3] is None else torch.from_numpy(found[3]))


def _of_pairs(array: Array, name: str, size: int, stage: str) -> Ints:
    """Return what pairs have besides their ends, an entry for each."""
    values = as_numpy(array, name, stage=stage)
    if values.size != size:
        message = f"{stage}: expected {name} to have one entry per source ({size}), got {values.size}"
        raise InputError(message)
    return values


def _wanted_alone(
    found: tuple[Ints, Ints, Ints, Ints | None],
    neighbors: NDArray[np.int32] | NDArray[np.int64],
    edge_ids: NDArray[np.int32] | NDArray[np.int64] | None,
    sources: Ints,
    rows: Ints,
    slots: Ints | None,
    wanted: Ints,
) -> tuple[Ints, Ints, Ints, Ints | None]:
    """Return of edges that were found between pairs those that are meant: of pair i the one whose id is wanted[i]."""
    of_entries, starts, positions, entry_slots = found
    entry = np.repeat(np.arange(of_entries.size), np.diff(starts))
    ids = positions if edge_ids is None else edge_ids[positions]
    known, number_of_pair = np.unique(wanted, return_inverse=True)
    number = np.searchsorted(known, ids)
    number[number == known.size] = 0
    is_known = known[number] == ids if known.size else np.zeros(ids.size, bool)
    # An edge is meant by pairs with its own ends alone.
    row, source = np.full(known.size, -1), np.full(known.size, -1)
    row[number[is_known]] = of_entries[entry[is_known]]
    source[number[is_known]] = neighbors[positions[is_known]]
    fits = (row[number_of_pair] == rows) & (source[number_of_pair] == sources)
    if slots is None or entry_slots is None:
        meant, asked = number, number_of_pair[fits]
    else:
        trees, tree_of_pair = np.unique(slots, return_inverse=True)
        meant = np.searchsorted(trees, entry_slots[entry]) * known.size + number
        asked = (tree_of_pair * known.size + number_of_pair)[fits]
    kept = is_known & np.isin(meant, asked)
    left = np.bincount(entry[kept], minlength=of_entries.size)
    full = left > 0
    begins = np.append(0, left[full].cumsum())
    return of_entries[full], begins, positions[kept], None if entry_slots is None else entry_slots[full]
