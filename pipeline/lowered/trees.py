"""The trees that seeds grow in disjoint and temporal sampling: who is in which, and how far back each may look."""

from __future__ import annotations

from torch import Tensor

from headrace.ops.sampling.sampled import Trees
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.times import earliest_allowed, latest_of


def trees_of(batch: MiniBatch, time: str | None, window: float | None, *, strictly_before: bool) -> Trees:
    """Return the trees of a batch as kernels know them.

    Parameters
    ----------
    batch
        One whose seeds are planted.
    time
        Name of the times that bound the trees; None for trees without.
    window
        How long before its seed a tree begins; None for always.
    strictly_before
        Whether trees leave out what is of their seed's own time.
    """
    assert batch.slot is not None  # `plant_trees` stands before all that ask
    bounds = lows = None
    if time is not None:
        assert batch.seed_time is not None  # likewise
        bounds = latest_of(batch.seed_time, strictly_before=strictly_before)
        lows = earliest_allowed(batch.seed_time, window, strictly_before=strictly_before)
    known = next((len(values) for values in (batch.seed_slot, bounds) if values is not None), None)
    num_trees = known if known is not None else 1 + int(batch.slot.max()) if len(batch.slot) else 0
    return Trees(batch.slot, num_trees, batch.seed_slot, bounds, lows)


def of_elements(trees: Trees, slot: Tensor) -> dict[str, Tensor | None]:
    """Return what `ops.sample_hop` is to know of elements in slots, int64[n]."""

    def of(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.index_select(0, slot)

    slots = slot if trees.streams is None else of(trees.streams)
    return {"slots": slots, "bounds": of(trees.bounds), "lows": of(trees.lows)}


def tree_fields(disjoint: bool, time: str | None) -> frozenset[str]:
    """Return the fields of a batch that hops in trees read."""
    return frozenset({"slot"} if disjoint else ()) | frozenset(() if time is None else {"seed_time"})
