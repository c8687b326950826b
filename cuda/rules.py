"""The rules by which hops pick, and what picks by each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from headrace.cuda.edge_numbers import EdgeNumbers
from headrace.cuda.excluded import Gaps, Left
from headrace.cuda.hop import Frontier, GpuGraph, Picker, Picks, Segments, find_segments, pick
from headrace.cuda.importance import LaborImportancePicker
from headrace.cuda.pick_labor import LaborExactPicker, LaborPoissonPicker, SharedVariates
from headrace.cuda.pick_uniform import AllPicker, LatestPicker, UniformPicker, UniformReplacementPicker
from headrace.cuda.pick_weighted import (
    ALL,
    EdgeSums,
    LaborWeightedPicker,
    PositivePicker,
    WeightedPicker,
    WeightedReplacementPicker,
)
from headrace.cuda.sizes import MOST_EDGES_UNKNOWN, Sizes
from headrace.cuda.typed_hop import Group, pick_by_relation
from headrace.cuda.variates import Variates

#: Makes what picks from segments.
Make: TypeAlias = "Callable[[Picking], Picker]"


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
    reads_whole_rows
        Whether it looks at all edges of a row, and at nothing else.
    """

    kind: str
    fanout: int
    rounds: int
    by_weight: bool
    per_destination: bool
    reads_edges: bool
    is_bounded: bool
    reads_whole_rows: bool

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
    sizes: Sizes,
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
    sizes
        Gives room, with faults of the kinds `hop.FAULTS`.
    gaps
        Edges that are not there; None for no such edges. Those of slots are for a frontier with slots.
    bounded
        Whether there is to be room for the most edges that there can be, where that is known and not too much.
    """
    faults = sizes.faults

    def by(rule: HopRule) -> PickFrom:
        picking = Picking(graph, rule, hop.variates, numbers, sizes)

        def pick_from(segments: Segments, counts: Tensor | None = None) -> Picks:
            most = rule.most_picks(len(segments)) if bounded else None
            room = most if most is None or most <= MOST_EDGES_UNKNOWN else None
            if gaps is not None:
                return _pick_left(picking, Left.of(segments, gaps), room, bounded)
            if (numbers is not None or rule.by_weight) and picking.lacks_tables:
                first = torch.zeros(len(segments) + 1, dtype=torch.int64, device=segments.device)
                torch.cumsum(segments.degrees, 0, out=first[1:])
                degrees, first, num_edges = sizes.fit(segments.degrees, first)
                segments = segments.with_degrees(degrees)
                own = picking.with_tables(segments, first, num_edges)
                return pick(segments, picker_of(own), sizes, room=room, bounded=bounded)
            return pick(segments, picker_of(picking), sizes, room=room, bounded=bounded, counts=counts)

        return pick_from

    if graph.relations is None:
        most_of_row = hop.rules[0].most_of_row
        if most_of_row is None or gaps is not None:
            return by(hop.rules[0])(find_segments(graph, frontier, faults))
        num_dst, device = frontier.nodes.shape[0], frontier.nodes.device
        counts = torch.empty(num_dst + 1, dtype=torch.int64, device=device)
        return by(hop.rules[0])(find_segments(graph, frontier, faults, most=most_of_row, counts=counts), counts)
    groups = [Group(relations, by(rule)) for rule, relations in _alike(hop.rules)]
    return pick_by_relation(graph, frontier, faults, groups)


def _pick_left(picking: Picking, left: Left, room: int | None, bounded: bool) -> Picks:
    """Pick from what excluded edges leave; rules that look at edges see these alone, one after the other."""
    segments = left.segments
    if picking.rule.reads_edges:
        graph, segments, first = left.packed(picking.graph, picking.sizes)
        picking = picking._replace(graph=graph, numbers=None if picking.numbers is None else EdgeNumbers())
        if picking.lacks_tables:
            picking = picking.with_tables(segments, first, graph.indices.shape[0])
    picks = pick(segments, picker_of(picking), picking.sizes, room=room, bounded=bounded)
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
    sizes: Sizes
    sums: EdgeSums | None = None

    @property
    def weights(self) -> Tensor:
        """By which the rule picks."""
        assert self.graph.weights is not None  # of a rule by weight
        return self.graph.weights

    @property
    def most(self) -> int:
        """The fan-out, as kernels of LABOR know it."""
        return ALL if self.rule.fanout < 0 else self.rule.fanout

    @property
    def lacks_tables(self) -> bool:
        """Whether the rule reads what is not known of the whole graph: numbers of parallel edges, sums of weights."""
        return self._lacks_numbers or self._lacks_sums

    @property
    def _lacks_numbers(self) -> bool:
        reads = self.rule.kind.startswith("labor") and (self.rule.fanout >= 0 or self.rule.by_weight)
        return reads and self.numbers is not None and not self.numbers.known

    @property
    def _lacks_sums(self) -> bool:
        draws = self.rule.kind.startswith("neighbor") and self.rule.by_weight and self.rule.fanout >= 0
        return draws and self.sums is None and self.graph.sums is None

    def with_tables(self, segments: Segments, first: Tensor, room: int) -> Picking:
        """Return the same with what it lacks, of segments that have no more than `room` edges.

        Those of segment i are the first[i] and following of all, int64[num_segments + 1].
        """
        if self._lacks_sums:
            return self._replace(sums=EdgeSums.of_segments(self.weights, segments, room))
        return self._replace(numbers=EdgeNumbers.of_rows(segments.starts, first, room, self.graph.indices))

    @property
    def shared(self) -> SharedVariates:
        """The variates of sources, numbered where a row holds a source twice."""
        tables = (None, None) if self.numbers is None else self.numbers.tables
        return SharedVariates(self.graph.indices, self.variates, *tables)


def picker_of(picking: Picking) -> Picker:
    """Return what picks from segments by a rule."""
    plain, weighted = PICKERS[picking.rule.kind]
    return (weighted if picking.rule.by_weight else plain)(picking)


def _all_or(picker: Make) -> Make:
    """Return what makes a picker, or one of all edges where all are asked for."""
    return lambda picking: AllPicker() if picking.rule.fanout < 0 else picker(picking)


def _positive_or(picker: type[WeightedPicker | WeightedReplacementPicker]) -> Make:
    """Return what makes a picker that draws by weight, or one of all edges that have any."""

    def make(picking: Picking) -> Picker:
        if picking.rule.fanout < 0:
            return PositivePicker(picking.weights)
        sums = picking.sums
        if sums is None:
            assert picking.graph.sums is not None  # what the graph lacks has been made
            sums = EdgeSums(picking.graph.sums)
        return picker(picking.weights, sums, picking.variates.key, picking.rule.fanout)

    return make


def _labor_by_weight(exact: bool) -> Make:
    return lambda picking: LaborWeightedPicker(picking.shared, picking.weights, picking.most, exact)


def _importance(picking: Picking) -> Picker:
    return LaborImportancePicker(picking.graph, picking.shared, picking.most, picking.rule.rounds, picking.sizes)


_latest = _all_or(lambda picking: LatestPicker(picking.rule.fanout))

#: What makes the picker of each kind of rules, without weights and by weight.
PICKERS: dict[str, tuple[Make, Make]] = {
    "neighbor": (
        _all_or(lambda picking: UniformPicker(picking.variates.key, picking.rule.fanout)),
        _positive_or(WeightedPicker),
    ),
    "neighbor_replacement": (
        _all_or(lambda picking: UniformReplacementPicker(picking.variates.key, picking.rule.fanout)),
        _positive_or(WeightedReplacementPicker),
    ),
    "latest": (_latest, _latest),
    "labor_exact": (
        _all_or(lambda picking: LaborExactPicker(picking.shared, picking.rule.fanout)),
        _labor_by_weight(exact=True),
    ),
    "labor_poisson": (
        _all_or(lambda picking: LaborPoissonPicker(picking.shared, picking.rule.fanout)),
        _labor_by_weight(exact=False),
    ),
    "labor_importance": (_importance, _importance),
}
