"""What a loader has to do with other ranks. Here it is decided whether there are any: what several need is loaded then.

A process that is alone loads none of it, which is a tenth of its first loader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.ops.names import load
from headrace.pipeline.distributed.job import rank_of_process
from headrace.pipeline.plan.fingerprint import digest_of
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.source import source_of

if TYPE_CHECKING:
    from headrace.pipeline.data.label_range import LabelRange
    from headrace.pipeline.distributed.channel import Comm
    from headrace.pipeline.distributed.leaving import Loop
    from headrace.pipeline.distributed.same_place import Turn
    from headrace.pipeline.plan.machine import Machine


class Ranks:
    """The ranks of a loader that is this rank's alone, or whose place was given by hand: it waits for no other.

    Attributes
    ----------
    comm
        The channel on which ranks make batches together, if they do.
    own
        Digests of what each rank brings of its own, in the order of the ranks; none where all bring the same.
    num_items
        How many items each rank has, where each brings its own.
    labels
        Facts about the labels of each rank, where each brings its own and a stage changes them.
    """

    comm: Comm | None = None
    own: tuple[str, ...] = ()
    num_items: tuple[int, ...] = ()
    labels: tuple[LabelRange | None, ...] = ()

    def refuse(self, reason: str) -> None:
        """Let the other ranks know why this one makes no loader; waits for none."""

    def agree(self, plan: Plan, final: Plan) -> int | None:
        """Compare the plan, as the user wrote it and as it will run, with those of the other ranks.

        Returns
        -------
        int or None
            The seed of all ranks; None where there are no others.

        Raises
        ------
        PlanError
            If they run other plans, on every rank.
        PeerError
            If a rank refuses, ends or does not come.
        """
        del final
        own = source_of(plan).own_data()
        self.own = (digest_of(own),) if own else ()
        return None

    def loop(self, epoch: int, batch: int) -> Loop | Turn | None:
        """Return what other ranks learn of an iteration that begins there; None if they learn nothing."""
        del epoch, batch
        return None

    def fail(self, reason: str) -> None:
        """Report an error to the other ranks, who would wait for this one, and to its own threads."""


def place_of(
    comm: Comm | None, machine: Machine | None, rank: int | None, world_size: int | None
) -> tuple[int, int, bool]:
    """Return rank and world size by what the user gave a loader, and whether they are those of torch.distributed.

    Raises
    ------
    InputError
        If `comm` is no channel.
    PlanError
        If only one of rank and world size is given, or they do not fit together.
    """
    if comm is not None:
        from headrace.pipeline.distributed.channel import check_channel

        check_channel(comm, "loader")
    if rank is None and world_size is None:
        if comm is not None:
            rank, world_size = comm.rank, comm.world_size
        elif machine is not None and machine.world_size > 1:
            rank, world_size = machine.rank, machine.world_size
    in_job = rank is None and world_size is None
    return *rank_of_process(rank, world_size), in_job


def ranks_of(
    plan: Plan, passes: Mapping[str, bool], comm: Comm | None, rank: int, world_size: int, *, in_job: bool
) -> Ranks:
    """Return the ranks of a loader, before they meet.

    Parameters
    ----------
    plan, passes
        What it is made of.
    comm
        The channel that the user gave.
    rank, world_size
        This rank.
    in_job
        Whether its place is that of torch.distributed.

    Raises
    ------
    PlanError
        If ranks make batches together and others do not, or there is neither a channel nor torch.distributed.
    """
    together = communicates(plan, passes, world_size)
    if not together and (world_size == 1 or (comm is None and not in_job)):
        return Ranks()
    load("headrace.pipeline.run.several_ranks")
    from headrace.pipeline.run.several_ranks import SeveralRanks

    return SeveralRanks(comm, rank, world_size, together=together, in_job=in_job)


def communicates(plan: Plan, passes: Mapping[str, bool], world_size: int) -> bool:
    """Whether ranks that run a plan exchange anything: it says so, they cooperate, or what they read is in shards."""
    stages = plan.stages
    if any(stage.ranks.collective for stage in stages):
        return True
    in_shards = any(one.part is not None for stage in stages for one in stage.divided())
    return world_size > 1 and (bool(passes.get("cooperative")) or in_shards)
