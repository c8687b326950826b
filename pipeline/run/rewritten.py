"""The plan that a machine runs, with all checks that need no other rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.verify import check_data
from headrace.pipeline.run.ranks import check_partition

if TYPE_CHECKING:
    from headrace.pipeline.partition.edge_partition import EdgePartition
    from headrace.pipeline.partition.partition import Partition
    from headrace.pipeline.plan.machine import Machine
    from headrace.pipeline.plan.plan import Plan
    from headrace.pipeline.plan.rewriting import Rewriting


def rewritten(
    plan: Plan, machine: Machine, passes: Mapping[str, bool], partition: Partition | EdgePartition | None
) -> Rewriting:
    """Rewrite a plan for a machine, and check that its data and its partition fit.

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

    Raises
    ------
    PlanError
        If the plan is not legal, a switch names no pass, or the partition is for others.
    InputError
        If the data of two stages do not fit together.
    """
    partition = machine.partition if partition is None else partition
    check_partition(partition, plan, machine.world_size, cooperative=passes.get("cooperative") is True)
    rewriting = rewrite(plan, replace(machine, partition=partition), passes)
    check_data(rewriting.plan)  # names the stages that the user wrote, as the final plan may not
    check_data(rewriting.final)
    return rewriting
