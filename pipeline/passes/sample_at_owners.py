"""Sample a graph in shards where its rows are: two rounds per hop (FastSample, arXiv 2311.17847).

A rule on the whole plan: whether the hop next to the seeds finds its rows here depends on the source, which it may not
stand next to.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.hop import SampleHop
from headrace.pipeline.lowered.sample_at_owners import SampleAtOwners
from headrace.pipeline.passes.ids_on_cpu import find_on_cpu
from headrace.pipeline.passes.shards import graph_partition
from headrace.pipeline.passes.trees_in_shares import TREES_IN_SHARES
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.stages.item_sampler import ItemSampler


def _route(stages: Window, machine: Machine) -> Window | None:
    """Replace hops over shards by hops at the owners, and let each rank take the seeds that it owns."""
    partition = graph_partition(stages)
    source = stages[0]
    # Ranks make the batch together, or hops go to the owners already.
    routed = any(stage.shares_layers or (stage.collective and stage.num_hops > 0) for stage in stages)
    if partition is None or machine.world_size == 1 or routed:
        return None
    written, stages = stages, find_on_cpu(stages)
    rewritten: list[Stage] = [source]
    seeds_are_owned = False
    if isinstance(source, ItemSampler) and not source.gives_pairs:
        seeds_are_owned = True
        if source.partition is None:  # another one is refused with the plan
            rewritten = [replace(source, partition=partition).made_of(source)]
    for before, stage in pairwise(stages):
        if isinstance(stage, Compact) and isinstance(before, SampleHop):
            if not (before.layer == 0 and seeds_are_owned):
                rewritten[-1] = SampleAtOwners(**before.parameters()).made_of(before)
                continue
        elif (
            stage.num_hops
            and graph_partition((stage,)) is not None
            and not (isinstance(stage, SampleHop) and stage.rule.per_destination)
        ):
            raise PlanError(
                f"{stage.origin.name} cannot sample a graph in shards: it needs more of the graph than the rows of "
                "single nodes. Use the whole graph on every rank, or another sampler"
            )
        rewritten.append(stage)
    unchanged = all(one is stage for one, stage in zip(rewritten, written, strict=False))
    return None if unchanged and len(rewritten) == len(written) else tuple(rewritten)


RULES = (Rule("sample_hop, compact over shards -> sample_at_owners", (), _route), TREES_IN_SHARES)
