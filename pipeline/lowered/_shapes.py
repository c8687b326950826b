"""The shapes of padded batches: found by sampling alone, or given; and the one that a batch has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.pipeline.data import MiniBatch
from headrace.pipeline.data.padding import Sizes
from headrace.pipeline.plan import Plan, RunSettings
from headrace.pipeline.storage.terminal import progress_bar

#: A shape has so many times the rows of the next smaller.
STEP = 1.25


@dataclass(frozen=True)
class Shapes:
    """A few shapes, of which each batch has the smallest that it fits: that depends on the batch alone.

    Parameters
    ----------
    full
        The sizes that all batches fit that have as many seeds as the largest, with a padding row in each hop.
    short
        Those of batches with fewer seeds, such as the last of an epoch, as far as they fit them; None for none.
    num_shapes
        Shapes up to these sizes. Beyond them there are as many as batches need.
    """

    full: Sizes
    short: Sizes | None
    num_shapes: int

    def of(self, batch: Sizes) -> Sizes:
        """Return the sizes of a batch with padding; it has these without."""
        needed = batch.with_room
        if self.short is not None and needed.num_seeds < self.full.num_seeds and needed.fits(self.short):
            return self.short
        seeds = 0
        while not needed.seeds_fit(_scaled(self.full, seeds, 0)):
            seeds += 1
        hops = 1 - self.num_shapes
        while not needed.fits(sizes := _scaled(self.full, seeds, hops)):
            hops += 1
        return sizes


def _scaled(sizes: Sizes, seeds: int, hops: int) -> Sizes:
    """Return the sizes times powers of 1.25: seeds, in which batches hardly vary, and what hops found."""

    def scaled(counts: tuple[int, ...], step: int) -> tuple[int, ...]:
        return counts if step == 0 else tuple(math.ceil(max(count, 1) * STEP**step) for count in counts)

    first, *others = sizes.nodes
    (num_seeds,) = scaled((sizes.num_seeds,), seeds)
    nodes = (scaled(first, seeds), *(scaled(hop, hops) for hop in others))
    return Sizes(num_seeds, nodes, tuple(scaled(hop, hops) for hop in sizes.edges))


def found_shapes(plan: Plan, epochs: int, num_shapes: int, settings: RunSettings) -> Shapes:
    """Return the shapes that all batches of the first epochs fit, of all ranks, by sampling them.

    Parameters
    ----------
    plan
        Samples, and fetches nothing.
    epochs, num_shapes
        As for `Pad`.
    settings
        Those of the stage that pads.
    """
    # By the number of seeds: only the whole epoch shows how many a full batch has.
    largest: dict[int, Sizes] = {}
    for batch in _batches(plan, epochs, settings):
        sizes = Sizes.of(batch).with_room
        largest[batch.num_seeds] = sizes.larger(largest.get(batch.num_seeds, sizes))
    full = largest.pop(max(largest))
    short = None
    for sizes in largest.values():
        short = sizes if short is None else sizes.larger(short)
    return Shapes(full, short, num_shapes)


def _batches(plan: Plan, epochs: int, settings: RunSettings) -> Iterator[MiniBatch]:
    num_threads, world_size = settings.num_threads, settings.world_size
    for rank in range(world_size):
        with plan.loader(num_threads=num_threads, rank=rank, world_size=world_size, prefetch=False) as loader:
            for epoch in loader.epochs(epochs):
                yield from progress_bar(loader, desc=f"pad: sizes of epoch {epoch}", unit="batch", delay=1)
