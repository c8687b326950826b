"""Convert items by type to ids of the whole id space."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.data.graph_types import edge_types_of, node_types_of
from headrace.pipeline.data.typed_items import edge_ids_in_space
from headrace.pipeline.plan import Facts, Machine, PlanError, Rule, Stage, Window, graphs_of
from headrace.pipeline.stages.item_sampler import ItemSampler


def _resolve(source: ItemSampler, between: Window, stage: Stage, facts: Facts, machine: Machine) -> Window | None:
    """Convert the items of the source to the id space of the first graph with types."""
    del facts, machine
    graph = next((graph for _, graph in graphs_of((stage,)) if graph.is_typed), None)
    if source.items.types is None or graph is None:
        return None
    edge_types = edge_types_of(graph)
    items, ids = source.items.in_space(node_types_of(graph), edge_types), source.edge_ids
    if ids is not None:
        ids = edge_ids_in_space(ids, source.items.types, edge_types)
    return (replace(source, items=items, edge_ids=ids).made_of(source), *between, stage)


def _refuse(source: ItemSampler, facts: Facts, machine: Machine) -> Window | None:
    """Refuse items by type if no stage has a graph with types."""
    del facts, machine
    if source.items.types is None:
        return None
    names = [name for name, _ in source.items.types]
    raise PlanError(f"item_sampler: expected a sampler of a graph with types for items of {names}, got none")


RULES = (
    Rule("items of types -> items of the graph", (ItemSampler, ..., Stage), _resolve),
    Rule("items of types without a graph", (ItemSampler,), _refuse),
)
