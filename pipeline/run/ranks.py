"""What a loader has to do with other ranks. Here it is decided whether there are any: what several need is loaded then.

A process that is alone loads none of it, which is a tenth of its first loader.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.ops.errors import HeadraceError, PlanError
from headrace.ops.names import load
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.distributed.job import rank_of_process
from headrace.pipeline.plan.checks import check_partition_fits, graphs_of
from headrace.pipeline.plan.fingerprint import digest_of
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.rules import Pass
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import source_of

if TYPE_CHECKING:
    from headrace.pipeline.data.label_range import LabelRange
    from headrace.pipeline.distributed.channel import Comm
    from headrace.pipeline.distributed.leaving import Loop
    from headrace.pipeline.distributed.same_place import Turn
    from headrace.pipeline.plan import Machine
    from headrace.pipeline.plan.rewriting import Rewriting


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
        If only one of rank and world size is given, or they do not fit together; for a machine of one of several ranks
        that this process is not.
    """
    if comm is not None:
        from headrace.pipeline.distributed.channel import check_channel

        check_channel(comm, "loader")
    if rank is None and world_size is None and comm is not None:
        rank, world_size = comm.rank, comm.world_size
    in_job = rank is None and world_size is None
    place = rank_of_process(rank, world_size)
    if in_job and machine is not None and is_elsewhere(machine):
        raise PlanError(
            f"loader: expected rank= and world_size= beside a machine of rank {machine.rank} of {machine.world_size}, "
            "got the machine alone; give them for the share of that rank, or see what would run there by "
            "plan.explain(machine=machine)"
        )
    return *place, in_job


def is_elsewhere(machine: Machine) -> bool:
    """Return whether a machine is that of one of several ranks, which this process is not."""
    return machine.world_size > 1 and rank_of_process(None, None) != (machine.rank, machine.world_size)


def at_place(machine: Machine | None, rank: int, world_size: int) -> Machine:
    """Return the machine of a rank: the one that a user gave, or this one."""
    from headrace.pipeline.plan.machine import Machine

    machine = Machine.detect(world_size) if machine is None else machine
    return replace(machine, rank=rank, world_size=world_size)


def ranks_of(
    plan: Plan, passes: Mapping[str, bool | Pass], comm: Comm | None, rank: int, world_size: int, *, in_job: bool
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


def communicates(plan: Plan, passes: Mapping[str, bool | Pass], world_size: int) -> bool:
    """Whether ranks that run a plan exchange anything: it says so, they cooperate, or what they read is in shards."""
    stages = plan.stages
    if any(stage.ranks.collective for stage in stages):
        return True
    in_shards = any(one.part is not None for stage in stages for one in stage.divided())
    return world_size > 1 and (bool(passes.get("cooperative")) or in_shards)


class Unexchanged:
    """Warns once where a model worked on a batch that ranks made together as if it were a batch of this rank alone.

    It sees messages over blocks, and edges that a block made for layers of other libraries or for gradients, when the
    next batch is handed out.
    """

    def __init__(self) -> None:
        self._blocks: tuple[weakref.ref[Any], ...] = ()
        self._last: weakref.ref[Any] | None = None
        self._is_watching = True

    def look(self, batch: Any) -> None:
        """Look back at the batch before one that is handed out."""
        if not self._is_watching or not isinstance(batch, MiniBatch):
            return
        last = None if self._last is None else self._last()
        blocks = [block for one in self._blocks if (block := one()) is not None]
        if last is not None and not last.was_called and any(map(_is_used, blocks)):
            self._is_watching = False
            warn_user(
                "a batch that ranks made together was used without all exchanges of rows; if a model used it, its "
                "losses are wrong: wrap it, together = hr.cooperative(model), and call together(batch, batch.x, "
                "batch.blocks), or call batch.exchange(i, h) between its layers and after the last one",
            )
        for block in batch.blocks if batch.exchanges else ():
            vars(block).setdefault("_is_used", False)
        self._blocks = tuple(map(weakref.ref, batch.blocks))
        self._last = weakref.ref(batch.exchanges[-1]) if batch.exchanges else None


def watch_of(comm: Comm | None, rank: int, world_size: int, smallest: int | None) -> EmptyShares | Unexchanged:
    """Return the watcher of batches: of those that ranks make together on a channel, or of those that each makes."""
    return EmptyShares(rank, world_size, smallest) if comm is None else Unexchanged()


def _is_used(block: Any) -> bool:
    found = vars(block)  # edges are made for layers of other libraries, and transposed ones for gradients
    return bool(found.get("_is_used")) or "edge_index" in found or "transposed" in found


def check_partition(partition: object, plan: Plan, world_size: int, *, cooperative: bool) -> None:
    """Check what a loader was given for ``partition=``.

    Raises
    ------
    HeadraceError
        If it is no partition.
    PlanError
        If nothing would go by it, or it is for another number of ranks.
    """
    if partition is None:
        return
    from headrace.pipeline.partition.edge_partition import EdgePartition
    from headrace.pipeline.partition.partition import Partition

    if not isinstance(partition, Partition | EdgePartition):
        raise HeadraceError(
            "partition: expected an hr.Partition or an hr.EdgePartition, which tells what each rank owns, got "
            f"{type(partition).__name__}"
        )
    if isinstance(partition, Partition):
        for verb, graph in graphs_of(plan.stages):
            check_partition_fits(partition, verb, graph)
    if not cooperative and world_size == 1:
        return  # one process of a script for several
    if not cooperative:
        raise PlanError(
            "partition: expected .loader(cooperative=True, partition=...), got a partition alone, by which nothing "
            "goes; let ranks make batches together, or leave it out"
        )
    if partition.num_parts != world_size:
        ranks = "is 1 rank" if world_size == 1 else f"are {world_size} ranks"
        raise PlanError(f"partition: it has {partition.num_parts} parts, but there {ranks}; make a part for each rank")


def check_ranks(plan: Plan, settings: RunSettings) -> None:
    """Check that shards, owners and the channel are those of this rank.

    Raises
    ------
    PlanError
        Saying what belongs to another rank, or to another number of ranks.
    """
    rank, world_size = settings.rank, settings.world_size
    comm = settings.comm
    if comm is not None and (comm.rank, comm.world_size) != (rank, world_size):
        raise PlanError(
            f"the channel is that of rank {comm.rank} of {comm.world_size}, the loader of rank {rank} of {world_size}; "
            "give comm alone"
        )
    owners = [one.partition for stage in plan.stages if stage.ranks.shares_layers for one in stage.divided()]
    divided = [(stage, one) for stage in plan.stages for one in stage.divided()]
    # Data in shards first: owners of items and exchanges, which passes make for them, say less of what is wrong.
    for stage, one in sorted(divided, key=lambda pair: (pair[1].part is None, pair[0].ranks.collective)):
        if one.partition.num_parts != world_size:
            ranks = "is 1 rank" if world_size == 1 else f"are {world_size} ranks"
            advice = "make a part for each rank"
            if one.part is not None and world_size > 1:
                advice += f": `headrace partition FOLDER OUT --parts {world_size}`"
            elif one.part is not None:
                advice = f"start {one.partition.num_parts} ranks, or use the whole graph and whole features"
            raise PlanError(
                f"{stage.origin.name}: {one.what} has {one.partition.num_parts} parts, but there {ranks}; {advice}"
            )
        if one.part not in (None, rank):
            raise PlanError(
                f"{stage.origin.name}: {one.what} is part {one.part}, but this is rank {rank}; cut it out after "
                "init_process_group, or name the part"
            )
        if owners and one.part is not None and one.partition is not owners[0] and one.partition != owners[0]:
            raise PlanError(
                f"{stage.origin.name}: {one.what} has other owners than those by which the ranks cooperate; give the "
                "loader the same partition, .loader(partition=...)"
            )


def warn_of_detour(rewriting: Rewriting) -> None:
    """Name what goes through CPU memory between GPUs of ranks; ``loader.explain()`` names it as well."""
    from headrace.pipeline.plan.explain import detour_of  # which a process that is alone does not load

    detour = detour_of(rewriting.plan, rewriting.final, rewriting.machine)
    if detour is not None:
        warn_user(
            f'loader: {detour}; torch.distributed.init_process_group("nccl"), or "cpu:gloo,cuda:nccl", keeps them on '
            "GPUs",
        )


class EmptyShares:
    """Warns once, before work starts where that is known by then, else at the first empty share.

    Parameters
    ----------
    rank, world_size
        This rank.
    smallest
        Seeds in its smallest share; None if that shows only with batches.
    """

    def __init__(self, rank: int, world_size: int, smallest: int | None) -> None:
        self._rank = rank
        self._is_watching = world_size > 1 and smallest is None
        if world_size > 1 and smallest == 0:
            self._warn("gets a share without seeds of some batches")

    def look(self, batch: Any) -> None:
        """Look at a batch that is handed out."""
        if self._is_watching and isinstance(batch, MiniBatch) and not batch.num_seeds:
            self._is_watching = False
            self._warn(f"got a share without seeds of batch {batch.index}")

    def _warn(self, what: str) -> None:
        warn_user(
            f"rank {self._rank} {what}, over which the mean of losses is NaN: take "
            'cross_entropy(out, batch.y, reduction="sum") / batch.num_global_seeds, and let ranks add up gradients, '
            "ddp.register_comm_hook(None, hr.sum_hook); or leave small batches out, ItemSampler(drop_last=True)",
        )
