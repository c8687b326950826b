"""Exchange of ids: every vertex of a layer goes to the rank that owns it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.pipeline.batch import MiniBatch
from headrace.pipeline.exchange import exchange_ids
from headrace.pipeline.graph import Graph
from headrace.pipeline.partition import Partition
from headrace.pipeline.stage import MapStage, Runner, RunSettings, Stage, verb
from headrace.pipeline.stages.checks import check_part_per_rank, check_partition_fits


@verb("exchange_ids")
@dataclass(frozen=True, eq=False, repr=False)
class ExchangeIds(MapStage):
    """Replace the vertices that this rank found by those that it owns among what all ranks found.

    The step between two hops of cooperative minibatching (arXiv 2310.12403): no vertex is sampled twice. The pass
    ``cooperative`` puts it behind every stage that finds vertices.

    Parameters
    ----------
    partition
        The owner of each vertex; one part for each rank.
    """

    on_host: ClassVar[bool] = True
    collective: ClassVar[bool] = True

    partition: Partition

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes", "exchanges"})

    def check(self, upstream: tuple[Stage, ...]) -> None:
        for stage in upstream:
            graph = getattr(stage, "graph", None)
            if isinstance(graph, Graph):
                check_partition_fits(self.verb, self.partition, stage.verb, graph)

    def runner(self, settings: RunSettings) -> Runner:
        comm, rows_comm = settings.channels()
        check_part_per_rank(self.verb, self.partition, comm)

        def run(batch: MiniBatch) -> MiniBatch:
            exchange = exchange_ids(batch.n_id, self.partition, comm, rows_comm)
            found = len(exchange.owned) - len(batch.n_id)
            return batch.replace(
                n_id=exchange.owned,
                exchanges=(exchange, *batch.exchanges),
                num_sampled_nodes=(*batch.num_sampled_nodes[:-1], batch.num_sampled_nodes[-1] + found),
            )

        return run

    def counts(self, before: MiniBatch, after: MiniBatch) -> dict[str, int]:
        del before
        return {"rounds": 1, "collectives": 2, "sent_bytes": 8 * after.exchanges[0].num_received}
