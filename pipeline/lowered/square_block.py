"""One square block for all layers of a model: a subgraph of the nodes of a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner


def with_square_block(batch: MiniBatch, block: Block) -> MiniBatch:
    """Return the batch with one block for all layers, in which hops are not told apart."""
    num_seeds = batch.num_sampled_nodes[0]
    return batch.replace(
        blocks=(block,),
        num_sampled_nodes=(num_seeds, len(batch.n_id) - num_seeds),
        num_sampled_edges=(block.num_edges,),
    )


@dataclass(frozen=True, eq=False, repr=False)
class KeepSquareBlock(MapStage):
    """Keep the layer that the batch begins with, and forget the hops by which its nodes were found.

    The pass ``cooperative`` puts it behind the ``induced_hop`` that it makes of ``induce_subgraph``. Two exchanges are
    left: the first is that before each layer, of all nodes of the batch, the second leads from there to the seeds of
    each rank.
    """

    name: ClassVar[str] = "keep_square_block"
    lowered: ClassVar[bool] = True

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "exchanges", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"blocks", "exchanges", "num_sampled_nodes", "num_sampled_edges"})

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            block, layer = batch.blocks[0], batch.exchanges[0]
            # The seeds are the first of the nodes that a rank owns, so rows are sent from the same places.
            of_seeds = replace(batch.exchanges[-1], owned=layer.owned, owned_slot=layer.owned_slot)
            kept = with_square_block(batch.replace(exchanges=(layer, of_seeds)), block)
            return kept, {"induced_edges": block.num_edges}

        return run
