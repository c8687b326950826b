"""Fetching features right to a GPU, which reads their rows in memory of the host."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from headrace.ops.errors import DeviceError
from headrace.ops.features.on_gpu import check_ids
from headrace.pipeline.data.place import Place
from headrace.pipeline.lowered._fetch_stage import FetchStage
from headrace.pipeline.plan.stage import Runner, RunSettings
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.rows import read_rows
from headrace.pipeline.storage.wanted import Wanted


@dataclass(frozen=True, eq=False, repr=False)
class FetchTo(FetchStage):
    """Read feature rows to the GPU that the batch is on: a kernel copies them, from where they are, in one pass.

    The pass ``uva_gather`` makes it from ``fetch_feature`` and the copy behind it. Memory that rows are read from is
    pinned when the loader is made, where it is, and stays so as long as the source lives.

    Parameters
    ----------
    wanted
        Features whose sources read to the place.
    place
        The GPU.
    trusted
        Whether all ids are known to have rows, by what stands before. If not, the GPU looks before it reads, and a
        thread of the host waits for that: kernels that read rows do not look.
    """

    name: ClassVar[str] = "fetch_to"
    lowered: ClassVar[bool] = True

    wanted: Wanted
    place: Place
    trusted: bool = field(default=False, kw_only=True)

    @property
    def reads_at(self) -> Place | None:
        return self.place

    def runner(self, settings: RunSettings) -> Runner:
        threads, place = settings.num_threads, self.place
        unread = {id(source) for source in self.wanted.sources() if not _prepared(source, place)}

        def read(source: FeatureSource, ids: Tensor, counts: dict[str, int]) -> Tensor:
            if id(source) in unread:
                return read_rows(source, ids.cpu(), counts, num_threads=threads).to(ids.device)
            if not self.trusted:
                check_ids(ids, source.num_rows)
            return read_rows(source, ids, counts, num_threads=threads, to=place)

        return self.fetching(read)


def _prepared(source: FeatureSource, place: Place) -> bool:
    """Make a source ready to read to a GPU. Where memory cannot be pinned, rows are read here and copied: a warning."""
    try:
        source.prepare(place)
    except DeviceError as error:
        warnings.warn(f"fetch_feature: rows are read by the CPU and copied, as {error}", UserWarning, stacklevel=2)
        return False
    return True
