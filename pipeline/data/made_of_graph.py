"""Graphs made of a graph: renumbered, with a loop at each node, with edges in the other direction, with some edges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops import InputError, gather_rows, reorder_csc
from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.data.arrays import as_ids, as_number
from headrace.pipeline.data.build_graph import ends_in_input_order, graph_of_ends
from headrace.pipeline.data.checks import as_list
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.graph_machinery import numbered_as
from headrace.pipeline.data.reverse_types import lacks_reverse, reverse_type
from headrace.pipeline.data.type_attributes import ALWAYS, always_in, value_without
from headrace.pipeline.data.types import TypeName, TypeOffsets, type_number


def reordered(graph: Graph, order: ArrayLike | Tensor) -> Graph:
    """Return a graph whose node i is node ``order[i]``; `hr.Graph.reordered` documents it."""
    if graph.node_types is not None:
        raise InputError(
            "Graph.reordered: node types are ranges of ids, which an order would tear apart; graphs with node types "
            "cannot be reordered in this version"
        )
    ids = as_ids(order, "order")
    csc = reorder_csc(graph.indptr, graph.indices, ids)
    node_ids = None if graph.node_ids is None else gather_rows(graph.node_ids, ids)
    edge_ids, edge_attrs = graph.edge_permutation, graph.edge_attrs_csc
    if csc.edge_ids is not None:
        edge_ids = csc.edge_ids if edge_ids is None else gather_rows(edge_ids, csc.edge_ids)
        edge_attrs = {name: gather_rows(rows, csc.edge_ids) for name, rows in edge_attrs.items()}
    node_attrs = {name: gather_rows(rows, ids) for name, rows in graph.node_attrs.items()}
    return Graph(csc.indptr, csc.indices, edge_ids, edge_attrs, None, graph.edge_types, node_ids, node_attrs)


def with_self_loops(graph: Graph, fill: float | Mapping[str, float] | None) -> Graph:
    """Return a graph with a loop at each node that had none; `hr.Graph.with_self_loops` documents it."""
    if graph.edge_types is not None:
        raise InputError("Graph.with_self_loops: edge types are ranges of edge ids, to which loops cannot be added")
    of_loops = _fill_of(graph, fill)
    num_nodes, num_edges = graph.num_nodes, graph.num_edges
    row = torch.arange(num_nodes, device="cpu").repeat_interleave(graph.in_degrees())
    lacks = torch.ones(num_nodes, dtype=torch.bool, device="cpu")
    lacks[row[graph.indices == row]] = False
    lacking = lacks.nonzero().reshape(-1)
    added = starts_of(lacks)
    indptr = graph.indptr + added
    at = torch.arange(num_edges, device="cpu") + added[row]  # a loop comes last in its row
    loops_at = indptr[lacking + 1] - 1

    def joined(of_edges: torch.Tensor, of_loops: torch.Tensor | float) -> torch.Tensor:
        out = of_edges.new_empty((num_edges + len(lacking), *of_edges.shape[1:]))
        out[at] = of_edges
        out[loops_at] = of_loops
        return out

    ids = joined(graph.edge_ids.long(), torch.arange(num_edges, num_edges + len(lacking), device="cpu"))
    in_order = bool((ids == torch.arange(len(ids), device="cpu")).all())
    if len(ids) <= torch.iinfo(torch.int32).max:
        ids = ids.int()
    attributes = {name: joined(rows, of_loops[name]) for name, rows in graph.edge_attrs_csc.items()}
    indices = joined(graph.indices, lacking.to(graph.indices.dtype))
    edge_ids = None if in_order else ids
    node_types, node_attrs = graph.node_types, graph.node_attrs
    looped = Graph(indptr, indices, edge_ids, attributes, node_types, None, graph.node_ids, node_attrs=node_attrs)
    return numbered_as(graph, looped)


def _fill_of(graph: Graph, fill: object) -> dict[str, float]:
    """Return what loops have of each edge attribute; refuse what is no number, or not one that it can hold."""
    given = fill if isinstance(fill, Mapping) else {}
    if unknown := [name for name in given if name not in graph.edge_attrs_csc]:
        raise InputError(
            f"Graph.with_self_loops: expected fill by names of edge attributes, {sorted(graph.edge_attrs_csc)}, got "
            f"{unknown[0]!r}; leave it out"
        )
    if fill is not None and not isinstance(fill, Mapping):
        _number(fill)  # also where no attribute asks for it
        given = dict.fromkeys(graph.edge_attrs_csc, fill)
    of_loops = {}
    for name, rows in graph.edge_attrs_csc.items():
        if name in given:
            of_loops[name] = _number(given[name])
            _check_held(name, rows.dtype, of_loops[name])
        else:
            of_loops[name] = always_in(rows.dtype) if value_without(name) == ALWAYS else 1
    return of_loops


def _number(fill: object) -> float:
    number = as_number(fill)
    if number is None:
        raise InputError(
            f"Graph.with_self_loops: expected fill to be a number, got {fill!r}; pass what loops have of edge "
            "attributes, such as 1.0, or a mapping of names to numbers"
        )
    return number


def _check_held(name: str, dtype: torch.dtype, number: float) -> None:
    if dtype.is_floating_point or dtype.is_complex:
        return
    info = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    if not math.isfinite(number) or number != int(number) or not info[0] <= number <= info[1]:
        kind = str(dtype).removeprefix("torch.")
        raise InputError(
            f"Graph.with_self_loops: expected a fill that edge_attrs[{name!r}] can hold, which is {kind}, got "
            f"{number}; pass a whole number in its range, or make it floating point"
        )


class _Run(NamedTuple):
    """Consecutive edges of one type: their ends, and the edge of the given graph that each comes from."""

    name: TypeName
    src: Tensor
    dst: Tensor
    origin: Tensor


def with_reverse(graph: Graph, edge_types: Iterable[Any] | None, prefix: str) -> Graph:
    """Return a graph with the reverse of each edge; `hr.Graph.with_reverse` documents it."""
    stage = "Graph.with_reverse"
    if not isinstance(prefix, str) or not prefix:
        raise InputError(f"{stage}: expected prefix to be a text, got {prefix!r}; the default is 'rev_'")
    runs = _runs(graph)
    if graph.edge_types is None:
        if edge_types is not None:
            raise InputError(f"{stage}: expected no edge_types of a graph without them, got {edge_types!r}")
        (run,) = runs
        return _joined(graph, [run, _Run(run.name, run.dst, run.src, run.origin)])
    names = graph.edge_types.names
    if edge_types is None:
        chosen = [name for name in names if lacks_reverse(_triple(name, stage), names, prefix)]
    else:
        asked = as_list(edge_types, f"{stage}: edge_types", "edge types", InputError)
        chosen = [names[type_number(graph.edge_types, name)] for name in asked]
    reverse = {name: reverse_type(_triple(name, stage), prefix) for name in chosen}
    there = [name for name in reverse.values() if name in names]
    if there:
        raise InputError(f"{stage}: expected no edge type {there[0]} yet, got a graph that has it; give another prefix")
    by_name = {run.name: run for run in runs}
    added = [_Run(reverse[name], by_name[name].dst, by_name[name].src, by_name[name].origin) for name in reverse]
    return _joined(graph, [*runs, *added])


def undirected(graph: Graph, origin: str | None) -> Graph:
    """Return a graph with every edge in both directions; `hr.Graph.undirected` documents it."""
    stage = "Graph.undirected"
    if origin is not None and (not isinstance(origin, str) or origin in graph.edge_attrs_csc):
        raise InputError(
            f"{stage}: expected origin to be the name of a new edge attribute, got {origin!r}; those that exist are "
            f"{sorted(graph.edge_attrs_csc) or 'none'}"
        )
    names = () if graph.edge_types is None else graph.edge_types.names
    made, reverse = [], []
    for run in _runs(graph):
        if graph.node_types is not None and not (isinstance(run.name, tuple) and run.name[0] == run.name[2]):
            made.append(run)
            name = _triple(run.name, stage)
            if lacks_reverse(name, names):
                reverse.append(_Run(reverse_type(name), run.dst, run.src, run.origin))
            continue
        there = torch.unique(run.src.long() * graph.num_nodes + run.dst.long())
        wanted = run.dst.long() * graph.num_nodes + run.src.long()
        at = torch.searchsorted(there, wanted).clamp_(max=max(0, len(there) - 1))
        lacking = (there[at] != wanted).nonzero().reshape(-1) if len(there) else wanted.nonzero().reshape(-1)
        made += [run, _Run(run.name, run.dst[lacking], run.src[lacking], run.origin[lacking])]
    return _joined(graph, [*made, *reverse], origin)


def _runs(graph: Graph) -> list[_Run]:
    """Return the edges in input order, type by type."""
    src, dst = ends_in_input_order(graph)
    ids = torch.arange(graph.num_edges, device="cpu")
    types = graph.edge_types
    if types is None:
        return [_Run("edge", src, dst, ids)]
    ranges = {name: types.id_range(name) for name in types.names}
    return [_Run(name, *(one[own.start : own.stop] for one in (src, dst, ids))) for name, own in ranges.items()]


def _joined(graph: Graph, runs: list[_Run], origin: str | None = None) -> Graph:
    """Return a graph of edges that come from those of another one, with their attributes."""
    counts: dict[TypeName, int] = {}
    for run in runs:
        counts[run.name] = counts.get(run.name, 0) + len(run.src)
    src, dst, of = (torch.cat(parts) for parts in list(zip(*runs, strict=True))[1:])
    attributes = {name: rows[of] for name, rows in graph.edge_attrs.items()}
    if origin is not None:
        attributes[origin] = of
    types = None if graph.edge_types is None else TypeOffsets.from_counts(counts)
    made = graph_of_ends(
        Graph,
        [src, dst],
        graph.num_nodes,
        edge_attrs=attributes,
        node_attrs=graph.node_attrs,
        node_types=graph.node_types,
        edge_types=types,
    )
    return numbered_as(graph, made if graph.node_ids is None else replace(made, node_ids=graph.node_ids))


def _triple(name: TypeName, stage: str) -> tuple[str, str, str]:
    if not isinstance(name, tuple):
        raise InputError(
            f"{stage}: expected edge types (source type, relation, destination type), got {name!r}; name them so"
        )
    return name


def with_edges(graph: Graph, kept: Tensor) -> Graph:
    """Return the graph of the edges that are kept, numbered in their order: bool[num_edges] by input edge id."""
    ids = graph.edge_ids.long()
    positions = kept[ids].nonzero().reshape(-1)
    before = starts_of(kept[ids])  # kept positions before each one
    new_ids = starts_of(kept)[:-1][ids[positions]]
    in_order = bool((new_ids[1:] > new_ids[:-1]).all())
    types = graph.edge_types
    if types is not None:
        ranges = {name: types.id_range(name) for name in types.names}
        types = TypeOffsets.from_counts({name: int(kept[own.start : own.stop].sum()) for name, own in ranges.items()})
    fewer = replace(
        graph,
        indptr=before[graph.indptr],
        indices=graph.indices[positions],
        edge_permutation=None if in_order else new_ids.to(graph.edge_ids.dtype),
        edge_attrs_csc={name: rows[positions] for name, rows in graph.edge_attrs_csc.items()},
        edge_types=types,
        edge_times=None if graph.edge_times is None else graph.edge_times[positions],
    )
    return numbered_as(graph, fewer)
