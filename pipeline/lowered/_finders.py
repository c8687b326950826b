"""Who finds the edges of a hop, as one value that the hop holds, and the form in which edges are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from headrace.ops.sampling.sample import Hop as PickedEdges
from headrace.pipeline.data import Block, MiniBatch, Place
from headrace.pipeline.plan import Divided, RankTraits, Runner, RunSettings

if TYPE_CHECKING:
    from headrace.pipeline.distributed.exchange import Exchange
    from headrace.pipeline.lowered.induce_hop import InduceHop
    from headrace.pipeline.lowered.sample_hop import HopStage, SampleHop


@dataclass(frozen=True)
class SampledHop:
    """A batch with the edges that a hop has picked, in global ids, for `Compact` to number.

    Attributes
    ----------
    batch
        The batch.
    hop
        The edges.
    edge_ids: int64[num_edges] or None
        Their original ids, if the owners of their destinations have sent these; None if `Compact` looks them up.
    """

    batch: MiniBatch
    hop: PickedEdges
    edge_ids: Tensor | None = None


@dataclass(frozen=True)
class FoundLayer:
    """A batch with a layer that a hop has found, with local ids, for `Compact` to add.

    Attributes
    ----------
    batch
        The batch.
    block
        The layer.
    nodes: int64[num_src] or None
        Its sources, destinations first; None if they are the nodes of the batch.
    exchange
        The exchange of the rows of its sources between ranks; None if the batch has none for it.
    counts
        Counts for each layer that uses the block.
    """

    batch: MiniBatch
    block: Block
    nodes: Tensor | None = None
    exchange: Exchange | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


class Finder(ABC):
    """Base of the values that state who finds the edges of a hop."""

    ranks: ClassVar[RankTraits]
    """The traits of a stage whose edges are found in this way."""

    reads_at: ClassVar[Place | None] = None
    """The place where the batch must be; None for any place."""

    reads: ClassVar[frozenset[str]] = frozenset()
    """Names of the fields of a batch that it reads, beside those of any hop; it writes them as well."""

    def divided(self) -> tuple[Divided, ...]:
        """Return the partition of the work among ranks, if there is one."""
        return ()

    def check(self, stage: HopStage) -> None:
        """Refuse a stage whose edges cannot be found in this way."""
        del stage

    @abstractmethod
    def sampler(self, stage: SampleHop, settings: RunSettings) -> Runner:
        """Return the function that picks in-edges of the frontier by the rule of a stage."""

    @abstractmethod
    def inducer(self, stage: InduceHop, settings: RunSettings) -> Runner:
        """Return the function that finds all edges among the nodes of the batch."""


@dataclass(frozen=True)
class Here(Finder):
    """The process that runs the hop finds all edges, in its own graph."""

    ranks: ClassVar[RankTraits] = RankTraits()

    def sampler(self, stage: SampleHop, settings: RunSettings) -> Runner:
        return stage.sampler(settings)

    def inducer(self, stage: InduceHop, settings: RunSettings) -> Runner:
        return stage.inducer(settings)


#: The finder of hops that no pass has given to other ranks.
HERE = Here()
