"""The beginning of trees that ranks grow together: slots count the seeds of all of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headrace.pipeline.data import CPU, GraphView, MiniBatch, Place, Seen
from headrace.pipeline.data.checks import is_of_headrace
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.exchange import Traffic
from headrace.pipeline.lowered.trees import slots_of_rank
from headrace.pipeline.plan import Counts, MapStage, RankTraits, Runner, RunSettings, Stage


@dataclass(frozen=True, eq=False, repr=False)
class PlantTreesTogether(MapStage):
    """Give each seed of all ranks a slot, and let all know when each is asked for: one round, where there are times.

    The pass ``cooperative`` puts it in the place of a stage that plants trees. A rank has elements of any tree then, so
    ``batch.seed_time`` has the times of all seeds.

    Parameters
    ----------
    planting
        The stage that plants the trees of this rank's seeds.
    """

    name: ClassVar[str] = "plant_trees_together"
    lowered: ClassVar[bool] = True
    plants_trees: ClassVar[bool] = True
    reads_at: ClassVar[Place | None] = CPU
    ranks: ClassVar[RankTraits] = RankTraits(collective=True)

    planting: Stage

    @property
    def graph(self) -> GraphView | None:
        """The graph that will be sampled, if the stage knows it."""
        graph = getattr(self.planting, "graph", None)
        return graph if isinstance(graph, GraphView) else None

    @property
    def reads(self) -> frozenset[str]:
        return self.planting.reads

    @property
    def writes(self) -> frozenset[str]:
        return self.planting.writes

    def sampled_by(self) -> tuple[Seen, ...]:
        return self.planting.sampled_by()

    def check(self, before: tuple[Stage, ...]) -> None:
        self.planting.check(before)

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()
        assert isinstance(self.planting, MapStage)  # it changes batches
        plant = self.planting.runner(settings)
        if not is_of_headrace(self.planting):
            from headrace.pipeline.plan.users_stage import checked_runner  # loaded where there is one

            plant = checked_runner(self.planting, plant, is_last=False)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            planted, counts = plant(batch)
            slots = slots_of_rank(planted, settings) if planted.seed_slot is None else planted.seed_slot
            assert planted.slot is not None  # planted just now
            planted = planted.replace(slot=slots[planted.slot], seed_slot=None)
            if planted.seed_time is None:
                return planted, counts
            of_all, sent_bytes = _times_by_slot(slots, planted.seed_time, comm)
            return planted.replace(seed_time=of_all), {**counts, **asdict(Traffic(1, 2, sent_bytes))}

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
