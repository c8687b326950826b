"""The rules by which hops pick, and what picks by each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

from headrace.cuda.edge_numbers import EdgeNumbers
from headrace.cuda.excluded import Left
from headrace.cuda.faults import Faults
from headrace.cuda.hop import Frontier, GpuGraph, Picker, Picks, Segments, find_segments, pick
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
from headrace.cuda.typed_hop import Group, pick_by_relation
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

    @property
    def per_destination(self) -> bool:
        """Whether the picks of a destination do not depend on the others of the hop."""
        return self.kind != "importance"

    @property
    def reads_edges(self) -> bool:
        """Whether it looks at the edges to choose from."""
        if self.kind in ("labor", "poisson"):
            return self.fanout >= 0
        return self.kind not in ("neighbor", "replacement", "latest")

    def most_picks(self, num_dst: int) -> int | None:
        """Return the most edges that so many destinations can have, or None if that depends on their degrees."""
        is_bounded = self.fanout >= 0 and self.kind not in ("poisson", "poisson_weighted", "importance")
        return self.fanout * num_dst if is_bounded else None


class HopSpec(NamedTuple):
    """How a hop picks.

    Attributes
    ----------
    rules
        One for each relation; one where there are no types.
    variates
        By which randomness.
    """

    rules: tuple[HopRule, ...]
    variates: Variates

    def most_picks(self, num_dst: int) -> int | None:
        """Return the most edges that so many destinations can have, or None if that depends on their degrees."""
        of_rules = [rule.most_picks(num_dst) for rule in self.rules]
        bounded = [most for most in of_rules if most is not None]
        return sum(bounded) if len(bounded) == len(of_rules) else None


def pick_hop(
    graph: GpuGraph,
    frontier: Frontier,
    hop: HopSpec,
    numbers: EdgeNumbers | None,
    faults: Faults,
    *,
    gaps: Tensor | None = None,
    bounded: bool = False,
) -> Picks:
    """Pick in-edges of each element of a frontier.

    Parameters
    ----------
    graph, frontier, hop
        Of what, for what, and how.
    numbers
        See `picker_of`.
    faults
        Of the kinds `hop.FAULTS`.
    gaps
        int64[num_excluded], positions of edges that are not there, ascending; None for no such edges.
    bounded
        Whether there is to be room for the most edges that there can be, where that is known; otherwise the host waits
        to hear how many there are.
    """

    def by(rule: HopRule) -> Callable[[Segments], Picks]:
        def pick_from(segments: Segments) -> Picks:
            room = rule.most_picks(len(segments)) if bounded else None
            if gaps is not None:
                return _pick_left(graph, Left.of(segments, gaps), rule, hop.variates, numbers, faults, room)
            return pick(segments, picker_of(graph, rule, hop.variates, numbers, faults)(segments), faults, room=room)

        return pick_from

    if graph.relations is None:
        return by(hop.rules[0])(find_segments(graph, frontier, faults))
    groups = [Group(relations, by(rule)) for rule, relations in _alike(hop.rules)]
    return pick_by_relation(graph, frontier, faults, groups)


def _pick_left(
    graph: GpuGraph,
    left: Left,
    rule: HopRule,
    variates: Variates,
    numbers: EdgeNumbers | None,
    faults: Faults,
    room: int | None,
) -> Picks:
    """Pick from what excluded edges leave; rules that look at edges see these alone, one after the other."""
    segments = left.segments
    if rule.reads_edges:
        graph, segments = left.packed(graph, faults)
        numbers = None if numbers is None else EdgeNumbers()
    picker = picker_of(graph, rule, variates, numbers, faults)(segments)
    picks = pick(segments, picker, faults, room=room)
    left.unpack(picks, segments.starts)
    return picks


def _alike(rules: Sequence[HopRule]) -> list[tuple[HopRule, list[int]]]:
    """Return each rule with the relations to pick from by it together; those of layer-wise rules agree on nothing."""
    found: dict[HopRule | int, list[int]] = {}
    for relation, rule in enumerate(rules):
        found.setdefault(rule if rule.per_destination else relation, []).append(relation)
    return [(rules[relations[0]], relations) for relations in found.values()]


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
