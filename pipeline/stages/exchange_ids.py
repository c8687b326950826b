"""Exchange of ids: every vertex of a layer goes to the rank that owns it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from headrace.ops.gather import gather_rows
from headrace.pipeline.batch import MiniBatch
from headrace.pipeline.exchange import Exchange, exchange_ids
from headrace.pipeline.graph import Graph
from headrace.pipeline.partition import Partition
from headrace.pipeline.stage import MapStage, Runner, RunSettings, Stage, verb
from headrace.pipeline.stages.checks import check_partition_fits


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
    renumber
        Whether the batch takes on the order in which rows will come, so that none has to be moved then: local ids of
        the last block, or of the seeds, are changed. If not, `exchange_rows` restores the order that the batch has.
    """

    on_host: ClassVar[bool] = True
    collective: ClassVar[bool] = True

    partition: Partition
    renumber: bool = field(default=True, kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        renumbered = {"blocks", "seed_index"} if self.renumber else set()
        return frozenset({"n_id", "num_sampled_nodes", "exchanges"} | renumbered)

    def check(self, upstream: tuple[Stage, ...]) -> None:
        for stage in upstream:
            graph = getattr(stage, "graph", None)
            if isinstance(graph, Graph):
                check_partition_fits(self.verb, self.partition, stage.verb, graph)

    def runner(self, settings: RunSettings) -> Runner:
        comm, rows_comm = settings.channels()

        def run(batch: MiniBatch) -> MiniBatch:
            exchange = exchange_ids(batch.n_id, self.partition, comm, rows_comm)
            found = len(exchange.owned) - len(batch.n_id)
            if self.renumber:
                batch, exchange = _renumbered(batch, exchange)
            return batch.replace(
                n_id=exchange.owned,
                exchanges=(exchange, *batch.exchanges),
                num_sampled_nodes=(*batch.num_sampled_nodes[:-1], batch.num_sampled_nodes[-1] + found),
            )

        return run

    def counts(self, before: MiniBatch, after: MiniBatch) -> dict[str, int]:
        del before
        return {"rounds": 1, "collectives": 2, "sent_bytes": 8 * after.exchanges[0].num_received}


def _renumbered(batch: MiniBatch, exchange: Exchange) -> tuple[MiniBatch, Exchange]:
    """Return the batch with local ids that lead to ``exchange.wanted``, which needs no places then."""
    assert exchange.places is not None  # as exchange_ids returns it
    adopted = replace(exchange, places=None)
    if not batch.blocks:
        return batch.replace(seed_index=exchange.places[batch.seed_index]), adopted
    first, *others = batch.blocks
    indices = gather_rows(exchange.places.to(first.indices.dtype), first.indices)
    return batch.replace(blocks=(replace(first, indices=indices), *others)), adopted
