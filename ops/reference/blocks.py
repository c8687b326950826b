"""Several hops of a minibatch, each renumbered: what `headrace.ops.BlockSampler` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.ops.reference.hop import sample_hop
from headrace.ops.sampling.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from headrace.ops.sampling.sampled import Trees

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
    slots: IntArray | None = None


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
    times: IntArray | None = None,
    trees: Trees | None = None,
) -> Sampled:
    """Hop, compact, hop, compact: what headrace.ops.BlockSampler returns.

    With trees an element of a frontier is a pair (node, slot), and a source is in the slot of its destination; without
    them all elements are in one slot.
    """
    seed_slots = np.zeros(len(seeds), np.int64) if trees is None else np.asarray(trees.slots)
    elements = list(zip(np.asarray(seeds).tolist(), seed_slots.tolist(), strict=True))

    def of_trees(name: str, slots: IntArray) -> IntArray | None:
        values = getattr(trees, name, None)
        return None if values is None else np.asarray(values)[slots]

    first = 0
    hops: list[SampledHop] = []
    num_nodes, num_edges = [len(elements)], []
    for rule, key in zip(rules, keys, strict=True):
        nodes, slots = np.array(elements[first:], np.int64).reshape(-1, 2).T
        streams = None if trees is None else slots if trees.streams is None else of_trees("streams", slots)
        hop = sample_hop(
            indptr,
            indices,
            nodes,
            rule,
            key,
            weights=weights,
            slots=streams,
            times=times,
            bounds=of_trees("bounds", slots),
            lows=of_trees("lows", slots),
        )
        seen = len(elements)
        places = {element: place for place, element in enumerate(elements)}
        local = []
        for element in zip(hop.neighbors.tolist(), np.repeat(slots, np.diff(hop.indptr)).tolist(), strict=True):
            if element not in places:
                places[element] = len(elements)
                elements.append(element)
            local.append(places[element])
        ids = hop.positions if edge_ids is None else np.asarray(edge_ids, np.int64)[hop.positions]
        num_nodes.append(len(elements) - seen)
        num_edges.append(len(local))
        hops.append(SampledHop(hop.indptr, np.array(local, np.int64), ids, seen - first, len(elements), hop.weights))
        if expand == "new":
            first = seen
    if expand == "new":
        hops = [_merge(hops)]
    n_id, slots = np.array(elements, np.int64).reshape(-1, 2).T
    return Sampled(n_id, hops, num_nodes, num_edges, None if trees is None else slots)


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
