"""Layers over the subgraph that the nodes of a batch induce, of edges that ranks share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.distributed.edge_shard import edge_shard
from headrace.pipeline.distributed.shared_edges import find_edges_within
from headrace.pipeline.lowered.shared_hop import SharedStage, count_found
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Runner


@dataclass(frozen=True, eq=False, repr=False)
class SharedInduced(SharedStage):
    """Take all edges among the nodes of the batch, on the ranks that hold them: one block for all layers.

    The pass ``cooperative`` puts it in the place of ``sample_induced``, where ranks share edges by an `EdgePartition`.
    Edges that lead out of the batch are dropped as the masters of their sources say.

    Parameters
    ----------
    graph, layer, partition, edge_ids
        As for :class:`~headrace.pipeline.lowered.shared_hop.SharedStage`.
    num_layers
        How many times the block is added.
    """

    name: ClassVar[str] = "shared_induced"

    num_layers: int = field(kw_only=True)

    @property
    def num_hops(self) -> int:
        return self.num_layers

    def runner(self, settings: RunSettings) -> Runner:
        comm, rows_comm = settings.channels()
        shard = edge_shard(self.partition, settings.rank)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            found = find_edges_within(shard, batch.n_id, comm, settings.num_threads)
            extended = self.extended(batch, found, comm, rows_comm, self.num_layers)
            return extended, count_found(found, batch, self.num_layers)

        return run
