"""Send numbers of destinations to the sources of their in-edges: what scores of nodes are made of."""

from __future__ import annotations

import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_num_threads, as_numpy, graph_arrays
from headrace.ops.errors import InputError

_DOUBLE = ("float64",)


def sum_to_sources(indptr: Array, indices: Array, values: Array, *, num_threads: int | None = None) -> torch.Tensor:
    """Sum, for each node, the values of the nodes that receive its messages.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    values : torch.Tensor or numpy.ndarray
        float64[num_nodes].
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it.

    Returns
    -------
    torch.Tensor
        float64[num_nodes]: entry u is the sum of ``values[v]`` over the edges u -> v, parallel ones included, added in
        the order of the edges. No other memory grows with the graph.

    Raises
    ------
    InputError
        If values are not one per node.
        If the graph's arrays are malformed.
    """
    stage = "sum_to_sources"
    starts, sources = graph_arrays(indptr, indices, stage)
    given = as_numpy(values, "values", stage=stage, dtypes=_DOUBLE)
    return torch.from_numpy(_native.sum_to_sources(starts, sources, given, as_num_threads(num_threads, stage=stage)))


def reach_sources(
    indptr: Array,
    indices: Array,
    frontier: Array,
    row_picks: Array,
    *,
    edge_picks: Array | None = None,
    together: bool = False,
    num_threads: int | None = None,
) -> torch.Tensor:
    """Return the probability that one hop of sampling finds each node.

    It assumes that nodes are in the frontier independently of each other, and pick their in-edges independently.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    frontier : torch.Tensor or numpy.ndarray
        float64[num_nodes], in [0, 1]: the probability of each node to be in the frontier.
    row_picks : torch.Tensor or numpy.ndarray
        float64[num_nodes], in [0, 1]: the probability that a node of the frontier picks an in-edge, the same for all
        its in-edges.
    edge_picks : torch.Tensor or numpy.ndarray, optional
        float32[num_edges], the same by edge, if in-edges of one node differ; `row_picks` is not read then.
    together : bool
        Whether all nodes of the frontier share one variate for each source, and pick the source if the variate is below
        their probability, as LABOR does. Not with `edge_picks`.
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it.

    Returns
    -------
    torch.Tensor
        float64[num_nodes]: entry u is 1 minus the product of ``1 - frontier[v] * pick`` over the edges u -> v; with
        `together`, the expected maximum of ``row_picks[v]`` over the destinations v in the frontier. `together` takes
        32 bytes per node besides the result; otherwise no other memory grows with the graph.

    Raises
    ------
    InputError
        If arrays have wrong lengths or values outside [0, 1], or `together` is used with `edge_picks`.
        If the graph's arrays are malformed.
    """
    stage = "reach_sources"
    starts, sources = graph_arrays(indptr, indices, stage)
    if together and edge_picks is not None:
        message = f"{stage}: nodes that pick together pick by row_picks, got edge_picks too; pass one of them"
        raise InputError(message)
    there = as_numpy(frontier, "frontier", stage=stage, dtypes=_DOUBLE)
    by_row = as_numpy(row_picks, "row_picks", stage=stage, dtypes=_DOUBLE)
    by_edge = None if edge_picks is None else as_numpy(edge_picks, "edge_picks", stage=stage, dtypes=("float32",))
    for name, chances in (("frontier", there), ("row_picks", by_row), ("edge_picks", by_edge)):
        if chances is not None and chances.size and not (chances.min() >= 0 and chances.max() <= 1):
            message = f"{stage}: expected {name} to be probabilities in [0, 1], got {chances.min()} to {chances.max()}"
            raise InputError(message)
    order = None
    if together:
        order = torch.argsort(torch.from_numpy(by_row.copy()), descending=True, stable=True).numpy()
    threads = as_num_threads(num_threads, stage=stage)
    return torch.from_numpy(_native.reach_sources(starts, sources, there, by_row, by_edge, order, threads))
