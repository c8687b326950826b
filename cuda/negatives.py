"""Negative destinations of pairs, drawn on a device: twin of ``ops/native/links/negatives.cpp``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.faults import Faults
from headrace.cuda.launch import launch

#: Kinds of faults, by their numbers in ``kernels/negatives.cu``.
FAULTS = (
    "broken degrees",
    "no edges",
    "no weight",
    "wrong prefix",
    "wrong count",
    "wrong total",
    "no source",
    "no node",
    "no row",
    "no negative",
)

#: Laws by their numbers there.
UNIFORM, IN_DEGREE, WEIGHT = range(3)


class NegativeNodes(NamedTuple):
    """The nodes first, ..., last - 1, and how likely each is.

    Attributes
    ----------
    first, last
        The range.
    law
        Its number.
    sums
        float64[size], running sums of weights, of the law by weight.
    order
        int64[size], the nodes in another order, or None.
    size
        Entries of the order, or nodes.
    """

    first: int
    last: int
    law: int
    sums: Tensor | None
    order: Tensor | None
    size: int


class Pairs(NamedTuple):
    """Pairs that negatives are drawn for.

    Attributes
    ----------
    counts
        int64[num_pairs] on the device, as the others: the negatives of each.
    sources
        int64[num_pairs]: no node with an edge from it is drawn; None for any node.
    prefix
        int64[num_pairs], how many nodes of the order each draws from; None for all.
    first
        Where they begin among all pairs that share the key.
    """

    counts: Tensor
    sources: Tensor | None
    prefix: Tensor | None
    first: int


def draw_negatives(
    indptr: Tensor, indices: Tensor, num_nodes: int, nodes: NegativeNodes, pairs: Pairs, key: int, total: int | None
) -> Tensor:
    """Return negatives, int64[sum of counts], pair by pair. Waits for the device once; twice without `total`, the sum.

    `indptr`, int64[num_nodes + 1], and `indices`, int32 or int64[num_edges], are on the device or in memory that it
    reads, as are the arrays of nodes. Where nobody is rejected, nor drawn by degree, indptr may be that of a part.

    Raises
    ------
    Fault
        Of the kinds `FAULTS`: of a pair, of a place of the order ("no node") or of a node ("no row").
    """
    first, last, law, sums, order, size = nodes
    counts, sources, prefix, first_pair = pairs
    device, num_pairs, num_edges = counts.device, len(counts), len(indices)
    faults = Faults(FAULTS, device)
    ends = torch.cumsum(counts, 0)
    if total is None:
        total = int(ends[-1]) if num_pairs else 0
    launch(
        "check_negatives", (), max(num_pairs, 1), indptr, num_nodes, num_edges, first, last, law, sums, size,
        counts, ends, num_pairs, total, sources, prefix, faults.items, device=device,
    )  # fmt: skip
    if total < 0:
        faults.check()  # some count is below 0
    drawn = torch.empty(total, dtype=torch.int64, device=device)
    launch(
        "draw_negatives", (indices.dtype,), 32 * num_pairs, indptr, indices, num_edges, first, last, law, sums, order,
        size, counts, ends, num_pairs, sources, prefix, first_pair, key, drawn, faults.items, device=device,
    )  # fmt: skip
    faults.check()
    return drawn


def count_below(numbers: Tensor, bounds: Tensor, *, strictly: bool) -> Tensor:
    """Return how many of ascending numbers are no larger than each bound, or smaller: int64[num_bounds].

    Both are int64, bounds on the device and numbers in memory that it reads.
    """
    counts = torch.empty_like(bounds)
    arguments = (numbers, len(numbers), bounds, len(bounds), strictly, counts)
    launch("count_below", (), len(bounds), *arguments, device=bounds.device)
    return counts
