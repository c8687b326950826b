"""What all stages that fetch rows of a store share: the fields that they read and write, and the fetch of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from typing_extensions import Self

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan import Counts, Divided, MapStage, Runner, RunSettings, Watched
from headrace.pipeline.plan.checks import divided_features, watched_features
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.over_source import refuse_absent_cache
from headrace.pipeline.storage.rows import read_rows
from headrace.pipeline.storage.wanted import Feature, Wanted

if TYPE_CHECKING:
    from headrace.pipeline.storage.decoding import Decoding

#: Returns rows of a source, decoded, and adds what it counts.
Read = Callable[[FeatureSource, Tensor, dict[str, int], "Decoding | None"], Tensor]


class IdsHere:
    """Ids of one batch in CPU memory: those on a GPU are copied once for all features, which waits."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}  # with the ids, so that no others get their number

    def of(self, ids: Tensor) -> Tensor:
        """Return ids in CPU memory."""
        if id(ids) not in self._copies:
            self._copies[id(ids)] = ids, ids.cpu()
        return self._copies[id(ids)][1]


def rows_on(rows: Tensor, device: torch.device) -> Tensor:
    """Return rows in CPU memory on a device: on a GPU from pinned memory, for which nobody waits."""
    if device.type == "cpu":
        return rows
    return (rows.pin_memory() if device.type == "cuda" else rows).to(device, non_blocking=True)


def decoded(rows: Tensor, decoding: Decoding | None, num_threads: int = 1) -> Tensor:
    """Return rows as they are wanted."""
    return rows if decoding is None else decoding(rows, num_threads=num_threads)


class ReadHere:
    """Reads rows in CPU memory for a batch, wherever it is."""

    def __init__(self, num_threads: int) -> None:
        self._num_threads = num_threads
        self._ids = IdsHere()

    def __call__(self, source: FeatureSource, ids: Tensor, counts: dict[str, int], decoding: Decoding | None) -> Tensor:
        """Return the rows of ids, where the ids are: decoded there, as the stored ones have fewer bytes to copy."""
        rows = rows_on(read_rows(source, self._ids.of(ids), counts, num_threads=self._num_threads), ids.device)
        return decoded(rows, decoding)


class FetchStage(MapStage):
    """Base of these stages."""

    keeps_ids_sound: ClassVar[bool] = True

    wanted: Wanted  # a field of those that passes make

    @property
    def wants(self) -> Wanted:
        return self.wanted

    @property
    def reads(self) -> frozenset[str]:
        return self.wanted.reads

    @property
    def writes(self) -> frozenset[str]:
        return self.wanted.writes

    @property
    def fetches(self) -> frozenset[Feature]:
        return self.wanted.fetches

    def divided(self) -> tuple[Divided, ...]:
        return divided_features(self.wanted)

    def watched(self) -> tuple[Watched, ...]:
        return watched_features(self.wanted)

    def wanting(self, wanted: Wanted) -> Self:
        """Return the stage with other features to fetch."""
        return replace(self, wanted=wanted)  # type: ignore[call-arg] # of those

    def fetching_here(self, settings: RunSettings) -> Runner:
        """Return the function that fetches for a batch by reading in CPU memory, wherever the batch is."""
        threads = settings.num_threads
        for source in self.wanted.sources():
            refuse_absent_cache(source)

        def read(source: FeatureSource, ids: Tensor, counts: dict[str, int], decoding: Decoding | None) -> Tensor:
            return read_rows(source, ids, counts, num_threads=threads, decoding=decoding)

        return self.fetching(read, elsewhere=lambda: ReadHere(threads))

    def fetching(self, read: Read | None, *, elsewhere: Callable[[], Read] | None = None) -> Runner:
        """Return the function that fetches for a batch, by reading each source once for nodes, seeds and each block.

        A batch that is not on the CPU is read by what `elsewhere` returns for it, and without `read` every batch.
        """
        wanted, read_here = self.wanted, read
        sources = list(zip(wanted.sources(), wanted.decodings(), strict=True))

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            counts = {"rows": 0, "bytes": 0}
            ids, read = wanted.ids(batch), read_here
            if elsewhere is not None and (read is None or not (ids and ids[0] and ids[0][0].is_cpu)):
                read = elsewhere()
            assert read is not None
            rows = [
                [read(source, one, counts, decoding) for one in some]
                for (source, decoding), some in zip(sources, ids, strict=True)
            ]
            return wanted.filled(batch, rows), counts

        return run
