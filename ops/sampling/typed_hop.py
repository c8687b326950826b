"""One hop of a graph with types: each relation by a rule of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_num_threads, as_numpy, graph_arrays, weight_array
from headrace.ops.errors import GraphError, ItemsError
from headrace.ops.gpu import device_of
from headrace.ops.sampling import on_gpu
from headrace.ops.sampling.find_edges import EdgePositions, by_tree, native_excluded
from headrace.ops.sampling.kernel_rules import native_keys, native_rules
from headrace.ops.sampling.layer_reducer import LayerReducer, as_reducer
from headrace.ops.sampling.sample import Hop, optional

if TYPE_CHECKING:
    from headrace.ops.random.dependency import BlendedKey
    from headrace.ops.sampling.rules import ByRelation
    from headrace.ops.sampling.typed_rows import TypedRows


def sample_typed_hop(
    rows: TypedRows,
    indices: Array,
    frontier: Array,
    rule: ByRelation,
    key: int | BlendedKey,
    *,
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
    """Pick in-edges of every node of a frontier, of each relation by its own rule.

    What `sample_hop` picks of the rows of a relation, for each of them; a destination's picks come relation by
    relation. Uniform draws are keyed by the number of the row, LABOR's by the global id of the source.

    Parameters
    ----------
    rows : TypedRows
        Where the in-edges of nodes and relations are.
    indices : torch.Tensor or numpy.ndarray
        int32[num_graph_edges] or int64[num_graph_edges].
    frontier : torch.Tensor or numpy.ndarray
        int64[num_dst], destinations of any types.
    rule : ByRelation
        One rule for each relation.
    key, weights, num_threads, reducer, parallel_edges, slots, times, bounds, lows
        As for `sample_hop`; parallel edges are those of one relation, and times ascend within each of its rows.
    excluded : EdgePositions, optional
        As for `sample_hop`, by the numbers of these rows: `find_edges` of ``rows.row_ptr`` and rows as destinations.

    Raises
    ------
    GraphError, ItemsError, InputError
        As `sample_hop`, and for a rule of another number of relations.
    """
    stage = "sample_typed_hop"
    rules = native_rules(rule, weights is not None, rows, stage)
    device = device_of(frontier)
    if device is not None and reducer is None and on_gpu.has_twin(rule) and not by_tree(excluded):
        graph = on_gpu.graph_on(device, rows.row_ptr, indices, stage, times=times, weights=weights, rows=rows)
        may_repeat = parallel_edges is not False
        of_elements = (slots, bounds, lows)
        arguments = (graph, device, frontier, rule, key, *of_elements, may_repeat, stage)
        return Hop(*on_gpu.sample_hop(*arguments, rows=rows, excluded=excluded))
    starts, sources = graph_arrays(rows.row_ptr, indices, stage)
    of_slots, of_bounds, of_lows = (
        None if array is None else as_numpy(array, name, stage=stage, error=ItemsError)
        for name, array in (("slots", slots), ("bounds", bounds), ("lows", lows))
    )
    found = _native.sample_typed_hop(
        starts,
        sources,
        rows.num_nodes,
        rows.native[0],
        as_numpy(frontier, "frontier", stage=stage, error=ItemsError),
        rules,
        native_keys(key, rule, stage),
        None if weights is None else weight_array(weights, sources.size, stage),
        as_num_threads(num_threads, stage=stage),
        as_reducer(reducer, stage=stage),
        parallel_edges is not False,
        of_slots,
        None if times is None else as_numpy(times, "times", stage=stage, error=GraphError),
        of_bounds,
        of_lows,
        native_excluded(excluded, stage),
    )
    indptr, neighbors, positions, importance = found
    return Hop(torch.from_numpy(indptr), torch.from_numpy(neighbors), torch.from_numpy(positions), optional(importance))
