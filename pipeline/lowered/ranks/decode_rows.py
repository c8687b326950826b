"""Decoding node features that came from other ranks as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.pipeline.data import MiniBatch
from headrace.pipeline.plan import Counts, MapStage, Runner, RunSettings
from headrace.pipeline.storage.wanted import Wanted


@dataclass(frozen=True, eq=False, repr=False)
class DecodeRows(MapStage):
    """Make node features of a batch those of the dtype that the user asked for: ranks send what is stored.

    The passes ``cooperative`` and ``fetch_at_owners`` put it behind ``exchange_rows``.

    Parameters
    ----------
    wanted
        Node features, with their dtype.
    """

    name: ClassVar[str] = "decode_rows"
    lowered: ClassVar[bool] = True

    reads: ClassVar[frozenset[str]] = frozenset({"node"})
    writes: ClassVar[frozenset[str]] = frozenset({"node"})

    wanted: Wanted

    def runner(self, settings: RunSettings) -> Runner:
        decodings = zip(self.wanted.node, self.wanted.decodings(), strict=True)
        each = [(name, decoding) for name, decoding in decodings if decoding is not None]

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            rows = {name: decoding(batch.node[name], num_threads=settings.num_threads) for name, decoding in each}
            return batch.replace(node={**batch.node, **rows}), {}

        return run
