"""The fanouts of each hop: numbers, or for graphs with types dictionaries by hop or by relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from headrace.ops import ByRelation, HopRule, InputError, Rule
from headrace.pipeline.data import GraphView, edge_types_of, type_number
from headrace.pipeline.plan.checks import counts_by_hop

#: The key for all relations that are not in a dictionary.
DEFAULT = "default"

#: One number per hop, or per hop one for each relation.
Counts: TypeAlias = tuple[int, ...] | tuple[tuple[int, ...], ...]


def counts_by_relation(stage: str, name: str, counts: Any, graph: GraphView) -> Counts:
    """Return the fanouts of each hop, by relation if dictionaries are given.

    Parameters
    ----------
    stage, name
        For messages: who asks, and what the numbers are called.
    counts
        One number per hop; or a list with a dictionary ``{edge_type: number}`` for a hop; or a dictionary ``{edge_type:
        one number per hop}``. The key "default" stands for relations that are not named.
    graph
        The graph.

    Raises
    ------
    InputError
        For numbers below -1, lists of unequal length, relations that the graph does not have, or some that are missing
        without a default.
    """
    if isinstance(counts, Mapping):
        lists = {key: counts_by_hop(stage, name, value) for key, value in counts.items()}
        lengths = {key: len(value) for key, value in lists.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"{stage}: expected {name}s of all relations for as many hops, got {lengths}")
        num_hops = next(iter(lengths.values()), 0)
        return tuple(
            _of_hop(stage, name, {key: value[hop] for key, value in lists.items()}, graph) for hop in range(num_hops)
        ) or counts_by_hop(stage, name, ())
    listed = list(counts) if isinstance(counts, (list, tuple)) else counts
    if not isinstance(listed, list) or not any(isinstance(count, (Mapping, tuple)) for count in listed):
        return counts_by_hop(stage, name, listed)
    relations = edge_types_of(graph).num_types
    made = []
    for count in listed:
        if isinstance(count, Mapping):
            made.append(_of_hop(stage, name, count, graph))
        elif isinstance(count, tuple):  # what this function has made before
            if len(count) != relations:
                raise InputError(f"{stage}: expected a {name} for each of {relations} relations, got {count}")
            made.append(counts_by_hop(stage, name, count))
        else:
            made.append(counts_by_hop(stage, name, [count]) * relations)
    return tuple(made)


def counts_by_name(counts: Any, graph: Any) -> Any:
    """Return the fanouts of each hop by the names of relations, as numbers by position fit one order of types alone.

    Those of graphs without types are returned as they are.
    """
    if not isinstance(graph, GraphView) or not graph.is_typed or not isinstance(counts, tuple):
        return counts
    names = edge_types_of(graph).names
    return tuple(dict(zip(names, one, strict=True)) if isinstance(one, tuple) else one for one in counts)


def rules_of(graph: GraphView, counts: Counts, rule: Callable[[int], Rule]) -> list[HopRule]:
    """Return the rule of each hop: in a graph with types one for each relation."""
    if not graph.is_typed:
        return [rule(count) for count in counts if isinstance(count, int)]
    relations = edge_types_of(graph).num_types
    by_hop = [(count,) * relations if isinstance(count, int) else count for count in counts]
    return [ByRelation(tuple(map(rule, counts_of_hop))) for counts_of_hop in by_hop]


def _of_hop(stage: str, name: str, counts: Mapping[Any, Any], graph: GraphView) -> tuple[int, ...]:
    """Return the numbers of one hop in the order of the graph's edge types."""
    if not graph.is_typed:
        raise InputError(
            f"{stage}: expected one {name} per hop, as the graph has no types, got {dict(counts)}; give the graph "
            "edge_types="
        )
    types = edge_types_of(graph)
    found: dict[int, Any] = {}
    for key, count in counts.items():
        if key == DEFAULT and DEFAULT not in types.names:
            continue
        try:
            found[type_number(types, key)] = count
        except InputError as error:
            raise InputError(f"{stage}: {name}s: {error}") from error
    missing = [types.names[place] for place in range(types.num_types) if place not in found]
    if missing and DEFAULT not in counts:
        raise InputError(
            f"{stage}: expected a {name} for each relation, got none for {missing}; name them, or add "
            f'"{DEFAULT}": ... for all that are not named'
        )
    listed: list[Any] = [found.get(place, counts.get(DEFAULT)) for place in range(types.num_types)]
    return counts_by_hop(stage, name, listed)
