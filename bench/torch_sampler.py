"""Neighbours sampled by torch's operations alone, on whatever device the graph is: what one writes without kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def pick(indptr: Tensor, indices: Tensor, frontier: Tensor, fanout: int) -> tuple[Tensor, Tensor]:
    """Pick up to `fanout` in-neighbours of each node, without replacement: all in-edges in a random order, row by row.

    Returns
    -------
    degrees : torch.Tensor
        int64[len(frontier)], how many were picked of each.
    neighbors : torch.Tensor
        [sum(degrees)] of the dtype of `indices`.
    """
    starts = indptr[frontier]
    degrees = indptr[frontier + 1] - starts
    first = degrees.cumsum(0) - degrees
    rows = torch.repeat_interleave(torch.arange(len(frontier), device=frontier.device), degrees)
    number = torch.arange(len(rows), device=rows.device) - first[rows]
    # One key orders by rows, and within a row at random.
    order = torch.argsort(rows + torch.rand(len(rows), dtype=torch.float64, device=rows.device))
    kept = number < fanout
    return degrees.clamp(max=fanout), indices[(starts[rows] + number)[order[kept]]]


def sample(indptr: Tensor, indices: Tensor, seeds: Tensor, fanouts: Sequence[int]) -> tuple[Tensor, int]:
    """Sample blocks, each for all nodes seen before; return the nodes and the number of edges."""
    nodes, num_edges = seeds, 0
    for fanout in fanouts:
        _, neighbors = pick(indptr, indices, nodes, fanout)
        # Local ids, as a model needs them; in the order of ids, which costs less than that of seeing them first.
        nodes, _ = torch.unique(torch.cat([nodes, neighbors.to(nodes.dtype)]), return_inverse=True)
        num_edges += len(neighbors)
    return nodes, num_edges
