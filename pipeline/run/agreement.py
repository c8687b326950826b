"""What ranks that run one plan must agree about, looked at before any batch is made."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from headrace.ops.errors import PlanError
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.text import describe


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
    owners = [one.partition for stage in plan.stages if stage.shares_layers for one in stage.divided()]
    divided = [(stage, one) for stage in plan.stages for one in stage.divided()]
    # Exchanges last: where a pass made them for data in shards, the data say better what is wrong.
    for stage, one in sorted(divided, key=lambda pair: pair[0].collective and pair[1].part is None):
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


def check_same_plan(comm: Comm, plan: Plan, digests: Mapping[str, str], final: Plan) -> None:
    """Check that all ranks run one plan on the same data, without which they would wait for each other forever.

    Parameters
    ----------
    comm
        A channel to all ranks.
    plan
        The plan as the user wrote it.
    digests
        Its fingerprint.
    final
        The plan as it will run.

    Raises
    ------
    PlanError
        If they do not.
    """
    text = _text(plan, final)
    owners = [
        one.partition.content_digest() for stage in final.stages if stage.shares_layers for one in stage.divided()
    ]
    parts = {"stages": text, "owners": "".join(owners)}
    # A function may know its rank, and copies of rows are each rank's own.
    common = {name for name, stage in zip(plan.names, plan.stages, strict=True) if stage.same_on_all_ranks}
    parts |= {f"data of {name}": digest for name, digest in digests.items() if name in common}
    differing = _ranks_that_differ(comm, str(parts))
    if not differing:
        return
    which = []
    if not _ranks_that_differ(comm, str(list(parts))):  # else not all would come to as many collectives
        which = [name for name, part in parts.items() if _ranks_that_differ(comm, part)]
    raise PlanError(
        f"the plan of rank {comm.rank} is not that of ranks {differing}, by its {', '.join(which) or 'stages'}: give "
        "all ranks the same items (each takes its share by itself), graph, features, owners, stages and passes, and "
        f"machines with as many cores, or machine=. Rank {comm.rank} has\n{text}"
    )


def _text(plan: Plan, final: Plan) -> str:
    """Return what ranks must have in common of a plan: not functions, devices, caches and sizes that are each rank's.

    Of what passes made of the plan, stages that no other rank waits for have their names alone.
    """
    written = [describe(stage) if stage.same_on_all_ranks else stage.name for stage in plan.stages]
    made = [describe(stage) if stage.collective else stage.name for stage in final.stages]
    return "\n".join([*written, "which runs as", *made])


def _ranks_that_differ(comm: Comm, text: str) -> list[int]:
    """Return the ranks whose text is another one."""
    digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")
    return [rank for rank, other in enumerate(comm.all_gather(digest)) if other != digest]
