"""How likely nodes are to be reached, hop by hop, from seeds of given chances: the laws behind `inclusion`.

A node comes to the frontier once, as a seed or at one of the hops; nodes are taken to come independently of each other.
What one node picks at several hops hangs together, as it is there at the later ones if it was at the earlier ones. So
no product is taken over hops: it is found for each node how likely it is to have picked an in-edge *by now*, at any
hop since it came, and products go over different nodes alone. Each law yields the chances after each hop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.ops import LaborImportanceRule, LaborRule, NeighborRule, reach_sources
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.lowered import Hop, SampleHop

#: Edges that are worked on at once, of one row more where it is longer.
PIECE_EDGES = 1 << 22
_MOST_STEPS = 60


def edge_picks(indptr: Tensor, weights: Tensor, rule: NeighborRule | LaborRule | LaborImportanceRule) -> Tensor:
    """Return the probability of each edge to be picked once its destination is there, float32[num_edges].

    Draws with replacement and LABOR say what it is. Successive draws without replacement have no closed form: theirs
    is that of a race with exponential times, 1 - exp(-c * weight), with the c of each row for which as many edges as
    are picked are expected. It is exact for equal weights, and for long rows.
    """
    starts, values = indptr.numpy(), weights.numpy()
    picks = np.empty(len(values), dtype=np.float32)
    for first, last, edges in edge_pieces(starts):
        rows = np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))
        picks[edges] = _of_rows(rows, last - first, values[edges].astype(np.float64), rule)
    return torch.from_numpy(picks)


def edge_pieces(starts: NDArray[np.int64]) -> Iterator[tuple[int, int, slice]]:
    """Yield pieces of whole rows that are worked on at once: the first row, that behind the last, and the edges."""
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + PIECE_EDGES, side="right")) - 1
        last = min(max(last, first + 1), len(starts) - 1)
        yield first, last, slice(int(starts[first]), int(starts[last]))
        first = last


def _of_rows(
    rows: NDArray[np.int64],
    num_rows: int,
    weights: NDArray[np.float64],
    rule: NeighborRule | LaborRule | LaborImportanceRule,
) -> NDArray[np.float64]:
    """Return the probabilities of the edges of some rows; `rows` is each edge's."""

    def summed(terms: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(rows, terms, minlength=num_rows).astype(np.float64, copy=False)

    positive = weights > 0
    counts, sums = summed(positive.astype(np.float64)), summed(weights)
    shares = weights / np.maximum(sums, np.finfo(np.float64).tiny)[rows]
    if rule.fanout < 0:
        return positive.astype(np.float64)
    if isinstance(rule, NeighborRule) and rule.replace:
        return 1 - (1 - np.minimum(shares, 1.0)) ** rule.fanout
    takes_all = positive & (counts <= rule.fanout)[rows]
    if not isinstance(rule, NeighborRule):
        return np.where(takes_all, 1.0, np.minimum(1.0, rule.fanout * shares))
    scales = np.where(counts > rule.fanout, float(rule.fanout), 0.0)
    for _ in range(_MOST_STEPS):  # Newton's steps from below: what is expected is a concave function of the scale
        left = np.exp(-scales[rows] * shares)
        lacking = np.where(counts > rule.fanout, rule.fanout - summed((1 - left) * positive), 0.0)
        steps = lacking / np.maximum(summed(shares * left), np.finfo(np.float64).tiny)
        scales += np.maximum(steps, 0.0)
        if np.all(np.abs(lacking) <= 1e-9 * max(rule.fanout, 1)):
            break
    return np.where(takes_all, 1.0, 1 - np.exp(-scales[rows] * shares))


PickRule: TypeAlias = NeighborRule | LaborRule | LaborImportanceRule


def reached_afresh(
    graph: GraphView, hops: Sequence[tuple[SampleHop, PickRule]], seeds: Tensor, num_threads: int | None
) -> Iterator[Tensor]:
    """Yield chances where each hop draws anew, float64[num_nodes], after each hop.

    An edge is reached at a hop if its destination is in the frontier and picks it. Of sources that were not reached
    before, a destination is there as likely as one is that has not picked the edge. Destinations of LABOR share
    variates at a hop; that they did so at earlier ones, too, is not followed.
    """
    degrees = graph.in_degrees().double().clamp(min=1)
    reached = new = seeds
    picked = torch.zeros_like(seeds)  # that a node is there and has picked a certain one of its in-edges
    for stage, rule in hops:
        waiting = (reached - picked).clamp_(min=0) if stage.expand == "all" else new
        picks = row_picks(degrees, rule)
        found = reach_sources(
            graph.indptr,
            graph.indices,
            _given(waiting, picked),
            picks,
            together=not isinstance(rule, NeighborRule) and rule.fanout >= 0,
            num_threads=num_threads,
        )
        picked = picked + waiting * picks
        new = found * (1 - reached)
        reached = reached + new
        yield reached


def reached_by_shared_variates(
    graph: GraphView, hops: Sequence[tuple[SampleHop, PickRule]], seeds: Tensor, num_threads: int | None
) -> Iterator[Tensor]:
    """Yield chances where sources keep their variate from hop to hop (LABOR), float64[num_nodes], after each hop.

    A source is reached if its variate is below the largest probability that any destination has had at any hop.
    """
    degrees = graph.in_degrees().double().clamp(min=1)
    arrivals: list[tuple[PickRule, Tensor]] = []
    reached = new = seeds
    for stage, rule in hops:
        arrivals = _with_arrivals(arrivals, stage, rule, new)
        before, chances, picks = torch.zeros_like(seeds), [], []
        for widest, arrived in arrivals:
            chances.append(_given(arrived, before))
            before = before + arrived
            picks.append(row_picks(degrees, widest))
        # A node that may have come at hops of several fanouts stands for that many: those exclude each other, and are
        # visited by falling fanout, each with its chance given that the node was none of those before.
        copies = len(arrivals)
        starts = [graph.indptr[:-1] + graph.num_edges * copy for copy in range(copies)]
        found = reach_sources(
            torch.cat([*starts, torch.tensor([graph.num_edges * copies], device="cpu")]),
            graph.indices.repeat(copies) if copies > 1 else graph.indices,
            torch.cat(chances),
            torch.cat(picks),
            together=True,
            num_threads=num_threads,
        )[: graph.num_nodes]
        last, reached = reached, _either(seeds, found)
        new = (reached - last).clamp_(min=0)
        yield reached


def reached_by_edges(
    graph: GraphView,
    hops: Sequence[tuple[SampleHop, PickRule]],
    seeds: Tensor,
    num_threads: int | None,
    *,
    shared: bool,
) -> Iterator[Tensor]:
    """Yield chances where in-edges of a node differ, float64[num_nodes], after each hop.

    Different nodes pick independently of each other; with `shared` variates a node keeps its own from hop to hop.
    """
    arrivals: list[tuple[PickRule, Tensor]] = []
    reached = new = seeds
    # That an edge's destination is there and has picked it.
    picked = torch.zeros(graph.num_edges, dtype=torch.float32, device="cpu")
    for stage, rule in hops:
        if shared:
            arrivals = _with_arrivals(arrivals, stage, rule, new)
            picked.zero_()
            for widest, arrived in arrivals:
                _pick(graph, picked, _edge_chances(graph, stage.hop, widest), arrived, again=False)
        else:
            every = stage.expand == "all"
            _pick(graph, picked, _edge_chances(graph, stage.hop, rule), reached if every else new, again=every)
        there = (reached > 0).double()
        found = reach_sources(
            graph.indptr, graph.indices, there, there, edge_picks=picked.clamp_(0, 1), num_threads=num_threads
        )
        last, reached = reached, _either(seeds, found)
        new = (reached - last).clamp_(min=0)
        yield reached


def row_picks(degrees: Tensor, rule: PickRule) -> Tensor:
    """Return how likely a node is to pick a certain one of its in-edges, float64[num_nodes]."""
    if rule.fanout < 0:
        return torch.ones_like(degrees)
    if isinstance(rule, NeighborRule) and rule.replace:
        return 1 - (1 - 1 / degrees) ** rule.fanout
    return (rule.fanout / degrees).clamp(max=1)


def _edge_chances(graph: GraphView, hop: Hop, rule: PickRule) -> Tensor:
    if hop.weight is not None:
        return edge_picks(graph.indptr, graph.edge_weights(hop.weight), rule)
    degrees = graph.in_degrees()
    return row_picks(degrees.double().clamp(min=1), rule).float().repeat_interleave(degrees)


def _pick(graph: GraphView, picked: Tensor, picks: Tensor, there: Tensor, *, again: bool) -> None:
    """Add what destinations that are there pick; `again`, of what they have not picked before."""
    degrees = graph.in_degrees()
    for first, last, edges in edge_pieces(graph.indptr.numpy()):
        waiting = there[first:last].repeat_interleave(degrees[first:last])
        if again:
            waiting = (waiting - picked[edges]).clamp_(min=0)
        picked[edges] += (waiting * picks[edges]).float()


def _with_arrivals(
    arrivals: list[tuple[PickRule, Tensor]], stage: SampleHop, rule: PickRule, new: Tensor
) -> list[tuple[PickRule, Tensor]]:
    """Return nodes by the largest fanout they have picked by, the largest first, and how likely they came for it."""
    if stage.expand == "all":  # those of before pick again
        arrivals = [(max(widest, rule, key=_wanted), arrived) for widest, arrived in arrivals]
    merged: dict[PickRule, Tensor] = {}
    for widest, arrived in [*arrivals, (rule, new)]:
        merged[widest] = merged[widest] + arrived if widest in merged else arrived
    return sorted(merged.items(), key=lambda item: _wanted(item[0]), reverse=True)


def _wanted(rule: PickRule) -> float:
    return math.inf if rule.fanout < 0 else rule.fanout


def _given(chance: Tensor, excluded: Tensor) -> Tensor:
    """Return the chance of something, given that another thing that excludes it was not; 0 where that is certain."""
    return (chance / (1 - excluded)).nan_to_num(0).clamp_(0, 1)


def _either(chance: Tensor, other: Tensor) -> Tensor:
    return chance + other * (1 - chance)
