"""Where the edges of pairs of nodes are, on a device: twin of ``ops/native/links/find_edges.cpp``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.faults import Faults
from headrace.cuda.launch import launch

#: Kinds of faults, by their numbers in ``kernels/find_edges.cu``.
FAULTS = ("wrong ends", "no source", "no destination", "no row")

#: Threads that read rows: how many edges these have is known on the device alone.
_READERS = 1 << 18


class Rows(NamedTuple):
    """Rows of in-edges, on the device or in memory that it reads.

    Attributes
    ----------
    indptr
        int64[num_rows + 1].
    indices
        int32 or int64[num_edges].
    ranges
        int64[num_ranges, 5] on the device: rows of nodes by relation, as `TypedRows.ranges`; None where rows are nodes.
    edge_ids
        int32 or int64[num_edges], by which edges are meant; None for their positions.
    ranks, num_rows
        Of a part of a graph, as in `headrace.cuda.hop.GpuGraph`.
    """

    indptr: Tensor
    indices: Tensor
    ranges: Tensor | None = None
    edge_ids: Tensor | None = None
    ranks: Tensor | None = None
    num_rows: int | None = None


class Pairs(NamedTuple):
    """Pairs of nodes, all int64[num_pairs] on the device.

    Attributes
    ----------
    sources, destinations
        Their ends.
    slots
        Their trees, or None.
    relations
        Of what relation each edge is to be, where rows have ranges.
    wanted
        Which edge is meant of each, -1 for none; None for all of them.
    """

    sources: Tensor
    destinations: Tensor
    slots: Tensor | None = None
    relations: Tensor | None = None
    wanted: Tensor | None = None


class Found(NamedTuple):
    """Edges by row, and by slot where there are slots, as `headrace.ops.EdgePositions`."""

    rows: Tensor
    starts: Tensor
    positions: Tensor
    slots: Tensor | None


class _Sorted(NamedTuple):
    """Pairs ascending by row, source and group; a group is a row, or one of its slots."""

    rows: Tensor
    sources: Tensor
    groups: Tensor
    wanted: Tensor | None


def find_edges(graph: Rows, pairs: Pairs) -> Found:
    """Return the edges of pairs. Waits for the device once, for their number.

    Raises
    ------
    Fault
        Of the kinds `FAULTS`.
    """
    device, num_pairs = pairs.sources.device, len(pairs.sources)
    num_bounded, num_edges = len(graph.indptr) - 1, len(graph.indices)
    num_rows = num_bounded if graph.num_rows is None else graph.num_rows
    faults = Faults(FAULTS, device)
    rows = torch.empty(num_pairs, dtype=torch.int64, device=device)
    num_ranges = 0 if graph.ranges is None else len(graph.ranges)
    launch(
        "place_pairs", (), max(num_pairs, 1), graph.indptr, num_bounded, num_rows, num_edges, pairs.sources,
        pairs.destinations, num_pairs, graph.ranges, num_ranges, pairs.relations, rows, faults.items, device=device,
    )  # fmt: skip
    by_group, groups = _grouped(rows, pairs.slots)
    order = _by(_by(by_group, pairs.sources), rows)
    wanted = None if pairs.wanted is None else pairs.wanted[order]
    ordered = _Sorted(rows[order], pairs.sources[order], groups[order], wanted)
    lengths = torch.empty_like(rows)
    arguments = (graph.indptr, graph.ranks, num_edges, ordered.rows, num_pairs, lengths, faults.items)
    launch("measure_rows", (), num_pairs, *arguments, device=device)
    ends = torch.cumsum(lengths, 0)
    # Most pairs have an edge, and few have several.
    positions, of_groups, counts, total = _match(graph, ordered, ends, 2 * num_pairs)
    size, num_groups = faults.check(total, (counts > 0).sum())
    if size > len(positions):
        positions, of_groups, counts, _ = _match(graph, ordered, ends, size)
    positions, in_order = positions[:size].sort()
    if pairs.slots is not None:
        positions = positions[of_groups[in_order].argsort(stable=True)]
    there = (counts == 0).argsort(stable=True)[:num_groups]
    first = by_group[there]
    starts = torch.zeros(num_groups + 1, dtype=torch.int64, device=device)
    torch.cumsum(counts[there], 0, out=starts[1:])
    return Found(rows[first], starts, positions, None if pairs.slots is None else pairs.slots[first])


def _by(order: Tensor, keys: Tensor) -> Tensor:
    """Return an order of items, int64[n], sorted by their keys."""
    return order[keys[order].argsort(stable=True)]


def _grouped(rows: Tensor, slots: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return pairs in the order of their groups, and the group of each: where in that order the group begins."""
    order = rows.argsort(stable=True) if slots is None else _by(slots.argsort(stable=True), rows)
    places = torch.arange(len(order), device=rows.device)
    begins = torch.ones_like(places, dtype=torch.bool)
    begins[1:] = rows[order].diff() != 0
    if slots is not None:
        begins[1:] |= slots[order].diff() != 0
    first = torch.where(begins, places, 0)
    if len(first):
        first = first.cummax(0).values
    return order, torch.empty_like(first).scatter_(0, order, first)


def _match(graph: Rows, pairs: _Sorted, ends: Tensor, room: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return positions of edges and their groups, int64[room], how many each group has, and how many there are."""
    device, num_pairs = ends.device, len(ends)
    positions, of_groups = (torch.empty(room, dtype=torch.int64, device=device) for _ in range(2))
    counts = torch.zeros(num_pairs, dtype=torch.int64, device=device)
    total = torch.zeros(1, dtype=torch.int64, device=device)
    id_type = torch.int64 if graph.edge_ids is None else graph.edge_ids.dtype
    launch(
        "match_edges", (graph.indices.dtype, id_type), min(num_pairs, 1) * _READERS, graph.indptr, graph.ranks,
        graph.indices, graph.edge_ids, *pairs[:3], pairs.wanted, num_pairs, ends, room, positions, of_groups, counts,
        total, device=device,
    )  # fmt: skip
    return positions, of_groups, counts, total
