"""What belongs to a batch whose source has a boundary, found node by node."""

from __future__ import annotations

import torch

import headrace as hr


def bounded_edges(graph: hr.Graph, seeds: torch.Tensor, boundary: int, num_hops: int) -> list[list[int]]:
    """The ids of the edges of each layer, input side first: in-edges of what is known, from allowed nodes."""
    indptr, indices = graph.indptr.tolist(), graph.indices.tolist()
    allowed = set(seeds.tolist())
    for _ in range(boundary):
        allowed |= {u for v in allowed for u in indices[indptr[v] : indptr[v + 1]]}
    known, layers = set(seeds.tolist()), []
    for _ in range(num_hops):
        positions = [at for v in known for at in range(indptr[v], indptr[v + 1]) if indices[at] in allowed]
        layers.insert(0, sorted(graph.edge_ids[positions].tolist()))
        known |= {indices[at] for at in positions}
    return layers


def edges_by_hand(batch: hr.MiniBatch) -> list[list[int]]:
    """The ids of the edges of each block, checked against its ends."""
    return [sorted(block.edge_ids.tolist()) for block in batch.blocks]
