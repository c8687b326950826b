"""Sample a graph in shards at the owners of its adjacency: two rounds per hop (FastSample, arXiv 2311.17847)."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data.place import CPU
from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.sample_at_owners import SampleAtOwners
from headrace.pipeline.lowered.sample_hop import SampleHop
from headrace.pipeline.passes.shards import owners_of
from headrace.pipeline.passes.trees_in_shares import TREES_IN_SHARES
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.facts import Facts
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.item_sampler import ItemSampler


def _is_apart(stage: Stage, facts: Facts, machine: Machine) -> bool:
    """Whether a stage samples a graph in shards for batches that ranks do not make together."""
    return machine.world_size > 1 and not facts.shares_layers and owners_of(stage) is not None


def _take_owned_seeds(
    source: ItemSampler, between: Window, hop: SampleHop, facts: Facts, machine: Machine
) -> Window | None:
    """Give each rank the seeds that it owns, because it has their adjacency."""
    together = any(stage.shares_layers for stage in between)
    # A partition other than that of the graph is refused with the plan.
    if together or source.gives_pairs or source.partition is not None or not _is_apart(hop, facts, machine):
        return None
    return (replace(source, partition=owners_of(hop)).made_of(source), *between, hop)


def _copy_behind(copy: CopyTo, hop: SampleHop, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    """Move a copy to after a hop at the owners, because ranks exchange ids in CPU memory."""
    return (hop, compact, copy) if copy.moves_to != CPU and _is_apart(hop, facts, machine) else None


def _route(hop: SampleHop, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    """Sample a hop at the owners of its frontier, except for seeds that each rank owns."""
    del compact
    seeds_are_owned = isinstance(facts.source, ItemSampler) and facts.source.partition is not None
    if not _is_apart(hop, facts, machine) or (hop.layer == 0 and seeds_are_owned) or not hop.hop.rule.per_destination:
        return None
    return (SampleAtOwners(**hop.parameters()),)


def _refuse(stage: Stage, facts: Facts, machine: Machine) -> Window | None:
    """Refuse samplers that need more than the adjacency of single nodes."""
    by_node = isinstance(stage, SampleHop) and stage.hop.rule.per_destination
    if stage.num_hops and not stage.collective and not by_node and _is_apart(stage, facts, machine):
        raise PlanError(
            f"{stage.origin.name} cannot sample a graph in shards: it needs more of the graph than the rows of "
            "single nodes. Use the whole graph on every rank, or another sampler"
        )
    return None


RULES = (
    Rule("samplers of a graph in shards", (Stage,), _refuse),
    Rule("item_sampler over shards -> seeds that each rank owns", (ItemSampler, ..., SampleHop), _take_owned_seeds),
    Rule("copy_to behind hops at owners", (CopyTo, SampleHop, Compact), _copy_behind),
    Rule("sample_hop, compact over shards -> sample_at_owners", (SampleHop, Compact), _route),
    TREES_IN_SHARES,
)
