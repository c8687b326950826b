"""Exchange of rows: features go from the ranks that own vertices to those that need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.pipeline.batch import MiniBatch
from headrace.pipeline.stage import MapStage, Runner, RunSettings, verb


@verb("exchange_rows")
@dataclass(frozen=True, eq=False, repr=False)
class ExchangeRows(MapStage):
    """Send the node features that were fetched for owned vertices to the inputs of ``blocks[0]``.

    The last step of cooperative minibatching (arXiv 2310.12403): every row was read once, by its owner, whose cache
    holds nothing else. The pass ``cooperative`` puts it behind the stages that fetch.
    """

    on_host: ClassVar[bool] = True
    collective: ClassVar[bool] = True

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "exchanges"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id"})

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()

        def run(batch: MiniBatch) -> MiniBatch:
            exchange = batch.exchanges[0]
            node = {name: exchange.deliver(rows, comm) for name, rows in batch.node.items()}
            return batch.replace(n_id=exchange.wanted, node=node)

        return run

    def counts(self, before: MiniBatch, after: MiniBatch) -> dict[str, int]:
        exchange = after.exchanges[0]
        row_bytes = sum(rows[:1].numel() * rows.element_size() for rows in after.node.values())
        rounds = len(before.node)
        return {"rounds": rounds, "collectives": rounds, "received_bytes": row_bytes * exchange.num_received}
