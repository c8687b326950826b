"""Let the ranks make every batch together (cooperative minibatching, arXiv 2310.12403).

A rule on the whole plan: the position at which rows return depends on the last stage that finds nodes, and on all later
fetches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.pipeline.data import CPU, check_known_by_own_ids
from headrace.pipeline.data.checks import is_of_headrace
from headrace.pipeline.lowered import HERE, Compact, HopStage, PlantTrees, SampleHop
from headrace.pipeline.lowered.ranks._together import Together
from headrace.pipeline.lowered.ranks.exchange_ids import ExchangeIds, ReturnIds
from headrace.pipeline.lowered.ranks.plant_trees_together import PlantTreesTogether
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.partition.router import RankRouter
from headrace.pipeline.passes.shards import fetched_at_owners, graph_partition, of_owners, owners_of_features
from headrace.pipeline.passes.shared_edges import share_edges
from headrace.pipeline.plan import PADDED, Facts, Machine, PlanError, Rule, Stage, Window, graphs_of
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.stages.induce_subgraph import InduceSubgraph
from headrace.pipeline.stages.uniform_negative import SampleUniformNegative


def _insert(stages: Window, facts: Sequence[Facts], machine: Machine) -> Window | None:
    """Exchange ids after every stage that finds nodes, and rows after the stages that fetch them.

    Hops of layer-wise rules are sampled together, and so are those that must not reach new nodes.
    """
    if machine.world_size == 1 or facts[-1].shares_layers:
        return None
    for verb, graph in graphs_of(stages):
        check_known_by_own_ids(graph, f"cooperative: {verb}")
    if any(stage.gives == PADDED for stage in stages):
        raise PlanError(
            "cooperative: expected a plan without pad(), as ranks that make batches together have no padding: each has "
            "the nodes that it owns; leave out .pad(), or pass cooperative=False"
        )
    for stage, before in zip(stages[1:], facts[1:-1], strict=True):
        if not is_of_headrace(stage):
            from headrace.pipeline.plan.users_hops import check_cooperates  # loaded where there is one

            check_cooperates(stage, in_trees=before.trees)
    if isinstance(machine.partition, EdgePartition):
        return share_edges(stages, machine.partition, _fetches(stages, machine))
    partition = _partition(stages, machine.partition, machine.world_size)
    stages = _together(_with_owned_seeds(stages, partition), Together(partition))
    for stage in stages:
        if not stage.ranks.cooperates:
            raise PlanError(
                f"cooperative: what {stage.origin.name} finds depends on the whole frontier, of which each rank has a "
                "share; use sample_neighbor, sample_layer_neighbor, sample_ladies, sample_in_subgraph or "
                "sample_pinsage with expand='all', or cooperative=False"
            )
    roots = max((position for position, stage in enumerate(stages) if stage.plants_trees), default=0)
    # Trees begin at their roots.
    finders = {
        _exchange_behind(stages, position, machine): stages[position]
        for position in _finders(stages)
        if position >= roots
    }
    fetches = _fetches(stages, machine)
    rewritten: list[Stage] = []
    for position, stage in enumerate(stages):
        rewritten += fetched_at_owners(stage, exchange=True) if position in fetches else (stage,)
        if position in finders:
            rewritten.append(ExchangeIds(RankRouter(partition)).made_of(finders[position]))
        if position == fetches.stop - 1:
            rewritten.append(ReturnIds().made_of(stage))
    return tuple(rewritten)


def _copy_behind(copy: CopyTo, hop: HopStage, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    """Move a copy to a GPU from before a hop to after it, unless ranks exchange there the ids that it finds."""
    return None if facts.shares_layers or _stays(copy, machine, hop) else (hop, compact, copy)


def _copy_behind_seeds(
    copy: CopyTo, stage: SampleUniformNegative | PlantTrees, facts: Facts, machine: Machine
) -> Window | None:
    """Move a copy to after negatives and roots of trees, which ranks number together in CPU memory."""
    together = machine.world_size > 1 and not facts.shares_layers
    return (stage, copy) if together and copy.moves_to != CPU else None


def _copy_behind_subgraph(
    copy: CopyTo, hops: Window, subgraph: InduceSubgraph, facts: Facts, machine: Machine
) -> Window | None:
    """Move a copy to after a subgraph, which ranks find together in CPU memory."""
    together = machine.world_size > 1 and not facts.shares_layers
    over_hops = all(isinstance(stage, HopStage | Compact) for stage in hops)
    return (*hops, subgraph, copy) if together and over_hops and copy.moves_to != CPU else None


def _copy_behind_fetch(copy: CopyTo, fetch: FetchFeature, facts: Facts, machine: Machine) -> Window | None:
    """Move a copy to after a fetch whose rows ranks exchange in CPU memory."""
    return None if facts.shares_layers or not fetch.node or _stays(copy, machine) else (fetch, copy)


def _stays(copy: CopyTo, machine: Machine, hop: HopStage | None = None) -> bool:
    """Whether ranks exchange what is found, or fetched, behind a copy where it lies then."""
    # A hop that looks at the whole frontier asks other ranks about it, and shared edges are found, in CPU memory.
    alone = hop is None or (hop.ranks.cooperates and not isinstance(machine.partition, EdgePartition))
    return copy.moves_to == CPU or (alone and machine.exchanges_at(copy.moves_to))


def _exchange_behind(stages: Window, position: int, machine: Machine) -> int:
    """Return the position behind which the nodes that a stage found are exchanged.

    It is the stage's own, or that of a copy which follows it, if more is found or fetched where that leads, and ranks
    exchange there.
    """
    behind = stages[position + 1 :]
    if not behind or not isinstance(behind[0], CopyTo) or not machine.exchanges_at(behind[0].moves_to):
        return position
    return position + any(stage.num_hops or stage.wants is not None for stage in behind)


def _finders(stages: Window) -> list[int]:
    """Return the positions of the stages that find nodes, from the last one on that sets the seeds."""
    first = max(position for position, stage in enumerate(stages) if "seeds" in stage.writes)
    return [position for position, stage in enumerate(stages) if position >= first and "n_id" in stage.writes]


def _fetches(stages: Window, machine: Machine) -> range:
    """Return the positions of the stages that fetch directly after the last layer; prefetches may be between them."""
    layers = [position for position, stage in enumerate(stages) if stage.num_hops or "blocks" in stage.writes]
    start = end = _exchange_behind(stages, max(_finders(stages) + layers), machine) + 1
    for position, stage in enumerate(stages[start:], start):
        if stage.wants is not None:
            end = position + 1
        elif not stage.threads:
            break
    return range(start, end)


def _together(stages: Window, finder: Together) -> Window:
    """Return the stages with those that no rank can run for its nodes alone in their cooperative version.

    Of the hops before a subgraph only the nodes are kept.
    """
    subgraph = max((position for position, stage in enumerate(stages) if isinstance(stage, InduceSubgraph)), default=-1)
    rewritten: list[Stage] = []
    for position, stage in enumerate(stages):
        made: Window = (stage,)
        if isinstance(stage, InduceSubgraph):
            made = stage.found_by(finder, sum(one.num_hops for one in rewritten))
        elif isinstance(stage, HopStage) and not stage.ranks.cooperates:
            made = (replace(stage, finder=finder),)
        elif stage.plants_trees:
            made = (PlantTreesTogether(stage),)
        elif position < subgraph and isinstance(stage, Compact) and stage.expand == "new":
            by_rule = isinstance(rewritten[-1], SampleHop) and rewritten[-1].finder == HERE
            made = (replace(stage, keep="nodes"),) if by_rule else made
        rewritten += made if made[0] is stage else [one.made_of(stage) for one in made]
    return tuple(rewritten)


def _with_owned_seeds(stages: Window, partition: Partition) -> Window:
    """Give each rank the seeds that it owns, where the graph or features are in shards: it has their rows."""
    in_shards = (graph_partition(stages) or owners_of_features(stages)) is not None
    owned = of_owners(stages[0], partition) if in_shards else None
    return stages if owned is None else (owned, *stages[1:])


def _refuse_ahead(
    fetch: FetchFeature, between: Window, subgraph: InduceSubgraph, facts: Facts, machine: Machine
) -> Window | None:
    """Refuse node features that are fetched before a subgraph."""
    del between
    if fetch.node and machine.world_size > 1 and not facts.shares_layers:
        raise PlanError(
            f"{subgraph.origin.name}: expected fetch_feature behind it, where ranks make batches together, got it "
            "ahead; nodes go to their owners in between: fetch their features behind the subgraph"
        )
    return None


def _partition(stages: Window, given: Partition | None, world_size: int) -> Partition:
    """Return the owners: the given ones, those of a graph or of features in shards, or owners by hash."""
    found = given or graph_partition(stages) or owners_of_features(stages)
    if found is not None:
        return found
    graphs = graphs_of(stages)
    if graphs:
        return Partition.hash(graphs[0][1].num_nodes, world_size)
    raise PlanError("cooperative: no stage of the plan samples a graph, so give partition=hr.Partition.hash(...)")


RULES = (
    Rule(
        "negatives of all ranks are drawn on the CPU: copy_to behind",
        (CopyTo, SampleUniformNegative),
        _copy_behind_seeds,
    ),
    Rule("trees of all ranks are planted on the CPU: copy_to behind", (CopyTo, PlantTrees), _copy_behind_seeds),
    Rule("ids are exchanged on the CPU: copy_to behind the hop", (CopyTo, HopStage, Compact), _copy_behind),
    Rule("a subgraph is found on the CPU: copy_to behind it", (CopyTo, ..., InduceSubgraph), _copy_behind_subgraph),
    Rule("rows are exchanged on the CPU: copy_to behind the fetch", (CopyTo, FetchFeature), _copy_behind_fetch),
    Rule("node features behind subgraphs", (FetchFeature, ..., InduceSubgraph), _refuse_ahead),
    Rule("exchange what is found, exchange what is fetched", (), _insert),
)
