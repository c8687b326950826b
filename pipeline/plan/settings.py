"""The settings with which stages run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.ops.errors import PlanError

if TYPE_CHECKING:
    from headrace.pipeline.data.label_range import LabelRange
    from headrace.pipeline.distributed.channel import Comm
    from headrace.pipeline.plan.source import SourceStage


@dataclass(frozen=True)
class RunSettings:
    """The settings with which a stage runs, beyond its description. Only ``seed`` may influence a minibatch.

    Parameters
    ----------
    seed
        The seed of the plan's source.
    source
        The source of the plan, for stages that draw batches ahead.
    num_threads
        Threads that one call of a kernel may use.
    rank, world_size
        The rank of this process among those that share every batch, and their number.
    comm
        The channel of the thread that runs the stage, if ranks make batches together.
    rows_comm
        The channel on which the model then exchanges rows.
    rank_items
        The number of items of each rank, if each rank brings its own.
    rank_labels
        Facts about the labels of each rank, if each rank brings its own and a stage changes them.
    """

    seed: int = 0
    source: SourceStage | None = None
    num_threads: int = 1
    rank: int = 0
    world_size: int = 1
    comm: Comm | None = None
    rows_comm: Comm | None = None
    rank_items: tuple[int, ...] = ()
    rank_labels: tuple[LabelRange | None, ...] = ()

    def with_channel(self) -> RunSettings:
        """Return the settings for a further thread, which communicates on a channel of its own."""
        comm, _ = self.channels()
        return replace(self, comm=comm.channel())

    def channels(self) -> tuple[Comm, Comm]:
        """Return the two channels.

        Raises
        ------
        PlanError
            If there are none: the plan has stages that communicate, but the loader is not cooperative.
        """
        if self.comm is None or self.rows_comm is None:
            raise PlanError("exchanges between ranks need .loader(cooperative=True), which inserts them by itself")
        return self.comm, self.rows_comm
