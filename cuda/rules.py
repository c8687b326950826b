"""The rules by which hops pick, and what picks by each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from headrace.cuda.edge_numbers import EdgeNumbers
from headrace.cuda.faults import Faults
from headrace.cuda.hop import GpuGraph, Picker, Segments
from headrace.cuda.importance import LaborImportancePicker
from headrace.cuda.pick_labor import LaborExactPicker, LaborPoissonPicker, SharedVariates
from headrace.cuda.pick_uniform import AllPicker, LatestPicker, UniformPicker, UniformReplacementPicker
from headrace.cuda.pick_weighted import (
    ALL,
    LaborWeightedPicker,
    PositivePicker,
    WeightedPicker,
    WeightedReplacementPicker,
)
from headrace.cuda.variates import Variates


@dataclass(frozen=True)
class HopRule:
    """How a hop picks: the rules of ``ops.sampling.rules`` that have twins.

    Attributes
    ----------
    kind
        "latest"; "neighbor", "replacement", "labor" or "poisson"; these four by weight; "importance", by weight if the
        graph has any.
    fanout
        In-edges per destination, -1 for all.
    rounds
        Of importance, -1 for "*".
    """

    kind: Literal[
        "neighbor",
        "replacement",
        "latest",
        "labor",
        "poisson",
        "weighted",
        "weighted_replacement",
        "labor_weighted",
        "poisson_weighted",
        "importance",
    ]
    fanout: int
    rounds: int = 0

    def most_picks(self, num_dst: int) -> int | None:
        """Return the most edges that so many destinations can have, or None if that depends on their degrees."""
        is_bounded = self.fanout >= 0 and self.kind not in ("poisson", "poisson_weighted", "importance")
        return self.fanout * num_dst if is_bounded else None


def picker_of(
    graph: GpuGraph, rule: HopRule, variates: Variates, numbers: EdgeNumbers | None, faults: Faults
) -> Callable[[Segments], Picker]:
    """Return what makes the picker of a rule.

    Parameters
    ----------
    graph, rule, variates
        Of what, how, and by which randomness.
    numbers
        Those of parallel edges, for LABOR; None where no row holds a source twice.
    faults
        Looked at before rows are read to number edges.
    """

    def shared(segments: Segments) -> SharedVariates:
        return SharedVariates(graph.indices, variates, *_numbers_of(numbers, segments, graph, faults))

    def make(segments: Segments) -> Picker:
        if rule.fanout < 0:
            return AllPicker()
        if rule.kind == "latest":
            return LatestPicker(rule.fanout)
        if rule.kind == "neighbor":
            return UniformPicker(variates.key, rule.fanout)
        if rule.kind == "replacement":
            return UniformReplacementPicker(variates.key, rule.fanout)
        return (LaborExactPicker if rule.kind == "labor" else LaborPoissonPicker)(shared(segments), rule.fanout)

    def make_weighted(segments: Segments) -> Picker:
        assert graph.weights is not None
        if rule.kind in ("labor_weighted", "poisson_weighted"):
            fanout = ALL if rule.fanout < 0 else rule.fanout
            return LaborWeightedPicker(shared(segments), graph.weights, fanout, rule.kind == "labor_weighted")
        if rule.fanout < 0:
            return PositivePicker(graph.weights)
        picker = WeightedPicker if rule.kind == "weighted" else WeightedReplacementPicker
        return picker(graph.weights, graph.sums, variates.key, rule.fanout)

    def make_importance(_: Segments) -> Picker:
        return LaborImportancePicker(graph, shared, ALL if rule.fanout < 0 else rule.fanout, rule.rounds, faults)

    if rule.kind == "importance":
        return make_importance
    return make_weighted if rule.kind in _BY_WEIGHT else make


_BY_WEIGHT = ("weighted", "weighted_replacement", "labor_weighted", "poisson_weighted")


def _numbers_of(
    numbers: EdgeNumbers | None, segments: Segments, graph: GpuGraph, faults: Faults
) -> tuple[Tensor | None, Tensor | None]:
    if numbers is None:
        return None, None
    if not numbers.known:
        faults.check()
    return numbers.of(segments.starts, segments.degrees, graph.indices)
