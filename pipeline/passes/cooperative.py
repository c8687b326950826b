"""Let the ranks make every batch together (cooperative minibatching, arXiv 2310.12403).

A rule on the whole plan: the position at which rows return depends on the last stage that finds nodes, and on all later
fetches.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.pipeline.data.node_ids import check_known_by_own_ids
from headrace.pipeline.data.place import CPU
from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.exchange_ids import ExchangeIds
from headrace.pipeline.lowered.exchange_rows import ExchangeRows
from headrace.pipeline.lowered.fetch_owned import FetchOwned
from headrace.pipeline.lowered.induced_hop import InducedHop
from headrace.pipeline.lowered.plant_trees import PlantTrees
from headrace.pipeline.lowered.plant_trees_together import PlantTreesTogether
from headrace.pipeline.lowered.repeat_layer import RepeatLayer
from headrace.pipeline.lowered.return_ids import ReturnIds
from headrace.pipeline.lowered.sample_hop import HopStage, SampleHop
from headrace.pipeline.lowered.sample_hop_together import SampleHopTogether
from headrace.pipeline.lowered.sample_induced import SampleInduced
from headrace.pipeline.lowered.square_block import KeepSquareBlock
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.partition.router import RankRouter
from headrace.pipeline.passes.shards import graph_partition
from headrace.pipeline.passes.shared_edges import share_edges
from headrace.pipeline.passes.subgraphs_together import check_fetches_behind, subgraphs_together
from headrace.pipeline.plan.checks import graphs_of
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.facts import Facts
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.stages.induce_subgraph import InduceSubgraph


def _insert(stages: Window, facts: Sequence[Facts], machine: Machine) -> Window | None:
    """Exchange ids after every stage that finds nodes, and rows after the stages that fetch them.

    Hops of layer-wise rules are sampled together, and so are those that must not reach new nodes.
    """
    if machine.world_size == 1 or facts[-1].shares_layers:
        return None
    for verb, graph in graphs_of(stages):
        check_known_by_own_ids(graph, f"cooperative: {verb}")
    check_fetches_behind(stages)
    if isinstance(machine.partition, EdgePartition):
        return share_edges(stages, machine.partition, _fetches(stages))
    partition = _partition(stages, machine.partition, machine.world_size)
    stages = tuple(one for stage in subgraphs_together(stages, partition) for one in _together(stage, partition))
    for stage in stages:
        if not stage.cooperates:
            raise PlanError(
                f"cooperative: what {stage.origin.name} finds depends on the whole frontier, of which each rank has a "
                "share; use sample_neighbor, sample_layer_neighbor, sample_ladies, sample_in_subgraph or "
                "sample_pinsage with expand='all', or cooperative=False"
            )
    finders = _finders(stages)
    planting = [position for position, stage in enumerate(stages) if isinstance(stage, PlantTrees)]
    finders = [position for position in finders if position >= max(planting, default=0)]  # trees begin there
    fetches = _fetches(stages)
    rewritten: list[Stage] = []
    for position, stage in enumerate(stages):
        if isinstance(stage, FetchFeature) and position in fetches:
            rewritten += _exchanged(stage)
        else:
            rewritten.append(stage)
        if position in finders:
            rewritten.append(ExchangeIds(RankRouter(partition)).made_of(stage))
        if position == fetches.stop - 1:
            rewritten.append(ReturnIds().made_of(stage))
    return tuple(rewritten)


def _copy_behind(copy: CopyTo, hop: HopStage, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    """Move a copy to a GPU from before a hop to after it, because ranks exchange ids in CPU memory."""
    del machine
    return None if facts.shares_layers or copy.moves_to == CPU else (hop, compact, copy)


def _finders(stages: Window) -> list[int]:
    """Return the positions of the stages that find nodes, from the last one on that sets the seeds."""
    first = max(position for position, stage in enumerate(stages) if "seeds" in stage.writes)
    return [position for position, stage in enumerate(stages) if position >= first and "n_id" in stage.writes]


def _fetches(stages: Window) -> range:
    """Return the positions of the stages that fetch directly after the last layer; prefetches may be between them."""
    subgraphs = InduceSubgraph | KeepSquareBlock
    layers = [position for position, stage in enumerate(stages) if stage.num_hops or isinstance(stage, subgraphs)]
    start = end = max(_finders(stages) + layers) + 1
    for position, stage in enumerate(stages[start:], start):
        if stage.wants is not None:
            end = position + 1
        elif not stage.threads:
            break
    return range(start, end)


def _exchanged(fetch: FetchFeature) -> list[Stage]:
    """Return the stages that fetch the same from owners: each row is read once, and sent to the ranks that want it."""
    of_nodes = fetch.wanted.of_nodes()
    stages: list[Stage] = [*fetch.rest(of_nodes)]
    if of_nodes:
        stages += [FetchOwned(of_nodes), ExchangeRows(fetch.node)]
    return [stage.made_of(fetch) for stage in stages]


def _together(stage: Stage, partition: Partition) -> Window:
    """Return the cooperative version of a stage that no rank can run for its nodes alone; any other stage unchanged."""
    if isinstance(stage, SampleInduced):
        return _induced_together(stage, partition)
    if isinstance(stage, PlantTrees):
        return (PlantTreesTogether(**stage.parameters()).made_of(stage),)
    if not isinstance(stage, SampleHop) or stage.hop.rule.per_destination:
        return (stage,)
    return (SampleHopTogether(**stage.parameters(), partition=partition).made_of(stage),)


def _induced_together(stage: SampleInduced, partition: Partition) -> Window:
    """Return one hop of all ranks, and a repeated layer for each further one, because later hops find no new nodes."""
    graph, first, edge_ids = stage.graph, stage.first_layer, stage.edge_ids
    hop = InducedHop(graph, layer=first, partition=partition, edge_ids=edge_ids)
    stages: list[Stage] = [hop, Compact(graph, edge_ids=edge_ids)]
    if stage.num_layers > 1:
        stages.append(RepeatLayer(num_layers=stage.num_layers - 1, first_layer=first + 1))
    return tuple(one.made_of(stage) for one in stages)


def _partition(stages: Window, given: Partition | None, world_size: int) -> Partition:
    """Return the owners: the given ones, those of a graph in shards, or owners by hash."""
    found = given or graph_partition(stages)
    if found is not None:
        return found
    graphs = graphs_of(stages)
    if graphs:
        return Partition.hash(graphs[0][1].num_nodes, world_size)
    raise PlanError("cooperative: no stage of the plan samples a graph, so give partition=hr.Partition.hash(...)")


RULES = (
    Rule("ids are exchanged on the CPU: copy_to behind the hop", (CopyTo, HopStage, Compact), _copy_behind),
    Rule("exchange what is found, exchange what is fetched", (), _insert),
)
