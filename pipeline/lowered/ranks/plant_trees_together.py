"""The beginning of trees that ranks grow together: slots count the seeds of all of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headrace.pipeline.data import CPU, MiniBatch, Place, times_of
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.exchange import Traffic
from headrace.pipeline.lowered.trees import PlantTrees
from headrace.pipeline.plan import Counts, RankTraits, Runner, RunSettings


@dataclass(frozen=True, eq=False, repr=False)
class PlantTreesTogether(PlantTrees):
    """Give each seed of all ranks a slot, and let all know when each is asked for: one round, where there are times.

    The pass ``cooperative`` puts it in the place of ``plant_trees``. A rank has elements of any tree then, so
    ``batch.seed_time`` has the times of all seeds. Parameters as for :class:`PlantTrees`.
    """

    name: ClassVar[str] = "plant_trees_together"
    reads_at: ClassVar[Place | None] = CPU
    ranks: ClassVar[RankTraits] = RankTraits(collective=True)

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()
        times = None if self.time is None else times_of(self.graph, self.time)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            planted = self.planted(batch, times, settings)
            slots = planted.seed_slot
            assert planted.slot is not None  # planted just now
            assert slots is not None  # there are several ranks
            planted = planted.replace(slot=slots[planted.slot], seed_slot=None)
            if planted.seed_time is None:
                return planted, {}
            of_all, sent_bytes = _times_by_slot(slots, planted.seed_time, comm)
            return planted.replace(seed_time=of_all), asdict(Traffic(1, 2, sent_bytes))

        return run


def _times_by_slot(slots: Tensor, times: Tensor, comm: Comm) -> tuple[Tensor, int]:
    """Return the times of all ranks' seeds by their slots, and the bytes that were sent for it."""
    mine = torch.stack([slots, times.view(torch.int64)], 1)
    counts = comm.all_gather(len(mine))
    came = comm.all_to_all(mine.repeat(comm.world_size, 1), [len(mine)] * comm.world_size, counts)
    num_slots = 1 + max(came[:, 0].tolist(), default=-1)
    of_all = came.new_zeros(num_slots)
    of_all[came[:, 0]] = came[:, 1]
    return of_all.view(times.dtype), 8 * mine.numel() * (comm.world_size - 1)
