"""The fused sampler on a device (FastSample, arXiv 2311.17847): twin of ``ops/native/sampling/fused.cpp``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.edge_numbers import EdgeNumbers
from headrace.cuda.elements import GpuTrees, Nodes, TreeElements
from headrace.cuda.excluded import Gaps
from headrace.cuda.faults import Fault, Faults
from headrace.cuda.fetch_rows import Cache, Fetched
from headrace.cuda.hop import FAULTS, REPEATED, GpuGraph, look_up
from headrace.cuda.numbering import Numbering
from headrace.cuda.rules import HopSpec, pick_hop
from headrace.cuda.sizes import MOST_EDGES_UNKNOWN, Sizes, Taken, TooSmallError

#: What local ids of int32 can number.
MOST_LOCAL_IDS = (1 << 31) - 1


class GpuBlock(NamedTuple):
    """One block: int64[num_dst + 1], local sources and edge ids of [num_edges], and how many sources there are.

    Where edges have importance weights these are float32[num_edges].
    """

    indptr: Tensor
    indices: Tensor
    edge_ids: Tensor | None
    num_src: int
    weights: Tensor | None


class GpuSampled(NamedTuple):
    """What the fused sampler returns, as `headrace.ops.Sampled`."""

    n_id: Tensor
    blocks: list[GpuBlock]
    num_nodes: list[int]
    num_edges: list[int]
    slots: Tensor | None
    counts: dict[str, int]


class _Part(NamedTuple):
    """What a hop made, perhaps with room behind it."""

    indptr: Tensor
    indices: Tensor
    edge_ids: Tensor | None
    weights: Tensor | None


class _Asked(NamedTuple):
    """What is sampled: see `sample_blocks`."""

    graph: GpuGraph
    seeds: Tensor
    hops: Sequence[HopSpec]
    only_new: bool
    edge_ids: bool
    numbers: EdgeNumbers | None
    trees: GpuTrees | None
    gaps: Gaps | None
    fetch: bool
    cache: Cache | None


def sample_blocks(
    graph: GpuGraph,
    seeds: Tensor,
    hops: Sequence[HopSpec],
    *,
    only_new: bool,
    edge_ids: bool,
    numbers: EdgeNumbers | None,
    taken: Taken,
    trees: GpuTrees | None = None,
    gaps: Gaps | None = None,
    fetch: bool = False,
    cache: Cache | None = None,
) -> GpuSampled:
    """Sample several hops of distinct seeds, int64[num_seeds], or in trees of seeds that are distinct within these.

    Edges at `gaps`, which have slots in trees alone, are not there. The host waits for the device once, at the end.
    Where picks are not bounded, arrays have room by what other minibatches took, which is noted in `taken`; without
    that, or where it was too little, the host waits for the size of each. With `fetch` hops that look at whole rows
    copy these first, through a cache if there is one; there are neither trees nor gaps then. Where the device has no
    memory for arrays with room, it is sampled with the exact size of each from then on, with one warning.

    Raises
    ------
    Fault
        "no node" for a seed that is none, "no tree" for its slot, "repeated" for a seed that is there twice;
        "no row" and "no source" where the graph is damaged; "too many" where local ids do not suffice.
    """
    asked = _Asked(graph, seeds, hops, only_new, edge_ids, numbers, trees, gaps, fetch, cache)
    if not taken.lacks_memory:
        try:
            return _with_room(asked, taken)
        except torch.cuda.OutOfMemoryError as error:
            why = str(error).partition(". ")[0]
        # Behind the error, which kept what was made.
        taken.lacks_memory = True
        message = f"sampling waits for the size of each array, as arrays with more room than edges do not fit: {why}"
        taken.warn(message)
    return _sampled(asked, taken, (), bounded=False)


def _with_room(asked: _Asked, taken: Taken) -> GpuSampled:
    """Sample with room for the most that there can be, or for what others took."""
    if taken.sizes or taken.expected is not None:
        try:
            return _sampled(asked, taken, taken.sizes, expected=taken.expected)
        except (TooSmallError, Fault):
            pass  # where arrays were cut short, the first fault is not known
    return _sampled(asked, taken, ())


def _sampled(
    asked: _Asked, taken: Taken, known_sizes: Sequence[int], *, expected: int | None = None, bounded: bool = True
) -> GpuSampled:
    graph, seeds, hops, only_new, edge_ids, numbers, trees, gaps, fetch, cache = asked
    device = seeds.device
    # Ids of the seeds; behind each hop the ids so far, and its edges; what arrays took.
    num_own = 1 + 2 * len(hops)
    faults = Faults(FAULTS, device, num_sizes=num_own + len(known_sizes))
    num_seen, *of_hops = torch.split(faults.sizes[:num_own], [1, *[2] * len(hops)])
    sizes = Sizes(faults, known_sizes)
    elements = Nodes(graph.num_nodes) if trees is None else TreeElements(graph.num_nodes, trees)
    fetched = Fetched(cache, taken.warn) if fetch else None
    roots = elements.of_seeds(seeds, faults)
    most_ids = max(_all_room(len(seeds), elements.most, hops), taken.num_ids) if bounded else len(seeds)
    numbering = Numbering(most_ids, device, expected)
    numbering.begin(roots, num_seen, faults.items[REPEATED : REPEATED + 1])
    most = len(seeds)  # ids that there can be by now
    parts: list[_Part] = []
    destinations, count = roots, None
    for hop, size in zip(hops, of_hops, strict=True):
        frontier = elements.frontier(destinations, count)
        copied = None
        if fetched is not None and hop.rules[0].reads_whole_rows:
            copied = fetched.pick(graph, frontier, hop, sizes, parallel_edges=numbers is not None)
        if copied is None:
            looked_at, picks = graph, pick_hop(graph, frontier, hop, numbers, sizes, gaps=gaps, bounded=bounded)
        else:
            looked_at, picks = copied.graph, copied.picks
        room = len(picks.positions)
        more = min(most + room, max(most, elements.most))
        numbering.make_room(num_seen, more)
        if trees is None:
            local, edges = numbering.add_sources(
                looked_at, picks, faults, edge_ids=edge_ids, num_seen=num_seen, sizes=size
            )
            if copied is not None and edges is not None:
                copied.return_edges(graph, edges)
        else:
            neighbors, edges = look_up(graph, picks, faults, edge_ids=edge_ids)
            sources = elements.of_sources(neighbors, picks, destinations)
            local = numbering.add(sources, picks.indptr[-1:], num_seen, size).to(neighbors.dtype)
        parts.append(_Part(picks.indptr, local, edges, picks.weights))
        if only_new:
            destinations, count = numbering.new_since(num_seen, size, min(room, more))
        else:
            destinations, count = numbering.ids[:more], size
        num_seen, most = size, more
    found = faults.check()
    num_ids, num_edges = found[:1] + found[1:num_own:2], found[2:num_own:2]
    if num_ids[-1] >= numbering.num_slots:
        raise TooSmallError
    wanted = sizes.wanted(found)
    if bounded:
        taken.note(wanted, most, num_ids[-1])
    if trees is not None and num_ids[-1] > MOST_LOCAL_IDS:
        raise Fault("too many", num_ids[-1])
    blocks = _joined(parts, num_ids, num_edges) if only_new else _cut(parts, num_ids, num_edges)
    new = [num_ids[0], *(after - before for before, after in pairwise(num_ids))]
    n_id, slots = elements.nodes_and_slots(numbering.ids[: num_ids[-1]])
    return GpuSampled(n_id, blocks, new, num_edges, slots, {} if fetched is None else fetched.counts(wanted))


def _all_room(num_seeds: int, num_elements: int, hops: Sequence[HopSpec]) -> int:
    """Return the most ids that there can be, as far as hops are bounded: for more, room is made anew."""
    most = num_seeds
    for hop in hops:
        room = _room(hop, most)
        if room is None:
            break
        most = min(most + room, max(most, num_elements))
    return most


def _room(hop: HopSpec, num_dst: int) -> int | None:
    """Return the most edges that a hop can pick, if that bounds its arrays well."""
    room = hop.most_picks(num_dst)
    return room if room is not None and room <= MOST_EDGES_UNKNOWN else None


def _cut(parts: list[_Part], num_ids: list[int], num_edges: list[int]) -> list[GpuBlock]:
    """Return the hops as blocks of their own, without the room behind them."""
    return [
        GpuBlock(
            part.indptr[: num_dst + 1],
            part.indices[:size],
            None if part.edge_ids is None else part.edge_ids[:size],
            num_src,
            None if part.weights is None else part.weights[:size],
        )
        for part, num_dst, num_src, size in zip(parts, num_ids, num_ids[1:], num_edges, strict=False)
    ]


def _joined(parts: list[_Part], num_ids: list[int], num_edges: list[int]) -> list[GpuBlock]:
    """Return the hops as one block."""
    first, indptr = 0, [parts[0].indptr[:1]]
    num_dst = [num_ids[0], *(after - before for before, after in pairwise(num_ids))]
    for part, rows, size in zip(parts, num_dst, num_edges, strict=False):
        indptr.append(part.indptr[1 : rows + 1] + first)
        first += size
    indices = torch.cat([part.indices[:size] for part, size in zip(parts, num_edges, strict=True)])
    ids = _joined_if_all([part.edge_ids for part in parts], num_edges)
    # Hops of rules that give no weights say nothing about the others' edges: then the block has none either.
    weights = _joined_if_all([part.weights for part in parts], num_edges)
    return [GpuBlock(torch.cat(indptr), indices, ids, num_ids[-1], weights)]


def _joined_if_all(arrays: list[Tensor | None], sizes: list[int]) -> Tensor | None:
    there = [array[:size] for array, size in zip(arrays, sizes, strict=True) if array is not None]
    return torch.cat(there) if len(there) == len(arrays) else None
