"""Padding a batch to the shape that it fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from threading import Lock
from typing import Any, ClassVar

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.sampling.pad import Padded, pad_edges, pad_rows, real_rows
from headrace.pipeline.data import Block, MiniBatch
from headrace.pipeline.data.padded_batch import PaddedBatch
from headrace.pipeline.data.padded_block import PaddedBlock
from headrace.pipeline.data.padding import Sizes
from headrace.pipeline.lowered._shapes import Shapes, found_shapes
from headrace.pipeline.plan import PADDED, Counts, MapStage, Plan, RankTraits, Runner, RunSettings
from headrace.pipeline.plan.traits import Shown


@dataclass(frozen=True, eq=False, repr=False)
class PadBatch(MapStage):
    """Pad every batch to one of a few shapes, which the first batch waits for.

    Parameters
    ----------
    plan
        The plan of the batches, without what follows their sampling: its epochs have the sizes.
    given
        Sizes that the user chose, in place of it.
    epochs, num_shapes
        As `Pad` has them; `num_shapes` is that by default, too.
    square
        Whether one block may have all nodes as destinations, because no hop made it.
    """

    name: ClassVar[str] = "pad_batch"
    lowered: ClassVar[bool] = True
    gives: ClassVar[str | None] = PADDED
    ranks: ClassVar[RankTraits] = RankTraits(cooperates=False, keeps_rows=True)
    reads: ClassVar[frozenset[str]] = frozenset({"seeds", "n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})
    writes: ClassVar[frozenset[str]] = frozenset({"n_id", "blocks"})

    plan: Plan
    given: Sizes | None
    epochs: int
    num_shapes: int
    square: bool

    def shown(self) -> list[Shown]:
        values = {"given": self.given, "epochs": self.epochs, "shapes": self.num_shapes, "square": self.square}
        defaults = {"given": None, "square": False}
        return [Shown(name, value, defaults.get(name, MISSING), named=True) for name, value in values.items()]

    def runner(self, settings: RunSettings) -> Runner:
        shapes = self._shapes(settings)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            known, real = shapes(), Sizes.of(batch)
            sizes = known.of(real)
            padded = pad_batch(batch, sizes, square=self.square)
            return padded, {
                "padding_nodes": sum(sizes.num_nodes) - sum(real.num_nodes),
                "padding_edges": sum(sizes.num_edges) - sum(real.num_edges),
                "larger_batches": int(not sizes.fits(known.full)),
            }

        return run

    def _shapes(self, settings: RunSettings) -> Callable[[], Shapes]:
        """Return a function that returns the shapes; its first call finds them, and calls of other threads wait."""
        found: list[Shapes] = [] if self.given is None else [Shapes(self.given, None, self.num_shapes)]
        lock = Lock()

        def shapes() -> Shapes:
            with lock:
                if not found:
                    found.append(found_shapes(self.plan, self.epochs, self.num_shapes, settings))
                return found[0]

        return shapes


def pad_batch(batch: MiniBatch, sizes: Sizes, *, square: bool) -> PaddedBatch:
    """Return a batch with padding.

    Raises
    ------
    InputError
        If it has more than these sizes, or labels for which there is no number that losses ignore.
    """
    nodes = Padded(batch.num_sampled_nodes, sizes.num_nodes)
    seeds = Padded((batch.num_seeds,), (sizes.num_seeds,))
    mask = real_rows(nodes, batch.n_id.device)
    layers = _layers(batch, sizes, square=square)
    blocks = [_padded(block, nodes, mask, *layer) for block, layer in zip(batch.blocks, layers, strict=True)]
    of_seeds = {
        "seeds": pad_rows(batch.seeds, seeds, -1),
        "seed_index": _padded_index(batch, nodes, seeds),
        "item_index": pad_rows(batch.item_index, seeds, -1),
    }
    if batch.y is not None:
        of_seeds["y"] = pad_rows(batch.y, seeds, _ignored(batch.y))
    if batch.seed_time is not None:
        of_seeds["seed_time"] = pad_rows(batch.seed_time, seeds, 0)
    if batch.seed_slot is not None:
        of_seeds["seed_slot"] = pad_rows(batch.seed_slot, seeds, -1)
    if batch.slot is not None:  # padding has the tree of a padded seed
        of_seeds["slot"] = pad_rows(batch.slot, nodes, sizes.num_seeds - 1)
    edges = [edges for _, _, edges in layers]
    return PaddedBatch.of(
        batch,
        sizes,
        n_id=pad_rows(batch.n_id, nodes, -1),
        node={name: pad_rows(rows, nodes, 0) for name, rows in batch.node.items()},
        edge={
            name: tuple(pad_rows(rows, layer, 0) for rows, layer in zip(parts, edges, strict=True))
            for name, parts in batch.edge.items()
        },
        blocks=tuple(blocks),
        **of_seeds,
    )


#: Of a block the hops of its sources, those of its destinations, and its edges.
_Layer = tuple[int, int, Padded]


def _layers(batch: MiniBatch, sizes: Sizes, *, square: bool) -> list[_Layer]:
    """Return how each block is made of hops, input side first."""
    hops, edges = len(batch.num_sampled_edges), Padded(batch.num_sampled_edges, sizes.num_edges)
    if square and len(batch.blocks) == 1 and batch.blocks[0].num_dst == batch.blocks[0].num_src:
        return [(hops + 1, hops + 1, edges)]
    if len(batch.blocks) == 1:  # all hops share it
        return [(hops + 1, hops, edges)]
    of_hops = [Padded((count,), (size,)) for count, size in zip(edges.counts, edges.sizes, strict=True)]
    return [(hop + 2, hop + 1, of_hops[hop]) for hop in reversed(range(hops))]


def _padded(block: Block, nodes: Padded, mask: Tensor, src_hops: int, dst_hops: int, edges: Padded) -> PaddedBlock:
    sources, destinations = nodes.first(src_hops), nodes.first(dst_hops)
    indptr, indices = pad_edges(block.indptr, block.indices, sources=sources, destinations=destinations, edges=edges)
    return PaddedBlock(
        indptr=indptr,
        indices=indices,
        num_src=sources.num_rows,
        num_dst=destinations.num_rows,
        edge_ids=None if block.edge_ids is None else pad_rows(block.edge_ids, edges, -1),
        weight=None if block.weight is None else pad_rows(block.weight, edges, 1),
        src_mask=mask[: sources.num_rows],
        dst_mask=mask[: destinations.num_rows],
    )


def _padded_index(batch: MiniBatch, nodes: Padded, seeds: Padded) -> Tensor:
    """Return the row of each seed; padded seeds have the padding rows of seeds in turn."""
    (rows,), (padding,) = seeds.padding(), nodes.padding()[:1]
    index = pad_rows(batch.seed_index, seeds, 0)
    turn = torch.arange(rows.stop - rows.start, device=index.device) % max(padding.stop - padding.start, 1)
    index[rows] = (padding.start + turn).view(-1, *(1 for _ in index.shape[1:]))
    return index


def _ignored(labels: Any) -> float:
    """Return the label that losses ignore."""
    if not isinstance(labels, Tensor):
        raise InputError("pad: expected labels of one node type, got labels of several")
    if labels.dtype.is_floating_point or labels.dtype.is_complex:
        return math.nan
    if not labels.dtype.is_signed:
        raise InputError(
            f"pad: expected labels of a dtype that has nan or -100 for padded seeds, got {labels.dtype}; store them as "
            "int64 or float32"
        )
    return -100
