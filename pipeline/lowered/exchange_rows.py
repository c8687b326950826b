"""Exchange of rows: features go from the ranks that own vertices to those that need them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.distributed.exchange import take
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner


@dataclass(frozen=True, eq=False, repr=False)
class ExchangeRows(MapStage):
    """Send node features that were fetched for owned vertices to the inputs of ``blocks[0]``.

    Every row was read by its owner alone. The passes ``cooperative`` (arXiv 2310.12403) and ``fetch_at_owners``
    (FastSample, arXiv 2311.17847) put it behind the stages that fetch.

    Parameters
    ----------
    names
        The features.
    keep
        Whether the batch keeps the exchange, by which a model exchanges rows too; if not, the batch is again what it
        was before its ids were exchanged.
    """

    name: ClassVar[str] = "exchange_rows"
    lowered: ClassVar[bool] = True

    on_host: ClassVar[bool] = True
    collective: ClassVar[bool] = True

    names: tuple[str, ...]
    keep: bool = field(default=True, kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "exchanges", *(["node"] if self.names else [])})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def keeps_rows(self) -> bool:
        return True

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            exchange = batch.exchanges[0]
            counts = self._counts(batch)
            n_id = exchange.wanted
            node = {name: exchange.deliver(batch.node[name], comm) for name in self.names}
            if exchange.places is not None:
                n_id = n_id[exchange.places]
                node = {name: take(rows, exchange.places) for name, rows in node.items()}
            returned = batch.replace(n_id=n_id, node={**batch.node, **node})
            if self.keep:
                return returned, counts
            *inner, last = batch.num_sampled_nodes
            given_back = returned.replace(
                exchanges=batch.exchanges[1:],
                comm=batch.comm if len(batch.exchanges) > 1 else None,
                num_sampled_nodes=(*inner, last + len(exchange.wanted) - len(exchange.owned)),
            )
            return given_back, counts

        return run

    def _counts(self, batch: MiniBatch) -> Counts:
        features = [batch.node[name] for name in self.names]
        row_bytes = sum(math.prod(rows.shape[1:]) * rows.element_size() for rows in features)
        rounds = len(features)
        sent = row_bytes * batch.exchanges[0].num_sent
        return {"rounds": rounds, "collectives": rounds, "sent_bytes": sent}
