"""Negative destinations for pairs of nodes."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_key, as_num_threads, as_numpy, graph_arrays, is_int
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_of
from headrace.ops.graphs.ranked_rows import RankedRows, row_arrays
from headrace.ops.sampling import negatives_on_gpu


def draw_negatives(
    indptr: Array | RankedRows,
    indices: Array,
    counts: Array,
    *,
    key: int,
    nodes: tuple[int, int] | None = None,
    weight: Literal["degree"] | Array | None = None,
    reject: Array | None = None,
    order: Array | None = None,
    prefix: Array | None = None,
    first_pair: int = 0,
    total: int | None = None,
    num_threads: int = 1,
) -> torch.Tensor:
    """Draw nodes as negative destinations of pairs, independently and with replacement, on the device of the counts.

    Pair ``i`` draws from the random stream of ``first_pair + i``, one number after the other. A bounded integer selects
    a node, or an in-edge and so its destination (``"degree"``). By weight, draw ``j`` takes the real variate ``j`` and
    selects the first node whose running sum exceeds it times the total.

    Parameters
    ----------
    indptr : torch.Tensor, numpy.ndarray or RankedRows
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    counts : torch.Tensor or numpy.ndarray
        int64[num_pairs], the number of negatives of each pair.
    key : int
        Stream key.
    nodes : (int, int), optional
        Draw from the nodes first, ..., last - 1; by default from all.
    weight : "degree", torch.Tensor or numpy.ndarray, optional
        The weights of nodes: their in-degrees, or running sums float64[last - first] of weights of at least 0. By
        default all are equally likely.
    reject : torch.Tensor or numpy.ndarray, optional
        int64[num_pairs], sources: no node with an edge from its pair's source is drawn, and all others keep their
        proportions. Such a node is replaced by another draw, up to 64 times; then all nodes without such an edge are
        listed, by a pass over all edges, and one of them is drawn.
    order : torch.Tensor or numpy.ndarray, optional
        int64[last - first], the nodes in another order, which running sums follow. Without weights it may have any
        length: a node is drawn in proportion to its occurrences, such as the ends of edges by degree. Not with
        ``weight="degree"``.
    prefix : torch.Tensor or numpy.ndarray, optional
        int64[num_pairs]: pair ``i`` draws only from the first ``prefix[i]`` nodes of the order, such as the nodes that
        exist at its time. Not by degree.
    first_pair : int
        The position of the first of these pairs among all that share the key.
    total : int, optional
        The sum of counts, if it is known: the host then waits for a GPU once, otherwise twice.
    num_threads : int
        The result does not depend on it.

    Returns
    -------
    torch.Tensor
        int64[sum of counts], pair by pair.

    Raises
    ------
    InputError
        If the graph's arrays are malformed.
        For a range without nodes, counts below 0 or of another sum than `total`, weights that sum to 0, a draw by
        degree without in-edges, and a pair without a possible negative.
        If sources are not nodes, or their number is not that of pairs.
    """
    stage = "draw_negatives"
    device = device_of(counts)
    num_nodes = indptr.num_ids if isinstance(indptr, RankedRows) else len(indptr) - 1
    first, last = (0, num_nodes) if nodes is None else nodes
    if not (is_int(first) and is_int(last) and 0 <= first < last <= num_nodes):
        message = (
            f"{stage}: expected nodes to draw from, 0 <= first < last <= num_nodes = {num_nodes}, got {first!r} to "
            f"{last!r}"
        )
        raise InputError(message)
    if not is_int(first_pair) or not 0 <= first_pair < 1 << 62:
        message = f"{stage}: expected first_pair to be an int of at least 0, got {first_pair!r}"
        raise InputError(message)
    if isinstance(weight, str) and weight != "degree":
        message = f'{stage}: expected weight to be "degree" or running sums of weights, got {weight!r}'
        raise InputError(message)
    if device is not None:
        return negatives_on_gpu.draw_negatives(
            device, indptr, indices, counts, (int(first), int(last)), weight, reject, order, prefix,
            int(first_pair), as_key(key, stage=stage), total, stage,
        )  # fmt: skip
    starts, sources = row_arrays(indptr, indices, stage)
    laws = _native.NegativeLaw
    sums = None
    if weight is None:
        law = laws.UNIFORM
    elif isinstance(weight, str):
        law = laws.IN_DEGREE
    else:
        law, sums = laws.WEIGHT, as_numpy(weight, "weight", stage=stage, dtypes=("float64",))
    drawn = _native.draw_negatives(
        starts,
        sources,
        int(first),
        int(last),
        law,
        sums,
        as_numpy(counts, "counts", stage=stage),
        None if reject is None else as_numpy(reject, "reject", stage=stage),
        None if order is None else as_numpy(order, "order", stage=stage),
        None if prefix is None else as_numpy(prefix, "prefix", stage=stage),
        int(first_pair),
        as_key(key, stage=stage),
        as_num_threads(num_threads, stage=stage),
    )
    if total is not None and drawn.size != total:
        message = f"{stage}: expected counts of a sum of {total}, got {drawn.size}"
        raise InputError(message)
    return torch.from_numpy(drawn)


def count_below(numbers: Array, bounds: Array, *, strictly: bool = False) -> torch.Tensor:
    """Return how many of ascending numbers are no larger than each bound, on the device of the bounds.

    Parameters
    ----------
    numbers : torch.Tensor or numpy.ndarray
        int64[num_numbers], ascending, which is not checked.
    bounds : torch.Tensor or numpy.ndarray
        int64[num_bounds].
    strictly : bool
        Whether to count only numbers that are smaller.

    Returns
    -------
    torch.Tensor
        int64[num_bounds].

    Raises
    ------
    InputError
        For other dtypes or shapes.
    """
    stage = "count_below"
    device = device_of(bounds)
    if device is not None:
        return negatives_on_gpu.count_below(device, numbers, bounds, strictly is True, stage)
    ascending, limits = (
        torch.from_numpy(as_numpy(array, name, stage=stage))
        for name, array in (("numbers", numbers), ("bounds", bounds))
    )
    return torch.searchsorted(ascending, limits, right=not strictly)


def joined_with_all(
    indptr: Array, indices: Array, sources: Array, *, nodes: tuple[int, int] | None = None, weights: Array | None = None
) -> int | None:
    """Return the first of some sources that has edges to all nodes of a range; None if each lacks one.

    Parameters
    ----------
    indptr, indices : torch.Tensor or numpy.ndarray
        As for `draw_negatives`.
    sources : torch.Tensor or numpy.ndarray
        int64[num_sources].
    nodes : (int, int), optional
        The nodes first, ..., last - 1; by default all.
    weights : torch.Tensor or numpy.ndarray, optional
        float64[last - first]: nodes of weight 0 do not count.
    """
    stage = "joined_with_all"
    starts, neighbors = graph_arrays(indptr, indices, stage)
    first, last = (0, starts.size - 1) if nodes is None else nodes
    counted = (
        np.ones(last - first, bool)
        if weights is None
        else as_numpy(weights, "weights", stage=stage, dtypes=("float64",)) > 0
    )
    begin, end = int(starts[first]), int(starts[last])
    asked = np.unique(as_numpy(sources, "sources", stage=stage))
    # Few nodes have as many out-edges as there are nodes: these alone are looked at edge by edge.
    degrees = np.bincount(neighbors[begin:end], minlength=starts.size - 1)
    for source in asked[degrees[asked] >= counted.sum()]:
        positions = begin + np.flatnonzero(neighbors[begin:end] == source)
        joined = np.zeros(last - first, bool)
        joined[np.searchsorted(starts, positions, side="right") - 1 - first] = True
        if joined[counted].all():
            return int(source)
    return None


def joined_with_all_before(
    indptr: Array,
    indices: Array,
    sources: Array,
    order: Array,
    prefix: Array,
    *,
    nodes: tuple[int, int] | None = None,
    weights: Array | None = None,
) -> int | None:
    """Return the first pair whose source has edges to all nodes of its prefix of an order; None if there is none.

    A source that has edges to the nodes that stand first in the order, up to some place, has no negative in any prefix
    that ends there or before: that place is found once for each source, by one look at all edges.

    Parameters
    ----------
    indptr, indices, order, prefix : torch.Tensor or numpy.ndarray
        As for `draw_negatives`.
    sources : torch.Tensor or numpy.ndarray
        int64[num_pairs].
    nodes : (int, int), optional
        The nodes first, ..., last - 1 of which the order is; by default all.
    weights : torch.Tensor or numpy.ndarray, optional
        float64[last - first], of the nodes in ascending order: those of weight 0 do not count.
    """
    stage = "joined_with_all_before"
    starts, neighbors = graph_arrays(indptr, indices, stage)
    first, last = (0, starts.size - 1) if nodes is None else nodes
    begin, end = int(starts[first]), int(starts[last])
    within = as_numpy(order, "order", stage=stage) - first
    places = np.arange(within.size)
    if weights is not None:
        places = np.flatnonzero(as_numpy(weights, "weights", stage=stage, dtypes=("float64",))[within] > 0)
    # Where each node stands first, and the nodes in the order of these places.
    counted, at = np.unique(within[places], return_index=True)
    places, by_place = np.sort(places[at]), counted[np.argsort(at)]
    ranks = np.full(last - first, -1)
    ranks[by_place] = np.arange(by_place.size)

    asked = as_numpy(sources, "sources", stage=stage)
    ends = as_numpy(prefix, "prefix", stage=stage)
    # Few sources have as many edges as there are nodes in a prefix: these alone are looked at edge by edge.
    degrees = np.bincount(neighbors[begin:end], minlength=starts.size - 1)
    doubtful = np.flatnonzero(degrees[asked] >= np.searchsorted(places, ends))
    if not doubtful.size:
        return None
    known, of_pair = np.unique(asked[doubtful], return_inverse=True)
    numbers = np.full(starts.size - 1, -1)
    numbers[known] = np.arange(known.size)
    positions = begin + np.flatnonzero((numbers >= 0)[neighbors[begin:end]])
    reached = ranks[np.searchsorted(starts, positions, side="right") - 1 - first]
    owners = numbers[neighbors[positions]]
    owners, reached = np.divmod(np.unique((owners * (places.size + 1) + reached)[reached >= 0]), places.size + 1)
    # Ascending ranks 0, 1, ... without a gap: as many nodes as a source is joined to before the first that it is not.
    gapless = reached == np.arange(reached.size) - np.searchsorted(owners, owners)
    leading = np.bincount(owners[gapless], minlength=known.size)
    free = np.append(places, np.iinfo(np.int64).max)[leading]
    impossible = doubtful[free[of_pair] >= ends[doubtful]]
    return int(impossible[0]) if impossible.size else None
