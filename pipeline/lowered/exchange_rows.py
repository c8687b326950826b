"""Exchange of rows: features go from the ranks that own nodes to those that need them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.feature_names import FeatureName
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.distributed.exchange import take_rows
from headrace.pipeline.distributed.typed_exchange import exchange_of
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner


@dataclass(frozen=True, eq=False, repr=False)
class ExchangeRows(MapStage):
    """Send node features that were fetched for owned nodes to the inputs of ``blocks[0]``.

    Every row was read by its owner alone. The passes ``cooperative`` (arXiv 2310.12403) and ``fetch_at_owners``
    (FastSample, arXiv 2311.17847) put it behind the stages that fetch.

    Parameters
    ----------
    names
        The features.
    """

    name: ClassVar[str] = "exchange_rows"
    lowered: ClassVar[bool] = True

    reads_at: ClassVar[Place | None] = CPU
    collective: ClassVar[bool] = True

    names: tuple[FeatureName, ...]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "exchanges", "node"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"node"})

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            node = {}
            counts = {"rounds": len(self.names), "collectives": len(self.names), "sent_bytes": 0, "bytes_from_rank": 0}
            for name in self.names:
                exchange = exchange_of(batch, name)
                rows = exchange.deliver(batch.node[name], comm)
                row_bytes = math.prod(rows.shape[1:]) * rows.element_size()
                counts["sent_bytes"] += row_bytes * exchange.num_sent
                counts["bytes_from_rank"] += row_bytes * exchange.num_received
                node[name] = rows if exchange.places is None else take_rows(rows, exchange.places)
            return batch.replace(node={**batch.node, **node}), counts

        return run
