"""Graphs of DGL: a DGLGraph in any of its sparse formats, and GraphBolt's graph for sampling."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops import InputError, gather_rows
from headrace.pipeline.data.graph_sources import (
    EdgeList,
    Relation,
    attributes_of_nodes,
    graph_of_edges,
    join_relations,
    selected,
)
from headrace.pipeline.data.type_attributes import Wanted
from headrace.pipeline.data.types import TypeOffsets

if TYPE_CHECKING:
    from headrace.pipeline.data.graph import Graph

_STAGE = "Graph.from_dgl"

#: DGL's own bookkeeping on extracted subgraphs (dgl.EID), which is no feature.
_EID = "_ID"

#: GraphBolt's name for the ids that edges had before they were put in CSC order.
_ORIGINAL = "_ORIGINAL_EDGE_ID"


def graph_from_dgl(
    cls: type[Graph], graph: Any, edge_attrs: Wanted, node_attrs: Wanted, num_threads: int | None
) -> Graph:
    """Return the graph; `Graph.from_dgl` documents the parameters.

    A graph that DGL may hold as a list of edges is read as one, so that edges keep their order within each destination.
    One that is restricted to CSC is taken as it is, without a sort; its memory stays alive with the tensors.

    Raises
    ------
    InputError
        If `graph` is none of these, or a wanted feature is missing.
    """
    if hasattr(graph, "csc_indptr") and hasattr(graph, "type_per_edge"):
        return _from_graphbolt(cls, graph, edge_attrs, node_attrs)
    _check_is_graph(graph)
    if graph.is_homogeneous and not _may_be("coo", graph) and _may_be("csc", graph):
        return _from_csc(cls, graph, edge_attrs, node_attrs)
    return graph_of_edges(cls, _edge_list(graph, edge_attrs, node_attrs), num_threads)


def _check_is_graph(graph: Any) -> None:
    if getattr(graph, "is_block", False):
        raise InputError(
            f"{_STAGE}: expected a graph, got a block (a message-flow graph), whose sources and destinations have ids "
            "of their own; pass the graph that it was sampled from, or dgl.block_to_graph(block), in which both are "
            "node types"
        )
    if not hasattr(graph, "canonical_etypes") or not hasattr(graph, "is_homogeneous"):
        hint = "Graph.from_coo takes plain tensors"
        if hasattr(graph, "canonical_etypes"):
            hint = "pass the graph that was partitioned: several processes take shards of it by graph.shard(partition)"
        elif isinstance(graph, (list, tuple)) or hasattr(graph, "__getitem__"):
            hint = "pass one graph of it, as dataset[0] or graphs[0]"
        raise InputError(f"{_STAGE}: expected a dgl.DGLGraph, got {type(graph).__name__}; {hint}")


def _may_be(layout: str, graph: Any) -> bool:
    """Whether DGL holds the graph so, or may make it."""
    formats = graph.formats()
    return layout in formats["created"] or layout in formats["not created"]


def _from_csc(cls: type[Graph], graph: Any, edge_attrs: Wanted, node_attrs: Wanted) -> Graph:
    indptr, indices, ids = graph.adj_tensors("csc")
    edge_ids = ids if ids.numel() else None  # none: the positions
    attributes = selected(_features(graph.edata), edge_attrs, indices.numel(), _STAGE)
    if edge_ids is not None:
        attributes = {
            name: gather_rows(torch.as_tensor(rows, device="cpu"), edge_ids) for name, rows in attributes.items()
        }
    of_nodes = attributes_of_nodes([None], [graph.ndata], [int(graph.num_nodes())], node_attrs, _STAGE)
    return cls.from_csc(indptr, indices, edge_attrs=attributes, edge_ids=edge_ids, node_attrs=of_nodes)


def _edge_list(graph: Any, edge_attrs: Wanted, node_attrs: Wanted) -> EdgeList:
    if graph.is_homogeneous:
        src, dst = _ends(graph, graph.canonical_etypes[0])
        chosen = selected(_features(graph.edata), edge_attrs, src.numel(), _STAGE)
        num_nodes = int(graph.num_nodes())
        of_nodes = attributes_of_nodes([None], [graph.ndata], [num_nodes], node_attrs, _STAGE)
        return EdgeList(src, dst, num_nodes, chosen, node_attrs=of_nodes)
    relations = [
        Relation(name, *_ends(graph, name), _features(graph.edges[name].data)) for name in graph.canonical_etypes
    ]
    node_counts = {name: int(graph.num_nodes(name)) for name in graph.ntypes}
    of_types = [graph.nodes[name].data for name in graph.ntypes]
    of_nodes = attributes_of_nodes(list(node_counts), of_types, list(node_counts.values()), node_attrs, _STAGE)
    return replace(join_relations(node_counts, relations, edge_attrs, _STAGE), node_attrs=of_nodes)


def _features(frame: Any) -> dict[str, Any]:
    return {name: rows for name, rows in frame.items() if name != _EID}


def _ends(graph: Any, edge_type: tuple[str, str, str]) -> tuple[Tensor, Tensor]:
    """Return sources and destinations of the edges of a type, by their ids."""
    if _may_be("coo", graph):
        src, dst = graph.edges(etype=edge_type, order="eid")
        return src, dst
    layout = "csc" if _may_be("csc", graph) else "csr"
    indptr, indices, ids = graph.adj_tensors(layout, etype=edge_type)
    rows = torch.arange(indptr.numel() - 1, dtype=indices.dtype, device=indices.device)
    ends = [indices, rows.repeat_interleave(indptr.diff(), output_size=indices.numel())]
    if ids.numel():
        ends = [torch.empty_like(one).index_copy_(0, ids.long(), one) for one in ends]
    columns, expanded = ends
    return (columns, expanded) if layout == "csc" else (expanded, columns)


def _from_graphbolt(cls: type[Graph], graph: Any, edge_attrs: Wanted, node_attrs: Wanted) -> Graph:
    """Return the graph of a FusedCSCSamplingGraph, whose attributes of edges are in the order of its CSC."""
    indptr, indices = graph.csc_indptr, graph.indices
    of_edges = dict(graph.edge_attributes or {})
    edge_ids = of_edges.pop(_ORIGINAL, None)
    num_nodes, num_edges = indptr.numel() - 1, indices.numel()
    node_types = edge_types = None
    if graph.node_type_offset is not None and graph.type_per_edge is not None:
        node_types = _types(graph.node_type_to_id, graph.node_type_offset.diff())
        of_edge = graph.type_per_edge.long()
        names = {tuple(name.split(":")): number for name, number in graph.edge_type_to_id.items()}
        edge_types = _types(names, torch.bincount(of_edge, minlength=len(names)))
        edge_ids = _ids_by_type(of_edge, edge_types, edge_ids)
    return cls.from_csc(
        indptr,
        indices,
        edge_attrs=selected(of_edges, edge_attrs, num_edges, _STAGE),
        edge_ids=edge_ids,
        node_attrs=attributes_of_nodes([None], [graph.node_attributes or {}], [num_nodes], node_attrs, _STAGE),
        node_types=node_types,
        edge_types=edge_types,
    )


def _types(numbers: dict[Any, int], counts: Tensor) -> TypeOffsets:
    return TypeOffsets.from_counts(
        {name: int(counts[numbers[name]]) for name in sorted(numbers, key=numbers.__getitem__)}
    )


def _ids_by_type(of_edge: Tensor, edge_types: TypeOffsets, within: Tensor | None) -> Tensor:
    """Return ids of edges, type by type: by those that they had within their types, or else by positions."""
    starts = edge_types.offsets[:-1]
    if within is not None:
        return starts[of_edge] + within
    ids = torch.empty_like(of_edge)
    ids[of_edge.argsort(stable=True)] = torch.arange(len(of_edge), device="cpu")
    return ids
