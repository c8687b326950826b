"""Several hops of a minibatch, each renumbered: what `headrace.ops.BlockSampler` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.ops.reference.hop import sample_hop
from headrace.ops.reference.renumber import compact
from headrace.ops.sampling.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class SampledHop:
    """As headrace.ops.SampledHop, in NumPy."""

    indptr: IntArray
    indices: IntArray
    edge_ids: IntArray
    num_dst: int
    num_src: int
    weights: NDArray[np.float32] | None


@dataclass(frozen=True)
class Sampled:
    """As headrace.ops.Sampled, in NumPy."""

    n_id: IntArray
    hops: list[SampledHop]
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]


def sample_blocks(
    indptr: IntArray,
    indices: IntArray,
    seeds: IntArray,
    rules: Sequence[Rule],
    keys: Sequence[int],
    *,
    expand: str = "all",
    edge_ids: IntArray | None = None,
    weights: NDArray[Any] | None = None,
) -> Sampled:
    """Hop, compact, hop, compact: what headrace.ops.BlockSampler returns."""
    n_id = np.asarray(seeds, np.int64)
    first = 0
    hops: list[SampledHop] = []
    num_nodes, num_edges = [len(n_id)], []
    for rule, key in zip(rules, keys, strict=True):
        hop = sample_hop(indptr, indices, n_id[first:], rule, key, weights=weights)
        seen = len(n_id)
        n_id, local = compact(n_id, hop.neighbors)
        ids = hop.positions if edge_ids is None else np.asarray(edge_ids, np.int64)[hop.positions]
        num_nodes.append(len(n_id) - seen)
        num_edges.append(len(local))
        hops.append(SampledHop(hop.indptr, local, ids, seen - first, len(n_id), hop.weights))
        if expand == "new":
            first = seen
    if expand == "new":
        hops = [_merge(hops)]
    return Sampled(n_id, hops, num_nodes, num_edges)


def _merge(hops: list[SampledHop]) -> SampledHop:
    """Put the rows of all hops, which are about different destinations, behind each other."""
    degrees = np.concatenate([np.diff(hop.indptr) for hop in hops])
    parts = [hop.weights for hop in hops if hop.weights is not None]
    return SampledHop(
        np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)]),
        np.concatenate([hop.indices for hop in hops]),
        np.concatenate([hop.edge_ids for hop in hops]),
        len(degrees),
        hops[-1].num_src,
        np.concatenate(parts) if len(parts) == len(hops) else None,
    )
