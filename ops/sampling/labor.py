"""What LABOR-i and LABOR-* solve for: the probabilities of sources that the destinations of a hop agree on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_num_threads, as_numpy, graph_arrays, weight_array
from headrace.ops.errors import InputError
from headrace.ops.sampling.layer_reducer import LayerReducer, as_reducer
from headrace.ops.sampling.rules import LaborImportanceRule


@dataclass(frozen=True)
class LaborImportance:
    """The solution for one hop: edge t -> s is kept with probability ``min(1, scales[s] * probabilities[t])``.

    Attributes
    ----------
    candidates : torch.Tensor
        int64[num_candidates], global ids of the sources of edges (of positive weight), by first occurrence.
    probabilities : torch.Tensor
        float64[num_candidates], pi_t in (0, 1].
    scales : torch.Tensor
        float64[num_dst], c_s; infinite for a destination that keeps all its edges.
    expected_sizes : list of float
        Expected number of distinct sources of LABOR-0, LABOR-1, ..., up to the rule's own. It never grows. It counts
        sources picked by the first of parallel edges; others may pick more. With weights the first number is that of
        the LABOR-0 which solves the variance equation, not of the cheaper `LaborRule`.
    """

    candidates: torch.Tensor
    probabilities: torch.Tensor
    scales: torch.Tensor
    expected_sizes: list[float]


def labor_importance(
    indptr: Array,
    indices: Array,
    frontier: Array,
    rule: LaborImportanceRule,
    *,
    weights: Array | None = None,
    num_threads: int = 1,
    reducer: LayerReducer | None = None,
) -> LaborImportance:
    """Return the probabilities that `sample_hop` uses with the same rule.

    They are not random: a hop depends on its key only through the variates that are compared with these probabilities.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_graph_edges] or int64[num_graph_edges].
    frontier : torch.Tensor or numpy.ndarray
        int64[num_dst], destinations.
    rule : LaborImportanceRule
        The fan-out and the rounds.
    weights : torch.Tensor or numpy.ndarray, optional
        float32[num_graph_edges] or float64[num_graph_edges] in CSC order, vetted with `check_weights`.
    num_threads : int
        The result does not depend on it.
    reducer : LayerReducer, optional
        If given, the frontier is one part of several, and the result is that of the whole frontier for this part.

    Raises
    ------
    InputError
        If the graph's arrays are malformed.
        If the frontier has ids that are not nodes.
        If the rule has another kind, or the reducer lacks a method or returns a wrong shape or dtype.
    """
    stage = "labor_importance"
    if not isinstance(rule, LaborImportanceRule):
        message = f"{stage}: expected rule to be a LaborImportanceRule, got {rule!r}"
        raise InputError(message)
    starts, sources = graph_arrays(indptr, indices, stage)
    candidates, inverse, scales, expected_sizes = _native.labor_importance(
        starts,
        sources,
        as_numpy(frontier, "frontier", stage=stage),
        rule.fanout,
        rule.rounds,
        None if weights is None else weight_array(weights, sources.size, stage),
        as_num_threads(num_threads, stage=stage),
        as_reducer(reducer, stage=stage),
    )
    return LaborImportance(
        torch.from_numpy(candidates), torch.from_numpy(1.0 / inverse), torch.from_numpy(scales), expected_sizes
    )
