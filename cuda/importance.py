"""LABOR-i and LABOR-* on a device (arXiv 2210.13339): twin of ``ops/native/layerwise/``, for whole frontiers."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.faults import NONE
from headrace.cuda.hop import GpuGraph, Picks, Segments, look_up
from headrace.cuda.launch import launch
from headrace.cuda.numbering import Numbering
from headrace.cuda.pick_labor import SharedVariates
from headrace.cuda.pick_uniform import AllPicker
from headrace.cuda.pick_weighted import PositivePicker
from headrace.cuda.sizes import Sizes

#: As rounds: until the expected number of sources falls by no more than 0.01 %.
UNTIL_CONVERGED = -1
#: A look whether rounds still change anything waits for the device: it is taken once in so many of them.
ROUNDS_PER_LOOK = 8


class LayerEdges(NamedTuple):
    """In-edges of all rows of a frontier, one row after the other; with weights those of positive weight.

    Attributes
    ----------
    offsets
        int64[num_dst + 1], where each row's are.
    positions
        int64[room] in the graph.
    sources
        [room] of the graph's index dtype, numbers of the candidates.
    shares
        float64[room], parts of the weight of the row; None without weights.
    num_candidates
        int64[1], how many sources there are.
    most_candidates
        No fewer than there are.
    """

    offsets: Tensor
    positions: Tensor
    sources: Tensor
    shares: Tensor | None
    num_candidates: Tensor
    most_candidates: int


class LaborImportance(NamedTuple):
    """float64: 1 / pi_t of the candidates, and c_s of the rows, infinite where all edges are kept."""

    inverse: Tensor
    scales: Tensor


def layer_edges(graph: GpuGraph, segments: Segments, sizes: Sizes) -> LayerEdges:
    """Find the edges of a layer, for which there is room by `sizes`, and number their sources."""
    device, num_dst = segments.device, len(segments)
    picker = AllPicker() if graph.weights is None else PositivePicker(graph.weights)
    offsets = torch.zeros(num_dst + 1, dtype=torch.int64, device=device)
    torch.cumsum(picker.counts(segments), 0, out=offsets[1:])
    degrees, offsets, room = sizes.fit(segments.degrees, offsets)
    positions = torch.empty(room, dtype=torch.int64, device=device)
    picker.pick(segments.with_degrees(degrees), offsets, positions)
    neighbors, _ = look_up(graph, Picks(offsets, positions, None), sizes.faults, edge_ids=False)
    most_candidates = min(room, graph.num_nodes)
    numbering = Numbering(most_candidates, device)
    none, num_candidates = torch.split(torch.zeros(3, dtype=torch.int64, device=device), [1, 2])
    sources = numbering.add(neighbors, offsets[-1:], none, num_candidates)
    shares = None
    if graph.weights is not None:
        shares = torch.empty(room, dtype=torch.float64, device=device)
        arguments = (graph.weights, offsets, num_dst, positions, shares)
        launch("find_shares", (graph.weights.dtype,), 32 * num_dst, *arguments, device=device)
    return LayerEdges(offsets, positions, sources, shares, num_candidates, most_candidates)


def solve_labor_importance(edges: LayerEdges, fanout: int, rounds: int, sizes: Sizes) -> LaborImportance:
    """Solve for the probabilities that destinations agree on.

    Parameters
    ----------
    edges
        Of the layer.
    fanout
        Whose precision is wanted, `ALL` for all edges.
    rounds
        How many, or `UNTIL_CONVERGED`: as many as `sizes` has others take, or the host waits once in a few rounds.
    sizes
        Knows how many rounds others took.
    """
    solver = _Solver(edges, fanout)
    if rounds == UNTIL_CONVERGED:
        solver.solve_until_converged(sizes)
        return LaborImportance(solver.inverse, solver.scales)
    solver.spread(0)
    for number in range(1, rounds + 1):
        looks = number % ROUNDS_PER_LOOK == 0 and number < rounds
        before = solver.scales.clone() if looks else None
        solver.turn(number)
        if number < rounds:
            solver.spread(number)
        if before is not None and solver.changed_nothing(before):
            break
    return LaborImportance(solver.inverse, solver.scales)


class _Solver:
    """The state between rounds: `inverse` and `scales` of the last one, and `next` for the one that comes."""

    def __init__(self, edges: LayerEdges, fanout: int) -> None:
        device, room = edges.offsets.device, edges.sources.shape[0]
        self._edges = edges
        self._fanout = fanout
        self._of_edges = torch.empty(room, dtype=torch.float64, device=device)
        self._largest = torch.zeros(edges.most_candidates, dtype=torch.float64, device=device)
        self.inverse = torch.ones_like(self._largest)
        self._next = torch.ones_like(self._largest)
        self.scales = torch.empty(edges.offsets.shape[0] - 1, dtype=torch.float64, device=device)
        #: int64[3] for each round that the device decides on: its expected size in two words, and whether it is behind
        #: the last one. The first two are of rounds before.
        self._state: Tensor | None = None
        self._needed: Tensor | None = None
        self._solve(0, 0)

    def solve_until_converged(self, sizes: Sizes) -> None:
        """Compute rounds until the expected number of sources hardly falls; further ones change nothing."""
        known = sizes.rounds()
        num_rounds, self._needed = known or (ROUNDS_PER_LOOK, torch.full_like(self._edges.num_candidates[:1], NONE))
        self._state = torch.zeros(3 * (num_rounds + 2), dtype=torch.int64, device=self.scales.device)
        self.spread(0, 1)
        number = 0
        while True:
            for place in range(2, num_rounds + 2):
                number += 1
                self.turn(number, place)
                self.spread(number, place)
            if known is not None:
                return
            needed = sizes.faults.check(self._needed)[0]
            if needed != NONE:
                sizes.hear(needed)
                return
            self._state = torch.cat([self._state[-6:], torch.zeros_like(self._state[6:])])

    def turn(self, number: int, place: int = 0) -> None:
        """Begin a round: what has been spread is what scales are solved for."""
        self.inverse, self._next = self._next, self.inverse
        self._solve(number, place)

    def spread(self, number: int, place: int = 0) -> None:
        """Make the next probabilities of sources."""
        edges, device = self._edges, self.scales.device
        shares = edges.shares if number == 0 else None
        num_dst, room = self.scales.shape[0], edges.most_candidates
        arguments = (edges.offsets, num_dst, edges.sources, shares, self.scales, self._largest, self._state, place)
        launch("raise_sources", (edges.sources.dtype,), 32 * num_dst, *arguments, device=device)
        candidates = (room, edges.num_candidates, self.inverse, self._largest, self._next)
        launch("spread_scales", (), room, *candidates, self._state, place, device=device)

    def changed_nothing(self, scales: Tensor) -> bool:
        """Whether all further rounds give what this one did, before which there were these scales. Waits.

        They are functions of pi and c alone.
        """
        return torch.equal(self._next, self.inverse) and torch.equal(self.scales, scales)

    def _solve(self, number: int, place: int) -> None:
        edges, num_dst = self._edges, self.scales.shape[0]
        of_edges = (edges.sources, edges.shares, self.inverse, self._of_edges)
        state = (self._state, place, self._needed)
        arguments = (edges.offsets, num_dst, self._fanout, number, *of_edges, self.scales, *state)
        launch("solve_rows", (edges.sources.dtype,), max(32 * num_dst, 1), *arguments, device=self.scales.device)


class LaborImportancePicker:
    """Keeps each edge whose variate is below the probability that all destinations of the hop have agreed on.

    Parameters
    ----------
    graph
        With weights, to pick by them.
    shared
        The variates of edges.
    fanout, rounds, sizes
        See `solve_labor_importance`.
    """

    def __init__(
        self,
        graph: GpuGraph,
        shared: SharedVariates,
        fanout: int,
        rounds: int,
        sizes: Sizes,
    ) -> None:
        self._graph = graph
        self._shared = shared
        self._fanout = fanout
        self._rounds = rounds
        self._sizes = sizes
        #: The most edges that it picks.
        self.most: int | None = None
        self._kept: tuple[LayerEdges, LaborImportance, Tensor] | None = None

    def counts(self, segments: Segments) -> Tensor:
        """Solve for the whole frontier, and return how many edges stay."""
        edges = layer_edges(self._graph, segments, self._sizes)
        self.most = edges.sources.shape[0]
        importance = solve_labor_importance(edges, self._fanout, self._rounds, self._sizes)
        quotients = torch.empty(self.most, dtype=torch.float64, device=segments.device)
        counts = torch.empty_like(segments.degrees)
        num_dst = len(segments)
        launch(
            "count_kept", (edges.sources.dtype,), 32 * num_dst, *self._shared.arguments, segments.starts, edges.offsets,
            num_dst, edges.positions, edges.sources, *importance, quotients, counts, device=segments.device,
        )  # fmt: skip
        self._kept = edges, importance, quotients
        return counts

    def pick(self, segments: Segments, indptr: Tensor, positions: Tensor) -> Tensor:
        """Write the positions of edges that stay; return their importance weights."""
        assert self._kept is not None
        edges, solution, quotients = self._kept
        self._kept = None
        num_dst = len(segments)
        importance = torch.empty(len(positions), dtype=torch.float32, device=segments.device)
        launch(
            "keep_edges", (edges.sources.dtype,), 32 * num_dst, edges.offsets, num_dst, edges.positions, edges.sources,
            edges.shares, *solution, quotients, indptr, positions, importance, device=segments.device,
        )  # fmt: skip
        return importance
