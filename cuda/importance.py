"""LABOR-i and LABOR-* on a device (arXiv 2210.13339): twin of ``ops/native/layerwise/``, for whole frontiers."""

from __future__ import annotations

from collections.abc import Callable
from math import ldexp
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.faults import Faults
from headrace.cuda.hop import GpuGraph, Picks, Segments, look_up
from headrace.cuda.launch import launch
from headrace.cuda.numbering import Numbering
from headrace.cuda.pick_labor import SharedVariates
from headrace.cuda.pick_uniform import AllPicker
from headrace.cuda.pick_weighted import ALL, PositivePicker

#: As rounds: until the expected number of sources falls by no more than 0.01 %.
UNTIL_CONVERGED = -1
_CONVERGED = 1.0 - 1e-4
#: A look whether rounds still change anything waits for the device: it is taken once in so many of them.
ROUNDS_PER_LOOK = 8


class LayerEdges(NamedTuple):
    """In-edges of all rows of a frontier, one row after the other; with weights those of positive weight.

    Attributes
    ----------
    offsets
        int64[num_dst + 1], where each row's are.
    positions
        int64[num_edges] in the graph.
    sources
        [num_edges] of the graph's index dtype, numbers of the candidates.
    shares
        float64[num_edges], parts of the weight of the row; None without weights.
    num_candidates
        How many sources there are.
    """

    offsets: Tensor
    positions: Tensor
    sources: Tensor
    shares: Tensor | None
    num_candidates: int


class LaborImportance(NamedTuple):
    """float64: 1 / pi_t of the candidates, and c_s of the rows, infinite where all edges are kept."""

    inverse: Tensor
    scales: Tensor


def layer_edges(graph: GpuGraph, segments: Segments, faults: Faults) -> LayerEdges:
    """Find the edges of a layer, and number their sources. Waits for the device.

    Raises
    ------
    Fault
        One that `faults` has, or "no source" for an edge whose source is no node.
    """
    device, num_dst = segments.device, len(segments)
    picker = AllPicker() if graph.weights is None else PositivePicker(graph.weights)
    offsets = torch.zeros(num_dst + 1, dtype=torch.int64, device=device)
    torch.cumsum(picker.counts(segments), 0, out=offsets[1:])
    (num_edges,) = faults.check(offsets[-1])
    positions = torch.empty(num_edges, dtype=torch.int64, device=device)
    picker.pick(segments, offsets, positions)
    neighbors, _ = look_up(graph, Picks(offsets, positions, None), faults, edge_ids=False)
    numbering = Numbering(min(num_edges, graph.num_nodes), device)
    none, sizes = torch.split(torch.zeros(3, dtype=torch.int64, device=device), [1, 2])
    sources = numbering.add(neighbors, None, none, sizes)
    num_candidates, _ = faults.check(sizes)
    shares = None
    if graph.weights is not None:
        shares = torch.empty(num_edges, dtype=torch.float64, device=device)
        arguments = (graph.weights, offsets, num_dst, positions, shares)
        launch("find_shares", (graph.weights.dtype,), 32 * num_dst, *arguments, device=device)
    return LayerEdges(offsets, positions, sources, shares, num_candidates)


def solve_labor_importance(edges: LayerEdges, fanout: int, rounds: int) -> LaborImportance:
    """Solve for the probabilities that destinations agree on.

    Parameters
    ----------
    edges
        Of the layer.
    fanout
        Whose precision is wanted, `ALL` for all edges.
    rounds
        How many, or `UNTIL_CONVERGED`, which waits for the device once a round.
    """
    solver = _Solver(edges, fanout)
    until_converged = rounds == UNTIL_CONVERGED
    size = solver.spread(0, until_converged)
    for number in range(1, rounds + 1 if rounds > 0 else ALL):
        solver.turn(number)
        if number == rounds:
            break
        before, size = size, solver.spread(number, until_converged)
        if until_converged and not size < _CONVERGED * before:
            break
        if not until_converged and number % ROUNDS_PER_LOOK == 0 and solver.changes_nothing():
            break
    return LaborImportance(solver.inverse, solver.scales)


class _Solver:
    """The state between rounds: `inverse` and `scales` of the last one, and `next` for the one that comes."""

    def __init__(self, edges: LayerEdges, fanout: int) -> None:
        device = edges.offsets.device
        self._edges = edges
        self._fanout = fanout
        self._of_edges = torch.empty(len(edges.sources), dtype=torch.float64, device=device)
        self._largest = torch.empty(edges.num_candidates, dtype=torch.float64, device=device)
        self.inverse = torch.ones_like(self._largest)
        self._next = torch.empty_like(self._largest)
        self.scales = torch.empty(len(edges.offsets) - 1, dtype=torch.float64, device=device)
        self._last_scales: Tensor | None = None
        self._solve(0)

    def turn(self, number: int) -> None:
        """Begin a round: what has been spread is what scales are solved for."""
        self.inverse, self._next = self._next, self.inverse
        if number % ROUNDS_PER_LOOK == 0:
            self._last_scales = self.scales.clone()
        self._solve(number)

    def spread(self, number: int, want_size: bool) -> float:
        """Make the next probabilities of sources; return the sum of them if it is wanted."""
        edges, device = self._edges, self.scales.device
        shares = edges.shares if number == 0 else None
        self._largest.zero_()
        num_dst, num_candidates = len(self.scales), edges.num_candidates
        arguments = (edges.offsets, num_dst, edges.sources, shares, self.scales, self._largest)
        launch("raise_sources", (edges.sources.dtype,), 32 * num_dst, *arguments, device=device)
        size = torch.zeros(2, dtype=torch.int64, device=device) if want_size else None
        candidates = (num_candidates, self.inverse, self._largest, self._next, size)
        launch("spread_scales", (), num_candidates, *candidates, device=device)
        return 0.0 if size is None else _value(*size.tolist())

    def changes_nothing(self) -> bool:
        """Whether all further rounds would give what this one did: they are functions of pi and c alone."""
        assert self._last_scales is not None
        return torch.equal(self._next, self.inverse) and torch.equal(self.scales, self._last_scales)

    def _solve(self, number: int) -> None:
        edges, num_dst = self._edges, len(self.scales)
        of_edges = (edges.sources, edges.shares, self.inverse, self._of_edges)
        arguments = (edges.offsets, num_dst, self._fanout, number, *of_edges, self.scales)
        launch("solve_rows", (edges.sources.dtype,), 32 * num_dst, *arguments, device=self.scales.device)


def _value(low: int, high: int) -> float:
    """Return a fixed sum as ``FixedSum::value`` does; its units are 2^-52."""
    units = low + (high << 32)
    return ldexp(float(units >> 20), -32) + ldexp(float((units & 0xFFFFF) << 43), -95)


class LaborImportancePicker:
    """Keeps each edge whose variate is below the probability that all destinations of the hop have agreed on.

    Parameters
    ----------
    graph
        With weights, to pick by them.
    make_shared
        Returns the variates of edges.
    fanout, rounds
        See `solve_labor_importance`.
    faults
        Of the segments.
    """

    def __init__(
        self,
        graph: GpuGraph,
        make_shared: Callable[[Segments], SharedVariates],
        fanout: int,
        rounds: int,
        faults: Faults,
    ) -> None:
        self._graph = graph
        self._make_shared = make_shared
        self._fanout = fanout
        self._rounds = rounds
        self._faults = faults
        self._kept: tuple[LayerEdges, LaborImportance, Tensor] | None = None

    def counts(self, segments: Segments) -> Tensor:
        """Solve for the whole frontier, and return how many edges stay."""
        edges = layer_edges(self._graph, segments, self._faults)
        importance = solve_labor_importance(edges, self._fanout, self._rounds)
        shared = self._make_shared(segments)
        quotients = torch.empty(len(edges.sources), dtype=torch.float64, device=segments.device)
        counts = torch.empty_like(segments.degrees)
        num_dst = len(segments)
        launch(
            "count_kept", (edges.sources.dtype,), 32 * num_dst, *shared.arguments, segments.starts, edges.offsets,
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
