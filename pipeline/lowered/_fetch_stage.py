"""What all stages that fetch rows of a store share: the fields that they read and write, and the fetch of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from torch import Tensor
from typing_extensions import Self

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan import Counts, Divided, MapStage, Runner, RunSettings, Watched
from headrace.pipeline.plan.checks import divided_features, watched_features
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.rows import read_rows
from headrace.pipeline.storage.wanted import Feature, Wanted

#: Returns rows of a source, and adds what it counts.
Read = Callable[[FeatureSource, Tensor, dict[str, int]], Tensor]


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

        def read(source: FeatureSource, ids: Tensor, counts: dict[str, int]) -> Tensor:
            # Of a batch on a device ids come here, and rows go there.
            if ids.is_cpu:
                return read_rows(source, ids, counts, num_threads=threads)
            return read_rows(source, ids.cpu(), counts, num_threads=threads).to(ids.device)

        return self.fetching(read)

    def fetching(self, read: Read) -> Runner:
        """Return the function that fetches for a batch, by reading each source once for nodes, seeds and each block."""
        wanted, sources = self.wanted, self.wanted.sources()

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            counts = {"rows": 0, "bytes": 0}
            ids = wanted.ids(batch)
            rows = [[read(source, one, counts) for one in some] for source, some in zip(sources, ids, strict=True)]
            return wanted.filled(batch, rows), counts

        return run
