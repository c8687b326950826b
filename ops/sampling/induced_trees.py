"""The edges among the nodes of each of several trees, which may share nodes."""

from __future__ import annotations

import torch

from headrace.ops.sampling.rules import NeighborRule
from headrace.ops.sampling.saint import Subgraph
from headrace.ops.sampling.sample import sample_hop

#: In-edges that are looked at together: a hub may be in every tree.
MOST_EDGES = 1 << 22


def induced_in_trees(
    indptr: torch.Tensor,
    indices: torch.Tensor,
    nodes: torch.Tensor,
    slots: torch.Tensor,
    *,
    num_threads: int = 1,
    most_edges: int = MOST_EDGES,
) -> Subgraph:
    """Return all edges that begin and end in one tree, for each of them: what `induced_subgraph` gives of its nodes.

    Time follows the nodes of the trees and their in-degrees, memory the nodes and `most_edges`.

    Parameters
    ----------
    indptr : torch.Tensor
        int64[num_graph_nodes + 1].
    indices : torch.Tensor
        int32[num_graph_edges] or int64[num_graph_edges].
    nodes : torch.Tensor
        int64[num_nodes], distinct within a tree.
    slots : torch.Tensor
        int64[num_nodes], the tree of each.
    num_threads : int
        The result does not depend on it.
    most_edges : int
        In-edges that are looked at together; one node's are looked at together in any case.

    Returns
    -------
    Subgraph
        Of all trees, in local ids: places in `nodes`.
    """
    size = len(indptr) - 1
    keys, order = torch.sort(slots * size + nodes)
    degrees = indptr[nodes + 1] - indptr[nodes]
    chunks = _chunks(degrees, most_edges)
    counts, sources, positions = (
        [torch.zeros(1, dtype=torch.int64, device="cpu")],
        [indices.new_empty(0)],
        [nodes.new_empty(0)],
    )
    for first, last in chunks:
        hop = sample_hop(indptr, indices, nodes[first:last], NeighborRule(-1), 0, num_threads=num_threads)
        of_row = torch.repeat_interleave(hop.indptr.diff())
        wanted = slots[first:last][of_row] * size + hop.neighbors
        places = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        kept = (keys[places] == wanted).nonzero().squeeze(1)
        counts.append(torch.bincount(of_row[kept], minlength=last - first))
        sources.append(order[places[kept]].to(indices.dtype))
        positions.append(hop.positions[kept])
    return Subgraph(torch.cat(counts).cumsum(0), torch.cat(sources), torch.cat(positions))


def _chunks(degrees: torch.Tensor, most_edges: int) -> list[tuple[int, int]]:
    """Return ranges of nodes whose in-edges are at most so many, or one node each."""
    ends = degrees.cumsum(0)
    chunks, first = [], 0
    while first < len(degrees):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(torch.searchsorted(ends, before + most_edges, right=True)))
        chunks.append((first, last))
        first = last
    return chunks
