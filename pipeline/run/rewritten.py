"""The plan that a machine runs, with all checks that need no other rank: what a loader runs, and `explain` shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from headrace.ops._arrays import MAX_THREADS
from headrace.ops.errors import HeadraceError
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import source_of
from headrace.pipeline.plan.verify import check_data
from headrace.pipeline.run.hand_over import Tables
from headrace.pipeline.run.ranks import check_partition, check_ranks

if TYPE_CHECKING:
    from headrace.pipeline.distributed.channel import Comm
    from headrace.pipeline.partition.edge_partition import EdgePartition
    from headrace.pipeline.partition.partition import Partition
    from headrace.pipeline.plan.machine import Machine
    from headrace.pipeline.plan.plan import Plan
    from headrace.pipeline.plan.rewriting import Rewriting
    from headrace.pipeline.plan.rules import Pass


class Rewritten(NamedTuple):
    """A plan for a machine.

    Parameters
    ----------
    rewriting
        The user's plan and the plan after each pass.
    tables
        Arrays that users may write, of which its stages have tables.
    settings
        What its stages run with.
    """

    rewriting: Rewriting
    tables: Tables
    settings: RunSettings


def rewritten(
    plan: Plan,
    machine: Machine,
    passes: Mapping[str, bool | Pass],
    partition: Partition | EdgePartition | None,
    *,
    num_threads: int | None = None,
    comm: Comm | None = None,
) -> Rewritten:
    """Rewrite a plan for a machine, and check that its data, its partition and its ranks fit.

    Parameters
    ----------
    plan
        The user's plan.
    machine
        With the rank and the number of ranks.
    passes
        One switch per pass.
    partition
        What each rank owns; by default that of the machine.
    num_threads
        Of one kernel call; by default the machine's cores.
    comm
        The channel of its ranks.

    Raises
    ------
    PlanError
        If the plan is not legal, a switch names no pass, or partition, shards or channel are for others.
    InputError
        If the data of two stages do not fit together, or were written since a table was made of them.
    HeadraceError
        For a number of threads that is none.
    """
    partition = machine.partition if partition is None else partition
    check_partition(partition, plan, machine.world_size, cooperative=passes.get("cooperative") is True)
    rewriting = rewrite(plan, replace(machine, partition=partition), passes)
    check_data(rewriting.plan)  # names the stages that the user wrote, as the final plan may not
    check_data(rewriting.final)
    tables = Tables(rewriting)
    tables.check()
    given = machine.cores if num_threads is None else num_threads
    num_threads = whole_number(given, "num_threads", 1, HeadraceError, MAX_THREADS)
    source = source_of(rewriting.final)
    settings = RunSettings(source.seed, source, num_threads, machine.rank, machine.world_size, comm, comm)
    check_ranks(rewriting.final, settings)
    return Rewritten(rewriting, tables, settings)
