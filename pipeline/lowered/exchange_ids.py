"""Exchange of ids: every node of a layer goes to the rank that owns it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from headrace.ops.features.gather import gather_rows
from headrace.ops.sampling.compact import unique_and_inverse
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.distributed.exchange import Exchange, exchange_ids
from headrace.pipeline.partition.router import RankRouter
from headrace.pipeline.plan.checks import check_partition_fits, graphs_of
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner, Stage
from headrace.pipeline.plan.traits import Divided


@dataclass(frozen=True, eq=False, repr=False)
class ExchangeIds(MapStage):
    """Replace the nodes that this rank found by those that it owns among what all ranks found.

    The step between two hops of cooperative minibatching (arXiv 2310.12403): no node is sampled twice. The pass
    ``cooperative`` puts it behind every stage that finds nodes.

    Parameters
    ----------
    router
        The rank from which this one gets each node: its owner, one part for each rank, or this one for a copy.
    renumber
        Whether the batch takes on the order in which rows will come, so that none has to be moved then: local ids of
        the last block, or of the seeds, are changed. If not, `exchange_rows` restores the order that the batch has.
    """

    name: ClassVar[str] = "exchange_ids"
    lowered: ClassVar[bool] = True

    reads_at: ClassVar[Place | None] = CPU
    collective: ClassVar[bool] = True

    router: RankRouter
    renumber: bool = field(default=True, kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        renumbered = {"blocks", "seed_index", "slot"} if self.renumber else set()
        return frozenset({"n_id", "num_sampled_nodes", "exchanges"} | renumbered)

    @property
    def shares_layers(self) -> bool:
        return self.renumber

    @property
    def keeps_rows(self) -> bool:
        return not self.renumber

    def divided(self) -> tuple[Divided, ...]:
        return (Divided("the partition", self.router.partition),)

    def check(self, before: tuple[Stage, ...]) -> None:
        for sampler, graph in graphs_of(before):
            check_partition_fits(self.router.partition, sampler, graph)

    def runner(self, settings: RunSettings) -> Runner:
        comm, rows_comm = settings.channels()

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            renumbered: dict[str, Any] = {}

            def renumber(places: Tensor) -> None:
                renumbered.update(_local_ids(batch, places))

            nodes, copies = batch.n_id, None
            if batch.slot is not None and not self.renumber:
                nodes, copies = unique_and_inverse(nodes)  # rows of a node are the same in all trees
            exchange = exchange_ids(
                nodes,
                self.router,
                comm,
                slot=batch.slot if self.renumber else None,
                meanwhile=renumber if self.renumber else None,
            )
            if copies is not None and exchange.places is not None:
                exchange = replace(exchange, places=exchange.places[copies])
            found = len(exchange.owned) - len(batch.n_id)
            if self.renumber:
                exchange = replace(exchange, places=None)  # local ids lead to exchange.wanted, as it is
                if batch.types is not None and batch.blocks:
                    first, *others = renumbered["blocks"]
                    renumbered["blocks"] = (replace(first, types=batch.types.of(exchange.wanted)), *others)
            replaced = batch.replace(
                **renumbered,
                n_id=exchange.owned,
                slot=exchange.owned_slot if self.renumber else batch.slot,
                exchanges=(exchange, *batch.exchanges),
                comm=rows_comm,
                num_sampled_nodes=(*batch.num_sampled_nodes[:-1], batch.num_sampled_nodes[-1] + found),
            )
            return replaced, self._counts(exchange)

        return run

    def _counts(self, exchange: Exchange) -> Counts:
        counts = {"rounds": 1, "collectives": 2, "sent_bytes": 8 * exchange.num_received}
        copied = self.router.num_copies(exchange.wanted[: exchange.num_own])
        return {**counts, "copied_rows": copied} if copied else counts


def _local_ids(batch: MiniBatch, places: Tensor) -> dict[str, Any]:
    """Return the fields of the batch that hold local ids of its nodes, which moved to `places`."""
    if not batch.blocks:
        return {"seed_index": places[batch.seed_index]}
    first, *others = batch.blocks
    indices = gather_rows(places.to(first.indices.dtype), first.indices)
    return {"blocks": (replace(first, indices=indices), *others)}
