"""What LADIES and PLADIES draw for a hop: scores, probabilities and the drawn sources."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_key, as_num_threads, as_numpy, graph_arrays, weight_array
from headrace.ops.errors import InputError
from headrace.ops.sampling.layer_reducer import LayerReducer, as_reducer
from headrace.ops.sampling.rules import LadiesRule


@dataclass(frozen=True)
class LadiesDraw:
    """The draw for one hop; ``1[drawn] * P_ts / probabilities`` summed over t estimates sums over in-edges, unbiased.

    Attributes
    ----------
    candidates : torch.Tensor
        int64[num_candidates], global ids of the sources of edges (of positive weight), by first occurrence.
    scores : torch.Tensor
        float64[num_candidates], q_t.
    probabilities : torch.Tensor
        float64[num_candidates]. Poisson: the probability of being drawn, min(1, c * q_t), for any key. Otherwise: the
        probability conditional on the arrival of the first source that is not drawn, 1 - exp(-q_t * tau); it depends on
        the key, and is valid for the drawn sources.
    drawn : torch.Tensor
        bool[num_candidates].
    """

    candidates: torch.Tensor
    scores: torch.Tensor
    probabilities: torch.Tensor
    drawn: torch.Tensor


def draw_ladies(
    indptr: Array,
    indices: Array,
    frontier: Array,
    rule: LadiesRule,
    key: int,
    *,
    weights: Array | None = None,
    num_threads: int = 1,
    reducer: LayerReducer | None = None,
) -> LadiesDraw:
    """Draw the sources whose edges `sample_hop` keeps with the same rule and key.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_graph_edges] or int64[num_graph_edges].
    frontier : torch.Tensor or numpy.ndarray
        int64[num_dst], destinations; one that occurs twice counts twice in the scores.
    rule : LadiesRule
        The number of sources, and whether sampling is Poisson.
    key : int
        Stream key of the hop. LABOR's variate r_t decides source t.
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
    stage = "draw_ladies"
    if not isinstance(rule, LadiesRule):
        message = f"{stage}: expected rule to be a LadiesRule, got {rule!r}"
        raise InputError(message)
    starts, sources = graph_arrays(indptr, indices, stage)
    candidates, scores, inverse, drawn = _native.draw_ladies(
        starts,
        sources,
        as_numpy(frontier, "frontier", stage=stage),
        rule.size,
        rule.poisson,
        as_key(key, stage=stage),
        None if weights is None else weight_array(weights, sources.size, stage),
        as_num_threads(num_threads, stage=stage),
        as_reducer(reducer, stage=stage),
    )
    return LadiesDraw(
        torch.from_numpy(candidates),
        torch.from_numpy(scores),
        torch.from_numpy(1.0 / inverse),
        torch.from_numpy(drawn),
    )
