"""One hop: what a rule picks for every destination of a frontier. See `headrace.ops.sampling.sample`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.ops.reference.picks import pick_labor, pick_labor_weighted, pick_uniform, pick_weighted
from headrace.ops.reference.random import slot_key
from headrace.ops.sampling.rules import LaborImportanceRule, LaborRule, LadiesRule, LatestRule, NeighborRule, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Hop:
    """As headrace.ops.Hop, in NumPy."""

    indptr: IntArray
    neighbors: IntArray
    positions: IntArray
    weights: NDArray[np.float32] | None


def sample_hop(
    indptr: IntArray,
    indices: IntArray,
    frontier: IntArray,
    rule: Rule,
    key: Any,
    *,
    weights: NDArray[Any] | None = None,
    slots: IntArray | None = None,
    times: IntArray | None = None,
    bounds: IntArray | None = None,
    lows: IntArray | None = None,
    excluded: IntArray | dict[int, IntArray] | None = None,
) -> Hop:
    """Pick in-edges of every node of a frontier; `excluded` are positions of edges that are not there, or by slot."""
    if isinstance(excluded, dict):
        assert slots is not None
        found = [
            sample_hop(
                indptr,
                indices,
                frontier[i : i + 1],
                rule,
                key,
                weights=weights,
                slots=slots[i : i + 1],
                times=times,
                bounds=None if bounds is None else bounds[i : i + 1],
                lows=None if lows is None else lows[i : i + 1],
                excluded=excluded.get(int(slots[i]), np.empty(0, np.int64)),
            )
            for i in range(len(frontier))
        ]
        return _side_by_side(found)
    if excluded is not None:
        kept = np.delete(np.arange(len(indices)), excluded)
        hop = sample_hop(
            np.searchsorted(kept, indptr),
            np.asarray(indices)[kept],
            frontier,
            rule,
            key,
            weights=None if weights is None else np.asarray(weights)[kept],
            slots=slots,
            times=None if times is None else times[kept],
            bounds=bounds,
            lows=lows,
        )
        return replace(hop, positions=kept[hop.positions])
    if isinstance(rule, LaborImportanceRule | LadiesRule):
        from headrace.ops.reference.layer import sample_layer

        return sample_layer(indptr, indices, frontier, rule, key, weights=weights)
    hop_key = key
    starts, positions = [0], []
    edge_weights: list[np.float32] = []
    for i, node in enumerate(map(int, frontier)):
        start, stop = int(indptr[node]), int(indptr[node + 1])
        if bounds is not None and times is not None:
            stop = start + int(np.sum(times[start:stop] <= bounds[i]))
            start += 0 if lows is None else int(np.sum(times[start:stop] < lows[i]))
        key = hop_key if slots is None else slot_key(hop_key, int(slots[i]))
        sources = np.asarray(indices[start:stop], np.int64)
        row = None if weights is None else np.asarray(weights[start:stop], np.float64)
        if isinstance(rule, LatestRule):
            picks = list(range(stop - start))
            picks = picks if rule.fanout == -1 else picks[max(0, len(picks) - rule.fanout) :]
        elif isinstance(rule, NeighborRule):
            if row is None:
                picks = pick_uniform(node, stop - start, rule.fanout, key, replace=rule.replace)
            else:
                picks = pick_weighted(node, row, rule.fanout, key, replace=rule.replace)
        else:
            assert isinstance(rule, LaborRule)
            if row is None:
                picks = pick_labor(sources, rule.fanout, key, exact=rule.exact)
            else:
                picks, values = pick_labor_weighted(sources, row, rule.fanout, key, exact=rule.exact)
                edge_weights += values
        positions += [start + i for i in picks]
        starts.append(len(positions))
    chosen = np.array(positions, np.int64)
    has_weights = weights is not None and isinstance(rule, LaborRule)
    return Hop(
        np.array(starts, np.int64),
        np.asarray(indices, np.int64)[chosen],
        chosen,
        np.array(edge_weights, np.float32) if has_weights else None,
    )


def _side_by_side(hops: list[Hop]) -> Hop:
    """Join hops of one destination each."""
    weights = [hop.weights for hop in hops if hop.weights is not None]
    return Hop(
        np.cumsum([0, *(len(hop.positions) for hop in hops)]),
        np.concatenate([np.empty(0, np.int64), *(hop.neighbors for hop in hops)]),
        np.concatenate([np.empty(0, np.int64), *(hop.positions for hop in hops)]),
        np.concatenate(weights) if weights else None,
    )
