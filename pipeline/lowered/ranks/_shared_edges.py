"""Hops over edges that ranks share: each finds those that it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from torch import Tensor

from headrace.pipeline.data import CPU, MiniBatch, Place
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.edge_shard import EdgeShard, edge_shard
from headrace.pipeline.distributed.exchange import Exchange
from headrace.pipeline.distributed.shared_block import LocalEdges, SharedBlock
from headrace.pipeline.distributed.shared_edges import FoundEdges, find_edges, find_edges_within
from headrace.pipeline.lowered._finders import Finder, FoundLayer
from headrace.pipeline.lowered.induce_hop import InduceHop
from headrace.pipeline.lowered.sample_hop import HopStage, SampleHop
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.plan import Counts, Divided, RankTraits, Runner, RunSettings
from headrace.pipeline.plan.checks import check_shares_edges


@dataclass(frozen=True)
class SharedEdges(Finder):
    """Ranks find the in-edges that they hold of all nodes of a layer (GraphTheta, arXiv 2104.10569).

    The pass ``cooperative`` gives it to hops that take all edges, where ranks share edges by an `EdgePartition`. Of
    subgraphs, edges that lead out of the batch are dropped, by what the masters of their sources answer.

    Parameters
    ----------
    partition
        The owner of each edge and the master of each node; one part for each rank.
    """

    ranks: ClassVar[RankTraits] = RankTraits(collective=True, shares_layers=True)
    reads_at: ClassVar[Place | None] = CPU
    reads: ClassVar[frozenset[str]] = frozenset({"exchanges"})

    partition: EdgePartition

    def divided(self) -> tuple[Divided, ...]:
        return (Divided("the partition", self.partition.nodes),)

    def check(self, stage: HopStage) -> None:
        check_shares_edges(self.partition, stage.origin.name, stage.graph)

    def sampler(self, stage: SampleHop, settings: RunSettings) -> Runner:
        return self._runner(stage, settings, find_edges)

    def inducer(self, stage: InduceHop, settings: RunSettings) -> Runner:
        return self._runner(stage, settings, find_edges_within)

    def _runner(
        self, stage: HopStage, settings: RunSettings, find: Callable[[EdgeShard, Tensor, Comm, int], FoundEdges]
    ) -> Runner:
        comm, rows_comm = settings.channels()
        shard = edge_shard(self.partition, settings.rank)

        def run(batch: MiniBatch) -> tuple[FoundLayer, Counts]:
            found = find(shard, batch.n_id, comm, settings.num_threads)
            positions = found.hop.positions
            block: Any = SharedBlock(
                num_src=len(found.nodes),
                num_dst=len(batch.n_id),
                edges=LocalEdges(found.hop.indptr, found.indices, positions, found.sources.num_mirrored),
                sources=found.sources,
                destinations=found.destinations,
                comm=rows_comm,
                batch=comm.place,
                edge_ids=stage.graph.original_edge_ids(positions) if stage.edge_ids else None,
            )
            exchange = Exchange.staying(found.nodes, comm.world_size)
            return FoundLayer(batch, block, found.nodes, exchange, _count_messages(found)), asdict(found.traffic)

        return run


def _count_messages(found: FoundEdges) -> Counts:
    """Return what the model will exchange for a layer in each direction.

    Rows go from masters to mirrors and come back to masters; a message is what one rank sends another of them.
    """
    sources, destinations = found.sources, found.destinations
    pairs = sum(map(bool, sources.send_counts)) + sum(map(bool, destinations.receive_counts))
    return {"rows_to_mirrors": sources.num_sent, "rows_to_masters": destinations.num_received, "messages": pairs}
