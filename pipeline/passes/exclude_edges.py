"""Give hops the edges to leave out.

A rule on the whole plan: all hops after `exclude_seed_edges` share one table of its edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.pipeline.lowered import SampleHop, SeedEdges
from headrace.pipeline.lowered._seed_edge_ids import SeedEdgeIds, seed_edge_ids
from headrace.pipeline.plan import Facts, InputError, Machine, PlanError, Rule, SourceStage, Stage, Window
from headrace.pipeline.plan.checks import graphs_of_edges
from headrace.pipeline.stages.exclude_seed_edges import ExcludeSeedEdges
from headrace.pipeline.stages.induce_subgraph import InduceSubgraph, InduceWithout
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.make_bidirectional import MakeBidirectional


def _exclude(stages: Window, facts: Sequence[Facts], machine: Machine) -> Window | None:
    """Remove the stage, and give its edges to the hops after it."""
    del machine
    excluding = [(place, stage) for place, stage in enumerate(stages) if isinstance(stage, ExcludeSeedEdges)]
    if not excluding:
        return None
    place, stage = excluding[0]
    behind = stages[place + 1 :]
    if not any(one.num_hops for one in behind):
        raise PlanError(
            "exclude_seed_edges: expected a sampler behind it, got none; chain it ahead of sample_neighbor or another "
            "sampler"
        )
    source = facts[-1].source
    _check_types(source, behind, stage)
    edges = replace(stage.edges, ids=_ids(source, behind, stage)) if stage.by == "edge_id" else stage.edges
    return (*stages[:place], *(_leaving_out(one, stage, edges) for one in behind))


def _ids(source: SourceStage | None, behind: Window, exclude: ExcludeSeedEdges) -> SeedEdgeIds | None:
    """Return the ids of the edges that the items are, checked against all graphs."""
    ids, pairs = (None, None) if source is None else (source.seed_edge_ids, source.all_seeds())
    if ids is None or pairs is None:
        raise PlanError(
            'exclude_seed_edges: expected items that are edges by id for by="edge_id", got pairs by their ends alone; '
            'name the edges, ItemSampler(pairs, edge_ids=ids), or pass by="ends", which takes all edges '
            "between the ends"
        )
    made = [seed_edge_ids(graph, ids, pairs, exclude.reverse) for graph in graphs_of_edges(behind)]
    return made[0] if made else None


def _check_types(source: SourceStage | None, behind: Window, exclude: ExcludeSeedEdges) -> None:
    """Refuse edge types that are not in the graphs, and seeds of a type that is not a key of the stage."""
    written = None if source is None else source.origin  # types of items are resolved by now
    runs = written.items.types if isinstance(written, ItemSampler) else None
    pairs = None if source is None else source.all_seeds()
    for graph in graphs_of_edges(behind):
        exclude.edges.check(graph)
        if pairs is not None and runs is None:
            exclude.edges.check_ends(graph, pairs)
        for name, _ in runs or ():
            if not exclude.edges.names(graph, name):
                raise InputError(
                    f"exclude_seed_edges: expected the edge type of the seeds, {name!r}, among the keys of reverse, "
                    f"got {sorted(map(str, exclude.reverse))}; name which type leads back, {{{name!r}: ...}}, or pass "
                    "True for all"
                )


def _leaving_out(stage: Stage, exclude: ExcludeSeedEdges, edges: SeedEdges) -> Stage:
    """Return a stage that leaves out the edges, if it finds any; others unchanged."""
    if isinstance(stage, InduceSubgraph):
        return InduceWithout(stage.graph, edge_ids=stage.edge_ids, exclude=edges).made_of(stage)
    if isinstance(stage, MakeBidirectional) and exclude.reverse is False:
        raise PlanError(
            f"{stage.origin.name}: expected exclude_seed_edges(reverse=True) ahead of it, got reverse=False; an edge "
            "back that is turned around would be the one that is left out"
        )
    if isinstance(stage, SampleHop):
        if exclude.per == "seed" and stage.hop.trees is None:
            raise PlanError(
                f'{stage.origin.name}: expected trees with exclude_seed_edges(per="seed"), got seeds that share their '
                'neighbourhood; use sample_neighbor or sample_layer_neighbor with disjoint=True, or per="batch"'
            )
        return replace(stage, hop=replace(stage.hop, exclude=edges)).made_of(stage)
    if stage.num_hops:
        raise PlanError(
            f"{stage.origin.name} cannot leave out edges, which exclude_seed_edges asks for; use sample_neighbor, "
            "sample_layer_neighbor, sample_ladies or sample_in_subgraph"
        )
    return stage


RULES = (Rule("exclude_seed_edges, sample_hop -> sample_hop that leaves edges out", (), _exclude),)
