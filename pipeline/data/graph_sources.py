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
from headrace.pipeline.data.arrays import as_ids, describe, whole_number
from headrace.pipeline.data.build_graph import check_has_nodes, joined_ends
from headrace.pipeline.data.type_attributes import Wanted, join_attributes, rows_in
from headrace.pipeline.data.type_offsets import TypeCounts, TypeOffsets


@dataclass(eq=False)
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

    def take_ends(self) -> tuple[Tensor, Tensor]:
        """Return sources and destinations, and keep them no longer."""
        ends = self.src, self.dst
        self.src = self.dst = torch.empty(0, dtype=torch.int64)
        return ends


def as_edges(
    src: ArrayLike | Tensor,
    dst: ArrayLike | Tensor | None,
    num_nodes: Any,
    node_types: TypeOffsets | TypeCounts | None,
) -> tuple[Tensor, Tensor, int]:
    """Return the sources and destinations of edges and the number of nodes, or refuse what is not as many ids of each.

    There are as many nodes as was said, as their types have, or one more than the largest id.
    """
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
    if num_nodes is None and node_types is not None:
        types = node_types if isinstance(node_types, TypeOffsets) else TypeOffsets.from_counts(node_types)
        num_nodes = types.num_ids
    elif num_nodes is None:
        num_nodes = 1 + max((int(ids.max()) for ids in (src, dst) if ids.numel()), default=-1)
    number = whole_number(num_nodes, "Graph.from_coo: num_nodes", 0, GraphError)
    check_has_nodes(number)
    return src, dst, number


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


def edges_from_pyg(data: Any, edge_attrs: Wanted = None, node_attrs: Wanted = None) -> EdgeList:
    """Read a torch_geometric ``Data`` or ``HeteroData``.

    Raises
    ------
    GraphError
        If `data` is neither, has no ``edge_index``, or a wanted attribute is missing.
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
        edge_attrs=_select(available, edge_attrs, data.edge_index.shape[1], "Graph.from_pyg"),
        node_attrs=_of_nodes([None], [data], [int(data.num_nodes)], node_attrs, "Graph.from_pyg"),
    )


def edges_from_dgl(graph: Any, edge_attrs: Wanted = None, node_attrs: Wanted = None) -> EdgeList:
    """Read a ``dgl.DGLGraph``, homogeneous or heterogeneous; every edge feature becomes an edge attribute.

    Raises
    ------
    GraphError
        If `graph` is not a DGL graph or a wanted feature is missing.
    """
    if not hasattr(graph, "canonical_etypes"):
        raise GraphError(
            f"Graph.from_dgl: expected a dgl.DGLGraph, got {type(graph).__name__}; Graph.from_coo takes plain tensors"
        )
    # "_ID" is DGL's own bookkeeping on extracted subgraphs (dgl.EID), not a feature.
    if graph.is_homogeneous:
        src, dst = graph.edges(order="eid")
        available = {name: value for name, value in graph.edata.items() if name != "_ID"}
        chosen = _select(available, edge_attrs, src.numel(), "Graph.from_dgl")
        num_nodes = int(graph.num_nodes())
        of_nodes = _of_nodes([None], [graph.ndata], [num_nodes], node_attrs, "Graph.from_dgl")
        return EdgeList(src, dst, num_nodes, chosen, node_attrs=of_nodes)
    relations = []
    for name in graph.canonical_etypes:
        src, dst = graph.edges(etype=name, order="eid")
        available = {key: value for key, value in graph.edges[name].data.items() if key != "_ID"}
        relations.append(_Relation(name, src, dst, available))
    node_counts = {name: int(graph.num_nodes(name)) for name in graph.ntypes}
    of_types = [graph.nodes[name].data for name in graph.ntypes]
    of_nodes = _of_nodes(list(node_counts), of_types, list(node_counts.values()), node_attrs, "Graph.from_dgl")
    return replace(_join(node_counts, relations, edge_attrs, "Graph.from_dgl"), node_attrs=of_nodes)


@dataclass(frozen=True)
class _Relation:
    """One edge type with ids that count from 0 within their node types."""

    name: tuple[str, str, str]
    src: Tensor
    dst: Tensor
    edge_attrs: Mapping[str, Any]


def _edges_from_hetero_data(data: Any, edge_attrs: Wanted, node_attrs: Wanted) -> EdgeList:
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
    of_nodes = _of_nodes(
        list(node_counts),
        [data[name] for name in node_counts],
        list(node_counts.values()),
        node_attrs,
        "Graph.from_pyg",
    )
    return replace(_join(node_counts, relations, edge_attrs, "Graph.from_pyg"), node_attrs=of_nodes)


def _of_nodes(
    names: Sequence[Any], of_types: Sequence[Any], counts: Sequence[int], wanted: Wanted, stage: str
) -> dict[str, Tensor]:
    """Return node attributes of all types; by default times, where some type has them.

    Raises
    ------
    GraphError
        If an attribute that is asked for has not one row for each node of a type that has it, and as `join_attributes`.
    """
    found: dict[Any, dict[str, Tensor]] = {name: {} for name in names}
    for name in ["time"] if wanted is None else wanted:
        there = [storage[name] if name in storage else None for storage in of_types]  # noqa: SIM401 - no dictionaries
        rows = [None if part is None else rows_in(part, count) for part, count in zip(there, counts, strict=True)]
        fitting = sum(part is not None for part in rows)
        odd = [names[i] for i, part in enumerate(rows) if part is None and there[i] is not None]
        if not fitting and wanted is None:
            continue
        if odd or not fitting:
            raise GraphError(
                f"{stage}: expected node attribute {name!r} with a row for each node, of every type that has it, got "
                f"it of {fitting} of {len(rows)}{f' and not of {odd}' if odd else ''}; add it there, or leave it "
                "out of node_attrs="
            )
        for one, part in zip(found.values(), rows, strict=True):
            if part is not None:
                one[name] = part
    return join_attributes(found, counts, wanted, "node", stage)


def _edge_level(storage: Any, num_edges: int, wanted: Wanted) -> dict[str, Any]:
    """Return the edge-level tensors but ``edge_index``, and labels of other edges only where they are asked for."""
    found = {name: storage[name] for name in storage.edge_attrs() if name != "edge_index"}
    return {
        name: value
        for name, value in found.items()
        if wanted is not None or not (name.startswith("edge_label") or len(value) != num_edges)
    }


def _join(node_counts: Mapping[str, int], relations: Sequence[_Relation], edge_attrs: Wanted, stage: str) -> EdgeList:
    """Put node types and edge types one after the other into one id space each."""
    node_types = TypeOffsets.from_counts(node_counts)
    src, dst = joined_ends(
        (
            relation.src,
            relation.dst,
            node_types.id_range(relation.name[0]).start,
            node_types.id_range(relation.name[2]).start,
        )
        for relation in relations
    )
    return EdgeList(
        src=src,
        dst=dst,
        num_nodes=node_types.num_ids,
        edge_attrs=join_attributes(
            {relation.name: _select(relation.edge_attrs, None, relation.src.numel(), stage) for relation in relations},
            [relation.src.numel() for relation in relations],
            edge_attrs,
            "edge",
            stage,
        ),
        node_types=node_types,
        edge_types=TypeOffsets.from_counts({relation.name: relation.src.numel() for relation in relations}),
    )


def _select(available: Mapping[str, Any], wanted: Wanted, num_edges: int, stage: str) -> dict[str, Any]:
    """Return the wanted attributes (None: all that are numbers)."""
    if wanted is None:
        taken = {name: rows_in(value, num_edges) for name, value in available.items()}
        return {name: value for name, value in taken.items() if value is not None}
    missing = [name for name in wanted if name not in available]
    if missing:
        raise GraphError(f"{stage}: there are no edge attributes {missing}; those that exist are {sorted(available)}")
    return {name: available[name] for name in wanted}
