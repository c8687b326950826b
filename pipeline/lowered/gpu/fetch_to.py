"""Fetching features right to a GPU, which reads their rows in memory of the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from headrace.ops.errors import HeadraceError
from headrace.ops.features.on_gpu import check_ids
from headrace.ops.gpu import use_bus_threads
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data.place import Place
from headrace.pipeline.lowered._fetch_stage import FetchStage, Read, ReadHere, decoded
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Runner
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.rows import read_rows
from headrace.pipeline.storage.wanted import Wanted

if TYPE_CHECKING:
    from headrace.pipeline.storage.decoding import Decoding


@dataclass(frozen=True, eq=False, repr=False)
class FetchTo(FetchStage):
    """Read feature rows to the GPU that the batch is on: a kernel copies them, from where they are, in one pass.

    The pass ``uva_gather`` makes it from ``fetch_feature`` and the copy behind it. Memory that rows are read from is
    pinned when the loader is made, where it is, and stays so as long as the source lives. Of memory that cannot be
    pinned the CPU reads the rows, with one warning: the host then waits for the ids of a batch once, and the rows are
    copied without a wait.

    Parameters
    ----------
    wanted
        Features whose sources read to the place.
    place
        The GPU.
    trusted
        Whether all ids are known to have rows, by what stands before. If not, the GPU looks before it reads, and a
        thread of the host waits for that: kernels that read rows do not look.
    bus_threads
        Threads of the GPU that read rows of CPU memory at once; 0: as many as are measured.
    """

    name: ClassVar[str] = "fetch_to"
    lowered: ClassVar[bool] = True

    wanted: Wanted
    place: Place
    trusted: bool = field(default=False, kw_only=True)
    bus_threads: int = field(default=0, kw_only=True)

    @property
    def reads_at(self) -> Place | None:
        return self.place

    def runner(self, settings: RunSettings) -> Runner:
        if self.bus_threads:
            use_bus_threads(self.bus_threads)
        threads, place = settings.num_threads, self.place
        unread = self._unprepared()

        def read(source: FeatureSource, ids: Tensor, counts: dict[str, int], decoding: Decoding | None) -> Tensor:
            if not self.trusted:
                check_ids(ids, source.num_rows)
            return decoded(read_rows(source, ids, counts, num_threads=threads, to=place), decoding)

        def of_batch() -> Read:
            here = ReadHere(threads)
            return lambda source, *rest: here(source, *rest) if id(source) in unread else read(source, *rest)

        return self.fetching(None, elsewhere=of_batch) if unread else self.fetching(read)

    def _unprepared(self) -> frozenset[int]:
        """Prepare reads to the GPU, and return which sources have memory that cannot be pinned: with one warning."""
        found = zip(self.wanted.features, self.wanted.sources(), strict=True)
        failed = {name: (id(source), why) for (_, name), source in found if (why := _why_not(source, self.place))}
        if failed:
            names, (_, why) = ", ".join(map(repr, failed)), next(iter(failed.values()))
            message = f"fetch_feature: rows of {names} are read by the CPU and copied, as {why}"
            warn_user(message)
        return frozenset(source for source, _ in failed.values())


def _why_not(source: FeatureSource, place: Place) -> str:
    """Prepare reads of a source to a GPU; return why its memory cannot be pinned, or nothing if it is."""
    try:
        source.prepare(place)
    except HeadraceError as error:
        return str(error)
    return ""
