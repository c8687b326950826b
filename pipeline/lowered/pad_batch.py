"""Padding a batch to the shape that it fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.forks import ProcessLock
from headrace.ops.sampling.pad import Padded, pad_edges, pad_rows, real_rows
from headrace.pipeline.data import Block, FeatureName, MiniBatch, trusted, type_number
from headrace.pipeline.data.padded_batch import PaddedBatch
from headrace.pipeline.data.padded_block import PaddedBlock, PaddedIds
from headrace.pipeline.data.padding import Sizes
from headrace.pipeline.lowered._pad_layout import Layer, Layout, layers_of
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
        lock = ProcessLock()

        def shapes() -> Shapes:
            with lock.held():
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
    layout, device = Layout.of(batch, Sizes.of(batch), sizes), batch.n_id.device
    nodes, seeds = layout.nodes, Padded((batch.num_seeds,), (sizes.num_seeds,))
    n_id = pad_rows(batch.n_id, nodes, layout.node_fill(device))
    types = None if batch.types is None else PaddedIds(batch.types.node_types, batch.types.edge_types, n_id)
    mask, layers = real_rows(nodes, device), layers_of(batch, square=square)
    return PaddedBatch.of(
        batch,
        sizes,
        n_id=n_id,
        types=types,
        blocks=tuple(
            _padded(block, layout, layer, mask, types) for block, layer in zip(batch.blocks, layers, strict=True)
        ),
        node={name: pad_rows(rows, _rows_of(name, batch, layout), 0) for name, rows in batch.node.items()},
        edge={
            name: tuple(
                pad_rows(rows, _edges_of(name, batch, layout, layer), 0)
                for rows, layer in zip(parts, layers, strict=True)
            )
            for name, parts in batch.edge.items()
        },
        **_of_seeds(batch, nodes, seeds),
    )


def _of_seeds(batch: MiniBatch, nodes: Padded, seeds: Padded) -> dict[str, Any]:
    """Return the fields of seeds, with padding, as far as the batch has them."""
    found: dict[str, Any] = {"seed_index": _padded_index(batch, nodes, seeds)}
    for name, fill in (("seeds", -1), ("item_index", -1), ("seed_time", 0), ("seed_slot", -1)):
        if (values := getattr(batch, name)) is not None:
            found[name] = pad_rows(values, seeds, fill)
    if batch.y is not None:
        found["y"] = pad_rows(batch.y, seeds, _ignored(batch.y))
    if batch.link_types is not None:
        found["link_types"] = batch.link_types.map(lambda numbers: pad_rows(numbers, seeds, -1))
    if batch.slot is not None:  # padding has the tree of a padded seed
        found["slot"] = pad_rows(batch.slot, nodes, seeds.num_rows - 1)
    return found


def _rows_of(name: FeatureName, batch: MiniBatch, layout: Layout) -> Padded:
    """Return the rows of a node feature: of all nodes, or of those of a type."""
    if batch.types is None or isinstance(name, str):
        return layout.nodes
    return layout.nodes_of_type(type_number(batch.types.node_types, name[0]))


def _edges_of(name: FeatureName, batch: MiniBatch, layout: Layout, layer: Layer) -> Padded:
    """Return the rows of an edge feature for a block: of all edges, or of those of a type."""
    if batch.types is None or isinstance(name, str):
        return layout.edges_of(layer)
    return layout.edges_of_type(layer, type_number(batch.types.edge_types, name[0]))


def _padded(block: Block, layout: Layout, layer: Layer, mask: Tensor, types: PaddedIds | None) -> PaddedBlock:
    nodes, edges = layout.nodes, layout.edges_of(layer)
    sources, destinations = nodes.first(layer.src_hops), nodes.first(layer.dst_hops)
    ends = {"sources": sources, "destinations": destinations}
    indptr, indices = pad_edges(block.indptr, block.indices, **ends, edges=edges, padding=layout.padding_edges(layer))
    fill = layout.edge_fill(layer, block.indptr.device)
    return trusted(
        PaddedBlock(
            indptr=indptr,
            indices=indices,
            num_src=sources.num_rows,
            num_dst=destinations.num_rows,
            edge_ids=None if block.edge_ids is None else pad_rows(block.edge_ids, edges, fill),
            weight=None if block.weight is None else pad_rows(block.weight, edges, 1),
            types=None if types is None else types.of(types.ids[: sources.num_rows]),
            src_mask=mask[: sources.num_rows],
            dst_mask=mask[: destinations.num_rows],
        ),
        like=block,
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
