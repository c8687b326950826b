"""The end of an exchange: the batch has the ids again that this rank wants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner


@dataclass(frozen=True, eq=False, repr=False)
class ReturnIds(MapStage):
    """Put the nodes whose rows this rank needs in the place of those that it owns.

    Parameters
    ----------
    keep
        Whether the batch keeps the exchange, by which a model exchanges rows too; if not, the batch is again what it
        was before its ids were exchanged.
    """

    name: ClassVar[str] = "return_ids"
    lowered: ClassVar[bool] = True
    reads_at: ClassVar[Place | None] = CPU

    keep: bool = field(default=True, kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "exchanges"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"} | ({"slot"} if self.keep else set()))

    @property
    def keeps_rows(self) -> bool:
        return True

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            exchange = batch.exchanges[0]
            n_id = exchange.wanted if exchange.places is None else exchange.wanted[exchange.places]
            if self.keep:
                slot = exchange.wanted_slot
                if slot is not None and exchange.places is not None:
                    slot = slot[exchange.places]
                return batch.replace(n_id=n_id, slot=slot), {}
            *inner, last = batch.num_sampled_nodes
            given_back = batch.replace(
                n_id=n_id,
                exchanges=batch.exchanges[1:],
                comm=batch.comm if len(batch.exchanges) > 1 else None,
                num_sampled_nodes=(*inner, last + len(n_id) - len(exchange.owned)),
            )
            return given_back, {}

        return run
