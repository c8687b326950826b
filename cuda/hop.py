"""One hop on a device, whoever picks: twin of ``ops/native/sampling/hop_loop.hpp``."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from headrace.cuda.faults import Faults
from headrace.cuda.launch import launch
from headrace.cuda.sizes import Sizes

#: Kinds of faults of hops, by their numbers in ``kernels/segments.cuh``; the second and the third are of seeds alone.
FAULTS = ("no node", "no tree", "repeated", "no row", "no source")
#: Where those of seeds that are there twice are reported.
REPEATED = FAULTS.index("repeated")


class Relations(NamedTuple):
    """Which rows nodes of a graph with types have: twin of ``ops/native/sampling/relations.hpp``.

    Attributes
    ----------
    ranges
        int64[num_ranges, 4] on the device: the first node and the end of a range of destinations, the row of the first
        node, and how many rows a node has.
    num_nodes
        Nodes of the graph.
    """

    ranges: Tensor
    num_nodes: int


class GpuGraph(NamedTuple):
    """Arrays of a graph that kernels can read, on the device or in pinned memory of the host.

    Attributes
    ----------
    indptr
        int64[num_rows + 1]: rows are nodes, or with types those that `relations` lead to.
    indices
        int32 or int64[num_edges].
    edge_ids
        The same, or None for positions.
    times
        int64[num_edges] or None.
    weights
        float32 or float64[num_edges] in CSC order, for picks by weight, or None.
    sums
        Their running sums, as `headrace.cuda.pick_weighted` makes them, or None to make those of each frontier.
    relations
        Of a graph with types.
    ranks
        Of a part of a graph, int64: which rows indptr bounds, as `RankedRows.blocks`; None for all.
    num_rows
        Of a part of a graph, rows of the whole.
    """

    indptr: Tensor
    indices: Tensor
    edge_ids: Tensor | None = None
    times: Tensor | None = None
    weights: Tensor | None = None
    sums: Tensor | None = None
    relations: Relations | None = None
    ranks: Tensor | None = None
    num_rows: int | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        if self.relations is not None:
            return self.relations.num_nodes
        return self.indptr.shape[0] - 1 if self.num_rows is None else self.num_rows


class Frontier(NamedTuple):
    """What a hop samples for.

    Attributes
    ----------
    nodes
        int64[room].
    size
        int64[1], how many of them there are; None for all.
    slots, bounds, lows
        int64[room] or None.
    """

    nodes: Tensor
    size: Tensor | None = None
    slots: Tensor | None = None
    bounds: Tensor | None = None
    lows: Tensor | None = None


class Segments(NamedTuple):
    """The in-edges that each element of a frontier may pick from, or with types of each relation.

    Attributes
    ----------
    nodes
        As in the frontier; the numbers of rows where there are types. They key the draws.
    slots
        As in the frontier.
    starts, degrees
        int64[num_dst]: degrees[i] edges from CSC position starts[i] on.
    """

    nodes: Tensor
    slots: Tensor | None
    starts: Tensor
    degrees: Tensor

    def __len__(self) -> int:
        """Return for how many elements there are segments."""
        return self.nodes.shape[0]

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.nodes.device

    def with_degrees(self, degrees: Tensor) -> Segments:
        """Return segments that begin where these do, with other degrees."""
        return Segments(self.nodes, self.slots, self.starts, degrees)


class Picker(Protocol):
    """Picks from segments, knowing nothing of rows, bounds and other segments."""

    # One that looks at edges to count them may have `most`, the most that it can pick of these.

    def counts(self, segments: Segments) -> Tensor:
        """Return how many edges will be picked of each segment, int64[num_dst]."""

    def pick(self, segments: Segments, indptr: Tensor, positions: Tensor) -> Tensor | None:
        """Write the CSC positions of picks, those of element i from positions[indptr[i]] on.

        Returns importance weights, float32 and as many, if the picker has any.
        """


class Picks(NamedTuple):
    """What a hop picked: at positions[indptr[i]], ..., positions[indptr[i + 1] - 1] for element, or segment, i."""

    indptr: Tensor
    positions: Tensor
    weights: Tensor | None


def find_segments(
    graph: GpuGraph, frontier: Frontier, faults: Faults, *, most: int = 0, counts: Tensor | None = None
) -> Segments:
    """Return the in-edges that each element of a frontier may pick from.

    Parameters
    ----------
    graph, frontier
        Of what, and for what.
    faults
        Of the kinds `FAULTS`.
    most, counts
        With counts, int64[num_dst + 1], it gets a 0, and behind that the degrees, but no more than `most` each.
    """
    device = frontier.nodes.device
    num_dst = frontier.nodes.shape[0]
    starts = torch.empty(num_dst, dtype=torch.int64, device=device)
    degrees = torch.empty_like(starts)
    launch(
        "find_segments", (), max(num_dst, 1), graph.indptr, graph.ranks, graph.num_nodes, graph.indices.shape[0],
        frontier.nodes, num_dst, frontier.size, graph.times if frontier.bounds is not None else None, frontier.bounds,
        frontier.lows, most, starts, degrees, counts, faults.items, device=device,
    )  # fmt: skip
    return Segments(frontier.nodes, frontier.slots, starts, degrees)


def pick(
    segments: Segments,
    picker: Picker,
    sizes: Sizes,
    *,
    room: int | None = None,
    bounded: bool = False,
    counts: Tensor | None = None,
) -> Picks:
    """Pick from segments.

    Parameters
    ----------
    segments, picker
        Of what, and by what.
    sizes
        Gives room for the picks.
    room
        The most edges that there can be; positions then have room for as many. None: as many as `sizes` says.
    bounded
        Whether there may be more room than there are edges, if the picker knows a bound.
    counts
        A 0, and how many edges will be picked of each segment, int64[num_dst + 1], which are summed up in place. None:
        the picker knows.
    """
    device = segments.device
    if counts is not None:
        indptr = torch.cumsum(counts, 0, out=counts)
    else:
        indptr = torch.zeros(len(segments) + 1, dtype=torch.int64, device=device)
        torch.cumsum(picker.counts(segments), 0, out=indptr[1:])
    if room is None and bounded:
        room = getattr(picker, "most", None)
    if room is None:
        degrees, indptr, room = sizes.fit(segments.degrees, indptr)
        segments = segments.with_degrees(degrees)
    positions = torch.empty(room, dtype=torch.int64, device=device)
    return Picks(indptr, positions, picker.pick(segments, indptr, positions))


def look_up(
    graph: GpuGraph, picks: Picks, faults: Faults | None, *, edge_ids: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Return the sources of picked edges, and their ids if they are asked for.

    Parameters
    ----------
    graph, picks
        The edges.
    faults
        Where sources that are no nodes are reported; None to take them as they are.
    edge_ids
        Whether to return ids.
    """
    positions = picks.positions
    room = positions.shape[0]
    neighbors, edges, id_type = found_edges(graph, positions, edge_ids)
    launch(
        "look_up", (neighbors.dtype, id_type), room, graph.indices, graph.num_nodes, graph.edge_ids, positions, room,
        picks.indptr[-1:], neighbors, edges, None if faults is None else faults.items, device=positions.device,
    )  # fmt: skip
    return neighbors, edges


def found_edges(graph: GpuGraph, positions: Tensor, edge_ids: bool) -> tuple[Tensor, Tensor | None, torch.dtype]:
    """Return room for sources of edges at positions, and for their ids, and the dtype that ids have in the graph."""
    neighbors = torch.empty_like(positions, dtype=graph.indices.dtype)
    id_type = torch.int64 if graph.edge_ids is None else graph.edge_ids.dtype
    return neighbors, torch.empty_like(positions) if edge_ids else None, id_type
