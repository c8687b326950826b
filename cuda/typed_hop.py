"""Hops of graphs with types: each relation by a rule of its own. Twin of ``ops/native/sampling/typed_hop.cpp``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.faults import Faults
from headrace.cuda.hop import Frontier, GpuGraph, Picks, Segments
from headrace.cuda.launch import launch


class Group(NamedTuple):
    """Relations that are picked from together.

    Attributes
    ----------
    relations
        Their numbers, ascending.
    pick
        Picks from their segments.
    """

    relations: Sequence[int]
    pick: Callable[[Segments], Picks]


def pick_by_relation(graph: GpuGraph, frontier: Frontier, faults: Faults, groups: Sequence[Group]) -> Picks:
    """Pick in-edges of each element of a frontier, relation by relation.

    Parameters
    ----------
    graph, frontier
        Of what, which has relations, and for what.
    faults
        Of the kinds `hop.FAULTS`.
    groups
        Each relation is in one of them.
    """
    segments, num_relations = _find_segments(graph, frontier, faults)
    nodes, slots, starts, degrees = segments
    picked = []
    for group in groups:
        own = [_columns(one, group.relations, num_relations) for one in (nodes, starts, degrees)]
        of_slots = None if slots is None else _columns(slots, group.relations, num_relations)
        picked.append(group.pick(Segments(own[0], of_slots, *own[1:])))
    if len(groups) == 1:
        return Picks(picked[0].indptr[::num_relations].contiguous(), *picked[0][1:])
    return _joined(len(frontier.nodes), num_relations, groups, picked, segments.device)


def _find_segments(graph: GpuGraph, frontier: Frontier, faults: Faults) -> tuple[Segments, int]:
    """Return the segments of each element and relation, and the number of relations."""
    assert graph.relations is not None
    num_dst, num_relations = len(frontier.nodes), len(graph.relations.ranges)
    device = frontier.nodes.device
    num_segments = num_dst * num_relations
    rows, starts, degrees = (torch.empty(num_segments, dtype=torch.int64, device=device) for _ in range(3))
    slots = None if frontier.slots is None else torch.empty_like(rows)
    times = None if frontier.bounds is None else graph.times
    launch(
        "find_typed_segments", (), num_segments, graph.indptr, graph.ranks, graph.num_nodes, len(graph.indices),
        graph.relations.ranges, num_relations, frontier.nodes, frontier.slots, num_dst, frontier.size, times,
        frontier.bounds, frontier.lows, rows, slots, starts, degrees, faults.items, device=device,
    )  # fmt: skip
    return Segments(rows, slots, starts, degrees), num_relations


def _columns(of_segments: Tensor, relations: Sequence[int], num_relations: int) -> Tensor:
    """Return what belongs to the segments of some relations, without an index, for which a device would be waited."""
    if len(relations) == num_relations:
        return of_segments
    by_relation = of_segments.view(-1, num_relations)
    return torch.stack([by_relation[:, relation] for relation in relations], 1).flatten()


def _joined(
    num_dst: int, num_relations: int, groups: Sequence[Group], picked: Sequence[Picks], device: torch.device
) -> Picks:
    """Put the picks of groups side by side, element by element."""
    counts = torch.zeros(num_dst, num_relations, dtype=torch.int64, device=device)
    for group, picks in zip(groups, picked, strict=True):
        of_group = picks.indptr.diff().view(num_dst, len(group.relations))
        for place, relation in enumerate(group.relations):
            counts[:, relation] = of_group[:, place]
    indptr = torch.zeros(num_dst + 1, dtype=torch.int64, device=device)
    torch.cumsum(counts.sum(1), 0, out=indptr[1:])
    places = torch.cumsum(counts.flatten(), 0) - counts.flatten()
    positions = torch.empty(sum(len(picks.positions) for picks in picked), dtype=torch.int64, device=device)
    weighted = any(picks.weights is not None for picks in picked)
    weights = torch.empty(len(positions), dtype=torch.float32, device=device) if weighted else None
    for group, picks in zip(groups, picked, strict=True):
        num_segments = len(picks.indptr) - 1
        own = _columns(places, group.relations, num_relations)
        arguments = (picks.indptr, num_segments, picks.positions, picks.weights, own, positions, weights)
        launch("join_picks", (), 32 * num_segments, *arguments, device=device)
    return Picks(indptr, positions, weights)
