"""The rules by which hops pick, and what picks by each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from headrace.cuda.edge_numbers import EdgeNumbers
from headrace.cuda.excluded import Gaps, Left
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

#: Makes what picks from segments.
Make: TypeAlias = "Callable[[Picking, Segments], Picker]"


class PickFrom(Protocol):
    """Picks from segments, by counts of them if there are any: see `hop.pick`."""

    def __call__(self, segments: Segments, counts: Tensor | None = None) -> Picks:
        """Return the picks."""


class HopRule(NamedTuple):
    """How a hop picks: a rule of ``ops.sampling.rules`` that has a twin, with what holds of its kind.

    Attributes
    ----------
    kind
        Its name in `PICKERS`.
    fanout
        In-edges per destination, -1 for all.
    rounds
        Of importance, -1 for "*".
    by_weight
        Whether it picks by weight.
    per_destination
        Whether the picks of a destination do not depend on the others of the hop.
    reads_edges
        Whether it looks at the edges to choose from.
    is_bounded
        Whether a destination has at most `fanout` picks.
    """

    kind: str
    fanout: int
    rounds: int
    by_weight: bool
    per_destination: bool
    reads_edges: bool
    is_bounded: bool

    def most_picks(self, num_dst: int) -> int | None:
        """Return the most edges that so many destinations can have, or None if that depends on their degrees."""
        return self.fanout * num_dst if self.fanout >= 0 and self.is_bounded else None

    @property
    def most_of_row(self) -> int | None:
        """The most edges that a row has picked, where it has so many if there are as many; None for other rules."""
        counts_rows = self.kind == "latest" or (self.kind in ("neighbor", "labor_exact") and not self.by_weight)
        return (ALL if self.fanout < 0 else self.fanout) if counts_rows else None


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
        total = 0
        for rule in self.rules:
            most = rule.most_picks(num_dst)
            if most is None:
                return None
            total += most
        return total


def pick_hop(
    graph: GpuGraph,
    frontier: Frontier,
    hop: HopSpec,
    numbers: EdgeNumbers | None,
    faults: Faults,
    *,
    gaps: Gaps | None = None,
    bounded: bool = False,
) -> Picks:
    """Pick in-edges of each element of a frontier.

    Parameters
    ----------
    graph, frontier, hop
        Of what, for what, and how.
    numbers
        Those of parallel edges, for LABOR; None where no row holds a source twice.
    faults
        Of the kinds `hop.FAULTS`.
    gaps
        Edges that are not there; None for no such edges. Those of slots are for a frontier with slots.
    bounded
        Whether there is to be room for the most edges that there can be, where that is known; otherwise the host waits
        to hear how many there are.
    """

    def by(rule: HopRule) -> PickFrom:
        picking = Picking(graph, rule, hop.variates, numbers, faults)

        def pick_from(segments: Segments, counts: Tensor | None = None) -> Picks:
            room = rule.most_picks(len(segments)) if bounded else None
            if gaps is not None:
                return _pick_left(picking, Left.of(segments, gaps), room)
            return pick(segments, picker_of(picking, segments), faults, room=room, counts=counts)

        return pick_from

    if graph.relations is None:
        most = hop.rules[0].most_of_row
        if most is None or gaps is not None:
            return by(hop.rules[0])(find_segments(graph, frontier, faults))
        num_dst, device = frontier.nodes.shape[0], frontier.nodes.device
        counts = torch.empty(num_dst + 1, dtype=torch.int64, device=device)
        return by(hop.rules[0])(find_segments(graph, frontier, faults, most=most, counts=counts), counts)
    groups = [Group(relations, by(rule)) for rule, relations in _alike(hop.rules)]
    return pick_by_relation(graph, frontier, faults, groups)


def _pick_left(picking: Picking, left: Left, room: int | None) -> Picks:
    """Pick from what excluded edges leave; rules that look at edges see these alone, one after the other."""
    segments = left.segments
    if picking.rule.reads_edges:
        graph, segments = left.packed(picking.graph, picking.faults)
        picking = picking._replace(graph=graph, numbers=None if picking.numbers is None else EdgeNumbers())
    picks = pick(segments, picker_of(picking, segments), picking.faults, room=room)
    left.unpack(picks, segments.starts)
    return picks


def _alike(rules: Sequence[HopRule]) -> list[tuple[HopRule, list[int]]]:
    """Return each rule with the relations to pick from by it together; those of layer-wise rules agree on nothing."""
    found: dict[HopRule | int, list[int]] = {}
    for relation, rule in enumerate(rules):
        found.setdefault(rule if rule.per_destination else relation, []).append(relation)
    return [(rules[relations[0]], relations) for relations in found.values()]


class Picking(NamedTuple):
    """What pickers are made of; see `pick_hop`."""

    graph: GpuGraph
    rule: HopRule
    variates: Variates
    numbers: EdgeNumbers | None
    faults: Faults

    @property
    def weights(self) -> Tensor:
        """By which the rule picks."""
        assert self.graph.weights is not None  # of a rule by weight
        return self.graph.weights

    @property
    def most(self) -> int:
        """The fan-out, as kernels of LABOR know it."""
        return ALL if self.rule.fanout < 0 else self.rule.fanout

    def shared(self, segments: Segments) -> SharedVariates:
        """Return the variates of the sources of segments, numbered where a row holds a source twice."""
        starts_and_others: tuple[Tensor | None, Tensor | None] = None, None
        if self.numbers is not None:
            if not self.numbers.known:
                self.faults.check()  # before rows are read
            starts_and_others = self.numbers.of(segments.starts, segments.degrees, self.graph.indices)
        return SharedVariates(self.graph.indices, self.variates, *starts_and_others)


def picker_of(picking: Picking, segments: Segments) -> Picker:
    """Return what picks from segments by a rule."""
    plain, weighted = PICKERS[picking.rule.kind]
    return (weighted if picking.rule.by_weight else plain)(picking, segments)


def _all_or(picker: Make) -> Make:
    """Return what makes a picker, or one of all edges where all are asked for."""
    return lambda picking, segments: AllPicker() if picking.rule.fanout < 0 else picker(picking, segments)


def _positive_or(picker: type[WeightedPicker | WeightedReplacementPicker]) -> Make:
    """Return what makes a picker that draws by weight, or one of all edges that have any."""

    def make(picking: Picking, segments: Segments) -> Picker:
        del segments
        graph, rule = picking.graph, picking.rule
        if rule.fanout < 0:
            return PositivePicker(picking.weights)
        return picker(picking.weights, graph.sums, picking.variates.key, rule.fanout)

    return make


def _labor_by_weight(exact: bool) -> Make:
    return lambda picking, segments: LaborWeightedPicker(picking.shared(segments), picking.weights, picking.most, exact)


def _importance(picking: Picking, segments: Segments) -> Picker:
    del segments
    return LaborImportancePicker(picking.graph, picking.shared, picking.most, picking.rule.rounds, picking.faults)


_latest = _all_or(lambda picking, _: LatestPicker(picking.rule.fanout))

#: What makes the picker of each kind of rules, without weights and by weight.
PICKERS: dict[str, tuple[Make, Make]] = {
    "neighbor": (
        _all_or(lambda picking, _: UniformPicker(picking.variates.key, picking.rule.fanout)),
        _positive_or(WeightedPicker),
    ),
    "neighbor_replacement": (
        _all_or(lambda picking, _: UniformReplacementPicker(picking.variates.key, picking.rule.fanout)),
        _positive_or(WeightedReplacementPicker),
    ),
    "latest": (_latest, _latest),
    "labor_exact": (
        _all_or(lambda picking, segments: LaborExactPicker(picking.shared(segments), picking.rule.fanout)),
        _labor_by_weight(exact=True),
    ),
    "labor_poisson": (
        _all_or(lambda picking, segments: LaborPoissonPicker(picking.shared(segments), picking.rule.fanout)),
        _labor_by_weight(exact=False),
    ),
    "labor_importance": (_importance, _importance),
}
