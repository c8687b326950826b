"""Sample a graph in shards at the owners of its adjacency: two rounds per hop (FastSample, arXiv 2311.17847)."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data.place import CPU
from headrace.pipeline.lowered import HERE, Compact, HopStage, SampleHop
from headrace.pipeline.lowered.ranks._at_owners import AtOwners
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.passes.shards import of_owners, owners_of, owners_of_features
from headrace.pipeline.plan import Facts, Machine, PlanError, Rule, Stage, Window
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.stages.induce_subgraph import InduceInTrees, InduceSubgraph
from headrace.pipeline.stages.item_sampler import ItemSampler


def _is_apart(stage: Stage, facts: Facts, machine: Machine) -> bool:
    """Whether a stage samples a graph in shards for batches that ranks do not make together."""
    return machine.world_size > 1 and not facts.shares_layers and owners_of(stage) is not None


def _take_owned_seeds(
    source: ItemSampler, between: Window, hop: SampleHop, facts: Facts, machine: Machine
) -> Window | None:
    """Give each rank the seeds that it owns, because it has their adjacency."""
    # A partition other than that of the graph is refused with the plan.
    owners = owners_of(hop) if _is_apart(hop, facts, machine) else None
    return _owned(source, between, hop, owners)


def _take_seeds_with_rows(
    source: ItemSampler, between: Window, fetch: FetchFeature, facts: Facts, machine: Machine
) -> Window | None:
    """Give each rank the seeds whose rows it has, where the graph is whole and features are in shards."""
    is_apart = machine.world_size > 1 and not facts.shares_layers
    return _owned(source, between, fetch, owners_of_features((*between, fetch)) if is_apart else None)


def _owned(source: ItemSampler, between: Window, last: Stage, owners: Partition | None) -> Window | None:
    together = any(stage.ranks.shares_layers for stage in between)
    owned = None if owners is None or together else of_owners(source, owners)
    return None if owned is None else (owned, *between, last)


def _copy_behind(copy: CopyTo, hop: HopStage, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    """Move a copy to after a hop at the owners, unless ranks exchange ids where it leads."""
    stays = copy.moves_to == CPU or machine.exchanges_at(copy.moves_to)
    return (hop, compact, copy) if not stays and _is_apart(hop, facts, machine) else None


def _copy_behind_subgraph(
    copy: CopyTo, hops: Window, subgraph: InduceSubgraph, facts: Facts, machine: Machine
) -> Window | None:
    """Move a copy to after a subgraph, whose edges ranks ask each other for in CPU memory."""
    over_hops = all(isinstance(stage, HopStage | Compact) for stage in hops)
    moves = over_hops and copy.moves_to != CPU and _is_apart(subgraph, facts, machine)
    return (*hops, subgraph, copy) if moves else None


def _route(hop: SampleHop, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    """Sample a hop at the owners of its frontier, except for seeds that each rank owns."""
    seeds_are_owned = isinstance(facts.source, ItemSampler) and facts.source.partition is not None
    if not _is_apart(hop, facts, machine) or (hop.layer == 0 and seeds_are_owned):
        return None
    return (replace(hop, finder=AtOwners()), compact) if hop.by_node and hop.finder == HERE else None


def _induce(subgraph: InduceSubgraph, facts: Facts, machine: Machine) -> Window | None:
    """Take the edges of each rank's own trees, at the owners of nodes if the graph is in shards."""
    if machine.world_size == 1 or facts.shares_layers or not facts.trees or isinstance(subgraph, InduceInTrees):
        return None
    if owners_of(subgraph) is not None:
        return subgraph.found_by(AtOwners(), facts.hops)
    return (InduceInTrees(subgraph.graph, edge_ids=subgraph.edge_ids, exclude=subgraph.left_out),)


def _refuse(stage: Stage, facts: Facts, machine: Machine) -> Window | None:
    """Refuse samplers that need more than the adjacency of single nodes."""
    by_node = isinstance(stage, SampleHop) and stage.by_node
    if stage.first_hop is not None and not stage.ranks.collective and not by_node and _is_apart(stage, facts, machine):
        raise PlanError(
            f"{stage.origin.name} cannot sample a graph in shards: it needs more of the graph than the rows of "
            "single nodes. Use the whole graph on every rank, or another sampler"
        )
    return None


RULES = (
    Rule("samplers of a graph in shards", (Stage,), _refuse),
    Rule("item_sampler over shards -> seeds that each rank owns", (ItemSampler, ..., SampleHop), _take_owned_seeds),
    Rule("features in shards -> seeds with rows here", (ItemSampler, ..., FetchFeature), _take_seeds_with_rows),
    Rule("copy_to behind hops at owners", (CopyTo, HopStage, Compact), _copy_behind),
    Rule("copy_to behind subgraphs at owners", (CopyTo, ..., InduceSubgraph), _copy_behind_subgraph),
    Rule("sample_hop over shards -> sample_hop at owners", (SampleHop, Compact), _route),
    Rule(
        "induce_subgraph of trees -> induce_in_trees, or induce_hop at owners over shards", (InduceSubgraph,), _induce
    ),
)
