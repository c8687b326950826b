"""Neighbour sampling: one hop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_num_threads, as_numpy, weight_array
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_of
from headrace.ops.graphs.ranked_rows import RankedRows, row_arrays
from headrace.ops.random.dependency import BlendedKey
from headrace.ops.sampling import on_gpu
from headrace.ops.sampling.edge_positions import EdgePositions, native_excluded
from headrace.ops.sampling.kernel_rules import native_keys, native_rules
from headrace.ops.sampling.layer_reducer import LayerReducer, as_reducer
from headrace.ops.sampling.rules import HopRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headrace.ops.sampling.typed_rows import TypedRows


class Hop(NamedTuple):
    """The edges one hop picked, by destination.

    Attributes
    ----------
    indptr : torch.Tensor
        int64[num_dst + 1].
    neighbors : torch.Tensor
        [num_edges] of the graph's index dtype, global ids of the sources.
    positions : torch.Tensor
        int64[num_edges], the positions of edges in the graph's CSC arrays; empty if they are not edges of the graph
        (PinSAGE).
    weights : torch.Tensor or None
        float32[num_edges], importance weights that average to 1 per destination; None if all would be 1 (no edge
        weights), or if the rule is for a plain mean (`NeighborRule`).
    """

    indptr: torch.Tensor
    neighbors: torch.Tensor
    positions: torch.Tensor
    weights: torch.Tensor | None = None


def sample_hop(
    indptr: Array | RankedRows,
    indices: Array,
    frontier: Array,
    rule: HopRule,
    key: int | BlendedKey,
    *,
    rows: TypedRows | None = None,
    weights: Array | None = None,
    num_threads: int = 1,
    reducer: LayerReducer | None = None,
    parallel_edges: bool = True,
    slots: Array | None = None,
    times: Array | None = None,
    bounds: Array | None = None,
    lows: Array | None = None,
    excluded: EdgePositions | None = None,
) -> Hop:
    """Pick in-edges of every node of a frontier.

    Uniform picks use the random stream of the *destination's* global id: all edges in CSC order if the in-degree does
    not exceed the fan-out, otherwise Robert Floyd's algorithm in the order of its draws. LABOR and layer-wise rules use
    the variates of the *sources*; their picks are in ascending CSC order. Picks by weight are in the order of their
    draws; if too many draws would be needed, the rest follows in CSC order.

    In a graph with types each relation is picked from by its own rule, and a destination's picks follow relation by
    relation. Uniform draws are then keyed by the number of the row, LABOR's by the global id of the source.

    Parameters
    ----------
    indptr : torch.Tensor, numpy.ndarray or RankedRows
        int64[num_nodes + 1]; with `rows`, their `row_ptr`. Of a part of a graph the rows of its own nodes; those of all
        others are empty.
    indices : torch.Tensor or numpy.ndarray
        int32[num_graph_edges] or int64[num_graph_edges].
    frontier : torch.Tensor or numpy.ndarray
        int64[num_dst], destinations; one that occurs twice gets the same picks twice.
    rule : Rule or ByRelation
        The rule; with `rows`, a `ByRelation`. Layer-wise rules decide for the whole frontier together.
    key : int or BlendedKey
        Stream key of the hop; for LABOR also a result of `dependent_key`.
    rows : TypedRows, optional
        Where the in-edges of nodes and relations are, for a graph with types: parallel edges are those of one relation,
        times ascend within each of these rows, and excluded edges are found by their numbers.
    weights : torch.Tensor or numpy.ndarray, optional
        float32[num_graph_edges] or float64[num_graph_edges] in CSC order. Check them once with `check_weights`: values
        are not checked again here.
    num_threads : int
        The result does not depend on it.
    reducer : LayerReducer, optional
        For layer-wise rules. If given, the frontier is one part of several, and the picks are those of the whole
        frontier for this part.
    parallel_edges : bool
        For LABOR. True: search each row for parallel edges, which takes time in rows that are not sorted. False
        promises that no row has any, as `has_parallel_edges` checks: the picks are then the same.
    slots : torch.Tensor or numpy.ndarray, optional
        int64[num_dst], the tree of each destination: a node in two trees picks independently. Not for layer-wise rules.
    times : torch.Tensor or numpy.ndarray, optional
        int64[num_graph_edges] in CSC order, ascending within each row, which is not checked again here.
    bounds : torch.Tensor or numpy.ndarray, optional
        int64[num_dst]: only in-edges no later than this time are picked. Needs `times`.
    lows : torch.Tensor or numpy.ndarray, optional
        int64[num_dst]: only in-edges no earlier than this time are picked. Needs `bounds`.
    excluded : EdgePositions, optional
        Edges to leave out, from `find_edges`: the picks are those from the graph without them. If they have slots, a
        destination in a slot leaves out the edges of its slot.

    Raises
    ------
    InputError
        If the graph's arrays are malformed.
        If the frontier has ids that are not nodes, or slots or bounds have another length.
        If the reducer lacks a method, returns a wrong shape or dtype, or is given with a rule that needs none; for
        slots with a layer-wise rule, bounds without times, lower bounds without bounds, weights with a `LatestRule`, a
        blended key with a rule other than LABOR, excluded edges of another graph, or a rule for another number of
        relations.
    """
    stage = "sample_hop"
    rules = native_rules(rule, weights is not None, rows, stage)
    if reducer is not None and rule.per_destination:
        message = f"{stage}: {rule} picks destination by destination, so parts of a frontier need no reducer"
        raise InputError(message)
    device = device_of(frontier)
    may_repeat = parallel_edges is not False  # nothing else is a promise
    if device is not None and reducer is None and rule.has_twin:
        graph = on_gpu.graph_on(device, indptr, indices, stage, times=times, weights=weights, rows=rows)
        arguments = (graph, device, frontier, rule, key, slots, bounds, lows, may_repeat, stage)
        return Hop(*on_gpu.sample_hop(*arguments, rows=rows, excluded=excluded))
    starts, sources = row_arrays(indptr, indices, stage)
    of_slots, of_bounds, of_lows = (
        None if array is None else as_numpy(array, name, stage=stage)
        for name, array in (("slots", slots), ("bounds", bounds), ("lows", lows))
    )
    indptr_out, neighbors, positions, importance = _native.sample_hop(
        starts,
        sources,
        as_numpy(frontier, "frontier", stage=stage),
        rules,
        native_keys(key, rule, stage),
        None if weights is None else weight_array(weights, sources.size, stage),
        as_num_threads(num_threads, stage=stage),
        as_reducer(reducer, stage=stage),
        may_repeat,
        of_slots,
        None if times is None else as_numpy(times, "times", stage=stage),
        of_bounds,
        of_lows,
        native_excluded(excluded, stage),
        [] if rows is None else rows.native[0],
        None if rows is None else rows.num_nodes,
    )
    first, ids, places = (torch.from_numpy(array) for array in (indptr_out, neighbors, positions))
    return Hop(first, ids, places, optional(importance))


def check_weights(indptr: Array, weights: Array, *, num_threads: int | None = None) -> None:
    """Check edge weights before their use.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1] of the graph.
    weights : torch.Tensor or numpy.ndarray
        float32[num_edges] or float64[num_edges] in CSC order.
    num_threads : int, optional
        Default: the cores this process may use.

    Raises
    ------
    InputError
        For weights that are negative, infinite or not a number, rows whose sum times their length overflows, a wrong
        length or dtype.
    """
    stage = "check_weights"
    starts = as_numpy(indptr, "indptr", stage=stage)
    if starts.size == 0:
        message = f"{stage}: expected indptr to have num_nodes + 1 entries, got none"
        raise InputError(message)
    values = weight_array(weights, int(starts[-1]), stage)
    _native.check_weights(starts, values, as_num_threads(num_threads, stage=stage))


def optional(array: NDArray[Any] | None) -> torch.Tensor | None:
    """Return an array of a kernel as a tensor, if there is one."""
    return None if array is None else torch.from_numpy(array)
