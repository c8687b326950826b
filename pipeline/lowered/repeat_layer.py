"""Layers that are the one before once more: within a boundary no hop reaches a new node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner


@dataclass(frozen=True, eq=False, repr=False)
class RepeatLayer(MapStage):
    """Add the layer that the batch begins with again, with the way that its rows take between ranks.

    The pass ``cooperative`` puts it behind ``induced_hop``: the nodes of the batch that a rank owns stay the same, so
    their edges and the ranks of their sources do, and no rank has to ask for them again.

    Parameters
    ----------
    num_layers
        How many times the layer is added.
    first_layer
        The hop that the first of them stands for.
    """

    name: ClassVar[str] = "repeat_layer"
    lowered: ClassVar[bool] = True

    num_layers: int = field(kw_only=True)
    first_layer: int = field(kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"blocks", "exchanges", "num_sampled_nodes", "num_sampled_edges"})

    @property
    def writes(self) -> frozenset[str]:
        return self.reads

    @property
    def first_hop(self) -> int | None:
        return self.first_layer

    @property
    def num_hops(self) -> int:
        return self.num_layers

    def runner(self, settings: RunSettings) -> Runner:
        del settings
        times = self.num_layers

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            num_edges = batch.num_sampled_edges[-1]
            repeated = batch.replace(
                blocks=(*[batch.blocks[0]] * times, *batch.blocks),
                exchanges=(*[batch.exchanges[0]] * times, *batch.exchanges),
                num_sampled_nodes=(*batch.num_sampled_nodes, *[0] * times),
                num_sampled_edges=(*batch.num_sampled_edges, *[num_edges] * times),
            )
            return repeated, {"edges": times * num_edges}

        return run
