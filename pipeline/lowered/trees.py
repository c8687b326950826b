"""The trees that seeds grow in disjoint and temporal sampling: who is in which, and how far back each may look."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from headrace.ops.sampling.sampled import Trees as SeedTrees
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.times import earliest_allowed, latest_of


@dataclass(frozen=True)
class Trees:
    """That each seed grows a tree of its own, and which edges are there for it.

    Attributes
    ----------
    time : str or None
        Name of the times that bound the trees, by which the graph is sorted; None for trees without.
    window : float or None
        How long before its seed a tree begins; None for always.
    strictly_before : bool
        Whether trees leave out edges of their seed's own time.
    """

    time: str | None = None
    window: float | None = None
    strictly_before: bool = False

    @property
    def reads(self) -> frozenset[str]:
        """Names of the batch's fields that hops in trees read."""
        return frozenset({"slot"} if self.time is None else {"slot", "seed_time"})

    def __str__(self) -> str:
        by_default = Trees()
        given = {name: value for name, value in vars(self).items() if value != getattr(by_default, name)}
        return f"Trees({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def of(self, batch: MiniBatch) -> SeedTrees:
        """Return the trees of a batch, whose seeds are planted, as kernels know them."""
        assert batch.slot is not None  # `plant_trees` stands before all that ask
        bounds = lows = None
        if self.time is not None:
            assert batch.seed_time is not None  # likewise
            bounds = latest_of(batch.seed_time, strictly_before=self.strictly_before)
            lows = earliest_allowed(batch.seed_time, self.window, strictly_before=self.strictly_before)
        known = next((len(values) for values in (batch.seed_slot, bounds) if values is not None), None)
        num_trees = known if known is not None else 1 + int(batch.slot.max()) if len(batch.slot) else 0
        return SeedTrees(batch.slot, num_trees, batch.seed_slot, bounds, lows)


def of_elements(trees: SeedTrees, slot: Tensor) -> dict[str, Tensor | None]:
    """Return what `ops.sample_hop` is to know of elements in slots, int64[n]."""

    def of(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.index_select(0, slot)

    slots = slot if trees.streams is None else of(trees.streams)
    return {"slots": slots, "bounds": of(trees.bounds), "lows": of(trees.lows)}
