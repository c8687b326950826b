"""The ranks of a loader, where there are several: they meet when it is made, and learn of each other's iterations."""

from __future__ import annotations

from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.leaving import Loop
from headrace.pipeline.distributed.same_place import SamePlace, Turn
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.source import source_of
from headrace.pipeline.run.meeting_of_ranks import meeting_of_ranks
from headrace.pipeline.run.ranks import Ranks
from headrace.pipeline.run.same_plan import agree


class SeveralRanks(Ranks):
    """Ranks that make the same loaders in the same order, and compare them.

    Parameters
    ----------
    comm
        The channel that the user gave.
    rank, world_size
        This rank.
    together
        Whether ranks make batches together.
    in_job
        Whether the place is that of torch.distributed.
    """

    def __init__(self, comm: Comm | None, rank: int, world_size: int, *, together: bool, in_job: bool) -> None:
        self._rank = rank
        self._world_size = world_size
        self._together = together
        self._meeting = meeting_of_ranks(comm, rank, world_size, communicates=together, in_job=in_job)
        self.comm = self._meeting.comm
        self._number = 0  # among the loaders that communicate, the same on all ranks
        self._places: SamePlace | None = None

    def refuse(self, reason: str) -> None:
        """Let the other ranks know why this one makes no loader; waits for none."""
        self._meeting.refuse(reason)

    def agree(self, plan: Plan, final: Plan) -> int:
        """Compare the plan with those of the other ranks; return the seed of all."""
        self._meeting.begin()
        self._number = 0 if self.comm is None else self.comm.generation
        agreed = agree(plan, final, self._rank, self._meeting.told, together=self._together)
        self.own, self.num_items, self.labels = agreed.own, agreed.rank_items, agreed.rank_labels
        noted = None if self._together else self._meeting.noted()
        if noted is not None:
            notes, number = noted
            at_every_batch = not source_of(plan).counts_alike
            self._places = SamePlace(notes, self._rank, self._world_size, number, at_every_batch=at_every_batch)
        return agreed.seed

    def loop(self, epoch: int, batch: int) -> Loop | Turn | None:
        """Return what other ranks learn of an iteration that begins there."""
        if self._places is not None:
            return self._places.turn(epoch, batch)
        loops = None if self.comm is None else self.comm.loops
        return None if loops is None else loops.begin(self._number)

    def fail(self, reason: str) -> None:
        """Report an error to the other ranks, if they make batches with this one."""
        if self.comm is not None:
            self.comm.fail(reason)
