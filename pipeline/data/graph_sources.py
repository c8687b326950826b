"""Edge lists from other libraries' graph objects; none of those libraries is imported before it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.pipeline.data.arrays import as_ids, describe
from headrace.pipeline.data.type_offsets import TypeOffsets


@dataclass(frozen=True, eq=False)
class EdgeList:
    """A graph as a list of edges in input order, in one id space.

    Parameters
    ----------
    src, dst: int[num_edges]
        Messages go from ``src[i]`` to ``dst[i]``.
    edge_attrs
        Tensors of num_edges rows, in input order.
    node_attrs
        Tensors of num_nodes rows.
    """

    src: Tensor
    dst: Tensor
    num_nodes: int
    edge_attrs: Mapping[str, Tensor] = field(default_factory=dict)
    node_types: TypeOffsets | None = None
    edge_types: TypeOffsets | None = None
    node_attrs: Mapping[str, Tensor] = field(default_factory=dict)


def as_ends(src: ArrayLike | Tensor, dst: ArrayLike | Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the sources and destinations of edges, or refuse what is not as many ids of each."""
    if dst is None or (isinstance(src, (Tensor, np.ndarray)) and src.ndim == 2 and len(src) == 2):
        came = describe(src) if isinstance(src, (Tensor, np.ndarray)) else type(src).__name__
        raise GraphError(
            f"Graph.from_coo: expected ids of sources and of destinations, got {came} as src"
            f"{' and no dst' if dst is None else ''}; of an edge_index pass both rows: "
            "from_coo(edge_index[0], edge_index[1], num_nodes=...)"
        )
    src, dst = as_ids(src, "src", GraphError), as_ids(dst, "dst", GraphError)
    if src.shape != dst.shape:
        raise GraphError(
            f"Graph.from_coo: expected src and dst of equal length, got {src.numel()} and {dst.numel()} ids"
        )
    return src, dst


def edges_from_scipy(matrix: Any) -> EdgeList:
    """Read a square scipy sparse matrix: entry (row, column) is an edge from row to column, its value the "weight".

    Raises
    ------
    GraphError
        If `matrix` is not a scipy sparse matrix or not square.
    """
    if not hasattr(matrix, "tocoo"):
        raise GraphError(
            f"Graph.from_scipy: expected a scipy sparse matrix or array, got {type(matrix).__name__}; "
            "Graph.from_coo takes arrays of source and destination ids"
        )
    num_rows, num_cols = matrix.shape
    if num_rows != num_cols:
        raise GraphError(
            f"Graph.from_scipy: expected a square matrix, got {num_rows} x {num_cols}; "
            "give rows and columns one id space, e.g. scipy.sparse.block_array([[None, m], [None, None]])"
        )
    coo = matrix.tocoo()
    return EdgeList(
        src=torch.from_numpy(np.ascontiguousarray(coo.row)),
        dst=torch.from_numpy(np.ascontiguousarray(coo.col)),
        num_nodes=num_rows,
        edge_attrs={"weight": torch.from_numpy(np.ascontiguousarray(coo.data))},
    )


def edges_from_pyg(
    data: Any, edge_attrs: Sequence[str] | None = None, node_attrs: Sequence[str] | None = None
) -> EdgeList:
    """Read a torch_geometric ``Data`` or ``HeteroData``.

    Raises
    ------
    GraphError
        If `data` is neither, has no ``edge_index``, or a wanted edge attribute is missing (on some edge type).
    """
    if hasattr(data, "edge_types") and hasattr(data, "node_types"):
        return _edges_from_hetero_data(data, edge_attrs, node_attrs)
    if not hasattr(data, "edge_index"):
        raise GraphError(
            f"Graph.from_pyg: expected a torch_geometric Data or HeteroData, got {type(data).__name__}; "
            "Graph.from_coo takes plain tensors"
        )
    if data.edge_index is None:
        raise GraphError(
            "Graph.from_pyg: expected data.edge_index, got data without one; "
            "if the graph is in data.adj_t, convert it: data.edge_index = torch.stack(data.adj_t.coo()[1::-1])"
        )
    available = _edge_level(data, data.edge_index.shape[1], edge_attrs)
    return EdgeList(
        src=data.edge_index[0],
        dst=data.edge_index[1],
        num_nodes=int(data.num_nodes),
        edge_attrs=_select(available, edge_attrs, "Graph.from_pyg"),
        node_attrs=_of_nodes([data], [int(data.num_nodes)], node_attrs, "Graph.from_pyg"),
    )


def edges_from_dgl(
    graph: Any, edge_attrs: Sequence[str] | None = None, node_attrs: Sequence[str] | None = None
) -> EdgeList:
    """Read a ``dgl.DGLGraph``, homogeneous or heterogeneous; every edge feature becomes an edge attribute.

    Raises
    ------
    GraphError
        If `graph` is not a DGL graph or a wanted edge feature is missing (on some edge type).
    """
    if not hasattr(graph, "canonical_etypes"):
        raise GraphError(
            f"Graph.from_dgl: expected a dgl.DGLGraph, got {type(graph).__name__}; Graph.from_coo takes plain tensors"
        )
    # "_ID" is DGL's own bookkeeping on extracted subgraphs (dgl.EID), not a feature.
    if graph.is_homogeneous:
        src, dst = graph.edges(order="eid")
        available = {name: value for name, value in graph.edata.items() if name != "_ID"}
        chosen = _select(available, edge_attrs, "Graph.from_dgl")
        num_nodes = int(graph.num_nodes())
        of_nodes = _of_nodes([graph.ndata], [num_nodes], node_attrs, "Graph.from_dgl")
        return EdgeList(src, dst, num_nodes, chosen, node_attrs=of_nodes)
    relations = []
    for name in graph.canonical_etypes:
        src, dst = graph.edges(etype=name, order="eid")
        available = {key: value for key, value in graph.edges[name].data.items() if key != "_ID"}
        relations.append(_Relation(name, src, dst, available))
    node_counts = {name: int(graph.num_nodes(name)) for name in graph.ntypes}
    of_types = [graph.nodes[name].data for name in graph.ntypes]
    of_nodes = _of_nodes(of_types, list(node_counts.values()), node_attrs, "Graph.from_dgl")
    return replace(_join(node_counts, relations, edge_attrs, "Graph.from_dgl"), node_attrs=of_nodes)


@dataclass(frozen=True)
class _Relation:
    """One edge type with ids that count from 0 within their node types."""

    name: tuple[str, str, str]
    src: Tensor
    dst: Tensor
    edge_attrs: Mapping[str, Any]


def _edges_from_hetero_data(data: Any, edge_attrs: Sequence[str] | None, node_attrs: Sequence[str] | None) -> EdgeList:
    relations = []
    for name in data.edge_types:
        storage = data[name]
        if "edge_index" not in storage:
            raise GraphError(
                f"Graph.from_pyg: expected edge_index on edge type {name}, got none; convert its adj_t first"
            )
        available = _edge_level(storage, storage.edge_index.shape[1], edge_attrs)
        relations.append(_Relation(tuple(name), storage.edge_index[0], storage.edge_index[1], available))
    named = {name: None for relation in relations for name in (relation.name[0], relation.name[2])}
    node_counts = {}
    for name in dict.fromkeys((*data.node_types, *named)):
        count = data[name].num_nodes
        if count is None:
            raise GraphError(
                f"Graph.from_pyg: node type {name!r} does not say how many nodes it has; "
                f"set data[{name!r}].num_nodes or give it a feature tensor"
            )
        node_counts[name] = int(count)
    of_nodes = _of_nodes([data[name] for name in node_counts], list(node_counts.values()), node_attrs, "Graph.from_pyg")
    return replace(_join(node_counts, relations, edge_attrs, "Graph.from_pyg"), node_attrs=of_nodes)


def _of_nodes(
    of_types: Sequence[Any], counts: Sequence[int], wanted: Sequence[str] | None, stage: str
) -> dict[str, Tensor]:
    """Return node attributes, those of one type behind those of the other; by default times, where all types have them.

    Raises
    ------
    GraphError
        If some nodes lack one that is asked for.
    """
    names = ["time"] if wanted is None else wanted
    found = {}
    for name in names:
        parts = [storage[name] if name in storage else None for storage in of_types]  # noqa: SIM401 - no dictionaries
        fitting = [
            part for part, count in zip(parts, counts, strict=True) if isinstance(part, Tensor) and len(part) == count
        ]
        if len(fitting) == len(parts):
            found[name] = torch.cat(fitting)
        elif wanted is not None:
            raise GraphError(
                f"{stage}: expected node attribute {name!r} with a row for each node, of every type, got it of "
                f"{len(fitting)} of {len(parts)}; add it there, or leave it out of node_attrs="
            )
    return found


def _edge_level(storage: Any, num_edges: int, wanted: Sequence[str] | None) -> dict[str, Any]:
    """Return the edge-level tensors but ``edge_index``, and labels of other edges only where they are asked for."""
    found = {name: storage[name] for name in storage.edge_attrs() if name != "edge_index"}
    return {
        name: value
        for name, value in found.items()
        if wanted is not None or not (name.startswith("edge_label") or len(value) != num_edges)
    }


def _join(
    node_counts: Mapping[str, int], relations: Sequence[_Relation], edge_attrs: Sequence[str] | None, stage: str
) -> EdgeList:
    """Put node types and edge types one after the other into one id space each."""
    node_types = TypeOffsets.from_counts(node_counts)
    src, dst = [torch.empty(0, dtype=torch.int64)], [torch.empty(0, dtype=torch.int64)]
    for relation in relations:
        src.append(relation.src.to(torch.int64) + node_types.id_range(relation.name[0]).start)
        dst.append(relation.dst.to(torch.int64) + node_types.id_range(relation.name[2]).start)
    return EdgeList(
        src=torch.cat(src),
        dst=torch.cat(dst),
        num_nodes=node_types.num_ids,
        edge_attrs=_join_attributes(relations, edge_attrs, stage),
        node_types=node_types,
        edge_types=TypeOffsets.from_counts({relation.name: relation.src.numel() for relation in relations}),
    )


def _join_attributes(relations: Sequence[_Relation], edge_attrs: Sequence[str] | None, stage: str) -> dict[str, Tensor]:
    """Concatenate each attribute over the edge types; an attribute that only some of them have is refused."""
    chosen = [_select(relation.edge_attrs, None, stage) for relation in relations]
    names = (
        list(dict.fromkeys(name for attributes in chosen for name in attributes)) if edge_attrs is None else edge_attrs
    )
    joined = {}
    for name in names:
        lacking = [
            relation.name for relation, attributes in zip(relations, chosen, strict=True) if name not in attributes
        ]
        if lacking:
            raise GraphError(
                f"{stage}: expected edge attribute {name!r} on every edge type, got none on {lacking}; "
                "add it there, or choose the attributes to take: edge_attrs=[...] ([] takes none)"
            )
        parts = [attributes[name] for attributes in chosen]
        if len({(part.dtype, part.shape[1:]) for part in parts}) > 1:
            kinds = {
                relation.name: (part.dtype, tuple(part.shape)) for relation, part in zip(relations, parts, strict=True)
            }
            raise GraphError(
                f"{stage}: expected edge attribute {name!r} with one dtype and one row shape, got {kinds}; "
                "make them agree, or choose the attributes to take: edge_attrs=[...] ([] takes none)"
            )
        joined[name] = torch.cat(parts)
    return joined


def _select(available: Mapping[str, Any], wanted: Sequence[str] | None, stage: str) -> dict[str, Tensor]:
    """Return the wanted attributes (None: every tensor among them)."""
    if wanted is None:
        return {name: value for name, value in available.items() if isinstance(value, Tensor)}
    missing = [name for name in wanted if name not in available]
    if missing:
        raise GraphError(f"{stage}: there are no edge attributes {missing}; those that exist are {sorted(available)}")
    return {name: available[name] for name in wanted}
