"""Turn items that count within types into those of the whole id space.

A rule on the whole plan: where types are is said by the graph, which may be any stage behind the source.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data.graph_types import edge_types_of, node_types_of
from headrace.pipeline.data.item_edge_ids import edge_ids_in_space
from headrace.pipeline.plan.checks import graphs_of
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rules import Rule, Window
from headrace.pipeline.stages.item_sampler import ItemSampler


def _resolve(stages: Window, machine: Machine) -> Window | None:
    """Give the source the items in the id space of the first graph with types."""
    del machine
    source = stages[0]
    if isinstance(source, ItemSampler) and source.edge_ids is not None:
        _check_ids_are_read(stages)
    if not isinstance(source, ItemSampler) or source.items.types is None:
        return None
    graphs = [graph for _, graph in graphs_of(stages) if graph.is_typed]
    if not graphs:
        names = [name for name, _ in source.items.types]
        raise PlanError(f"item_sampler: expected a sampler of a graph with types for items of {names}, got none")
    edge_types = edge_types_of(graphs[0])
    items = source.items.in_space(node_types_of(graphs[0]), edge_types)
    ids = source.edge_ids
    if ids is not None:
        ids = edge_ids_in_space(ids, source.items.types, edge_types)
    return (replace(source, items=items, edge_ids=ids).made_of(source), *stages[1:])


def _check_ids_are_read(stages: Window) -> None:
    """Refuse ids of edges that no stage asks for."""
    from headrace.pipeline.stages.exclude_seed_edges import ExcludeSeedEdges

    if not any(isinstance(stage, ExcludeSeedEdges) and stage.by == "edge_id" for stage in stages):
        raise PlanError(
            'item_sampler: expected exclude_seed_edges(by="edge_id") behind items with edge_ids, got none, so that '
            "they have no effect; chain it ahead of the sampler, or leave edge_ids= out"
        )


RULES = (Rule("items of types -> items of the graph", (), _resolve),)
