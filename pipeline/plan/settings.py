"""What running a stage needs beyond its description."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.ops.errors import PlanError

if TYPE_CHECKING:
    from headrace.pipeline.distributed.channel import Comm
    from headrace.pipeline.plan.source import SourceStage


@dataclass(frozen=True)
class RunSettings:
    """What running a stage needs beyond its description. Only ``seed`` may influence a minibatch.

    Parameters
    ----------
    seed
        The plan's seed, taken from its source.
    source
        The source of the plan, for stages that draw batches ahead.
    num_threads
        Threads that one call of a kernel may use.
    rank, world_size
        Place of this process among those that share every batch.
    comm
        The channel of the thread that runs the stage, when ranks make batches together.
    rows_comm
        The channel on which the model exchanges rows then.
    rank_items
        How many items each rank has, where each brings its own.
    """

    seed: int = 0
    source: SourceStage | None = None
    num_threads: int = 1
    rank: int = 0
    world_size: int = 1
    comm: Comm | None = None
    rows_comm: Comm | None = None
    rank_items: tuple[int, ...] = ()

    def with_channel(self) -> RunSettings:
        """Return the settings for a further thread, which communicates on a channel of its own."""
        comm, _ = self.channels()
        return replace(self, comm=comm.channel())

    def channels(self) -> tuple[Comm, Comm]:
        """Return the two channels.

        Raises
        ------
        PlanError
            If there are none: stages that communicate were chained, but the loader is not a cooperative one.
        """
        if self.comm is None or self.rows_comm is None:
            raise PlanError("exchanges between ranks need .loader(cooperative=True), which inserts them by itself")
        return self.comm, self.rows_comm
