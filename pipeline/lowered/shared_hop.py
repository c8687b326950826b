"""One hop of all ranks together over edges that they share: each finds those that it holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.edge_shard import edge_shard
from headrace.pipeline.distributed.exchange import Exchange
from headrace.pipeline.distributed.shared_block import LocalEdges, SharedBlock
from headrace.pipeline.distributed.shared_edges import FoundEdges, find_edges
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.plan.checks import check_graph, check_items_fit, check_shares_edges
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner, Stage
from headrace.pipeline.plan.traits import Divided


@dataclass(frozen=True, eq=False, repr=False)
class SharedStage(MapStage):
    """Base of the stages that find edges where they are held.

    Parameters
    ----------
    graph
        The graph.
    layer
        The first hop that the stage stands for.
    partition
        The owner of each edge and the master of each node; one part for each rank.
    edge_ids
        Whether blocks carry the original ids of their edges.
    """

    lowered: ClassVar[bool] = True
    reads_at: ClassVar[Place | None] = CPU
    collective: ClassVar[bool] = True
    shares_layers: ClassVar[bool] = True

    graph: GraphView
    layer: int = field(kw_only=True)
    partition: EdgePartition = field(kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes", "exchanges"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges", "exchanges"})

    @property
    def first_hop(self) -> int | None:
        return self.layer

    def divided(self) -> tuple[Divided, ...]:
        return (Divided("the partition", self.partition.nodes),)

    def check(self, before: tuple[Stage, ...]) -> None:
        check_items_fit(self, self.graph, before)
        check_shares_edges(self.partition, self.origin.name, self.graph)

    def extended(self, batch: MiniBatch, found: FoundEdges, comm: Comm, rows_comm: Comm, num_layers: int) -> MiniBatch:
        """Return the batch with what was found as its first layers."""
        positions = found.hop.positions
        block: Any = SharedBlock(
            num_src=len(found.nodes),
            num_dst=len(batch.n_id),
            edges=LocalEdges(found.hop.indptr, found.indices, positions, found.sources.num_mirrored),
            sources=found.sources,
            destinations=found.destinations,
            comm=rows_comm,
            batch=comm.place,
            edge_ids=self.graph.original_edge_ids(positions) if self.edge_ids else None,
        )
        exchange = Exchange.staying(found.nodes, comm.world_size)
        new = [len(found.nodes) - len(batch.n_id), *[0] * (num_layers - 1)]
        return batch.replace(
            n_id=found.nodes,
            blocks=(*[block] * num_layers, *batch.blocks),
            exchanges=(*[exchange] * num_layers, *batch.exchanges),
            num_sampled_nodes=(*batch.num_sampled_nodes, *new),
            num_sampled_edges=(*batch.num_sampled_edges, *[block.num_edges] * num_layers),
        )


def count_found(found: FoundEdges, before: MiniBatch, num_layers: int) -> Counts:
    """Return what a stage found, and what the model will exchange for it in each direction.

    Rows go from masters to mirrors and come back to masters; a message is what one rank sends another of them.
    """
    sources, destinations = found.sources, found.destinations
    pairs = sum(map(bool, sources.send_counts)) + sum(map(bool, destinations.receive_counts))
    return {
        "nodes": len(found.nodes) - len(before.n_id),
        "edges": num_layers * len(found.hop.neighbors),
        "rows_to_mirrors": num_layers * sources.num_sent,
        "rows_to_masters": num_layers * destinations.num_received,
        "messages": num_layers * pairs,
        **asdict(found.traffic),
    }


@dataclass(frozen=True, eq=False, repr=False)
class SharedHop(SharedStage):
    """Take all in-edges of a layer's destinations, on the ranks that hold them (GraphTheta, arXiv 2104.10569).

    The pass ``cooperative`` puts it in the place of a hop that takes all edges, where ranks share edges by an
    `EdgePartition`. Parameters as for :class:`SharedStage`.
    """

    name: ClassVar[str] = "shared_hop"

    @property
    def num_hops(self) -> int:
        return 1

    def runner(self, settings: RunSettings) -> Runner:
        comm, rows_comm = settings.channels()
        shard = edge_shard(self.partition, settings.rank)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            found = find_edges(shard, batch.n_id, comm, settings.num_threads)
            return self.extended(batch, found, comm, rows_comm, 1), count_found(found, batch, 1)

        return run
