"""What of a plan belongs to a rank, looked at before any batch is made."""

from __future__ import annotations

from headrace.ops.errors import PlanError
from headrace.pipeline.plan.checks import check_partition_fits, graphs_of
from headrace.pipeline.plan.errors import LoaderError
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.stage import RunSettings


def check_partition(partition: object, plan: Plan, world_size: int, *, cooperative: bool) -> None:
    """Check what a loader was given for ``partition=``.

    Raises
    ------
    LoaderError
        If it is no partition.
    PlanError
        If nothing would go by it, or it is for another number of ranks.
    """
    if partition is None:
        return
    from headrace.pipeline.partition.edge_partition import EdgePartition
    from headrace.pipeline.partition.partition import Partition

    if not isinstance(partition, Partition | EdgePartition):
        raise LoaderError(
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
    # Exchanges last: where a pass made them for data in shards, the data say better what is wrong.
    for stage, one in sorted(divided, key=lambda pair: pair[0].ranks.collective and pair[1].part is None):
        if one.partition.num_parts != world_size:
            raise PlanError(
                f"{stage.origin.name}: {one.what} has {one.partition.num_parts} parts, but there are {world_size} "
                "ranks; make a part for each rank"
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
