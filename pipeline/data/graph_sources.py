"""Lists of edges that graphs are built from, and the attributes that come with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data.arrays import as_cpu_tensor, describe
from headrace.pipeline.data.build_graph import as_edges, graph_of_ends, joined_ends
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.data.type_attributes import Wanted, join_attributes, rows_in
from headrace.pipeline.data.types import TypeOffsets

if TYPE_CHECKING:
    from headrace.pipeline.data.graph import Graph


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
        self.src = self.dst = torch.empty(0, dtype=torch.int64, device="cpu")
        return ends


@dataclass(frozen=True)
class Relation:
    """One edge type with ids that count from 0 within their node types."""

    name: tuple[str, str, str]
    src: Tensor
    dst: Tensor
    edge_attrs: Mapping[str, Any]


def join_relations(
    node_counts: Mapping[str, int], relations: Sequence[Relation], edge_attrs: Wanted, stage: str
) -> EdgeList:
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
            {relation.name: selected(relation.edge_attrs, None, relation.src.numel(), stage) for relation in relations},
            [relation.src.numel() for relation in relations],
            edge_attrs,
            "edge",
            stage,
        ),
        node_types=node_types,
        edge_types=TypeOffsets.from_counts({relation.name: relation.src.numel() for relation in relations}),
    )


def selected(available: Mapping[str, Any], wanted: Wanted, num_edges: int, stage: str) -> dict[str, Any]:
    """Return the wanted attributes (None: all that are numbers)."""
    if wanted is None:
        taken = {name: rows_in(value, num_edges) for name, value in available.items()}
        return {name: value for name, value in taken.items() if value is not None}
    missing = [name for name in wanted if name not in available]
    if missing:
        raise InputError(f"{stage}: there are no edge attributes {missing}; those that exist are {sorted(available)}")
    return {name: available[name] for name in wanted}


def attributes_of_nodes(
    names: Sequence[Any], of_types: Sequence[Any], counts: Sequence[int], wanted: Wanted, stage: str
) -> dict[str, Tensor]:
    """Return node attributes of all types; by default times, where some type has them.

    Raises
    ------
    InputError
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
            raise InputError(
                f"{stage}: expected node attribute {name!r} with a row for each node, of every type that has it, got "
                f"it of {fitting} of {len(rows)}{f' and not of {odd}' if odd else ''}; add it there, or leave it "
                "out of node_attrs="
            )
        for one, part in zip(found.values(), rows, strict=True):
            if part is not None:
                one[name] = part
    return join_attributes(found, counts, wanted, "node", stage)


def graph_of_edges(cls: type[Graph], edges: EdgeList, num_threads: int | None) -> Graph:
    """Return the graph of a list of edges, which is emptied."""
    *ends, _ = as_edges(*edges.take_ends(), edges.num_nodes, edges.node_types)
    about = {name: value for name, value in vars(edges).items() if name not in ("src", "dst")}
    return graph_of_ends(cls, ends, **about, num_threads=num_threads)


def edges_from_scipy(matrix: Any) -> EdgeList:
    """Read a square scipy sparse matrix: entry (row, column) is an edge from row to column, its value the "weight".

    Raises
    ------
    InputError
        If `matrix` is not a scipy sparse matrix or not square.
    """
    if not hasattr(matrix, "tocoo"):
        raise InputError(
            f"Graph.from_scipy: expected a scipy sparse matrix or array, got {type(matrix).__name__}; "
            "Graph.from_coo takes arrays of source and destination ids"
        )
    if len(matrix.shape) != 2:
        raise InputError(
            f"Graph.from_scipy: expected a square matrix, got a sparse array of shape {list(matrix.shape)}; entry "
            "(row, column) is an edge from row to column"
        )
    num_rows, num_cols = matrix.shape
    if num_rows != num_cols:
        raise InputError(
            f"Graph.from_scipy: expected a square matrix, got {num_rows} x {num_cols}; "
            "give rows and columns one id space, e.g. scipy.sparse.block_array([[None, m], [None, None]])"
        )
    coo = matrix.tocoo()
    return EdgeList(
        src=torch.from_numpy(np.ascontiguousarray(coo.row)),
        dst=torch.from_numpy(np.ascontiguousarray(coo.col)),
        num_nodes=num_rows,
        edge_attrs={"weight": as_cpu_tensor(np.ascontiguousarray(coo.data), "the matrix's values")},
    )


def edges_from_pyg(data: Any, edge_attrs: Wanted = None, node_attrs: Wanted = None) -> EdgeList:
    """Read a torch_geometric ``Data`` or ``HeteroData``.

    Raises
    ------
    InputError
        If `data` is neither, has no ``edge_index``, or a wanted attribute is missing.
    """
    if isinstance(data, GraphView):
        raise InputError(
            "Graph.from_pyg: expected a torch_geometric Data or HeteroData, got an hr.Graph; use it as it is"
        )
    warn_of_several_graphs(data, "Graph.from_pyg")
    if hasattr(data, "edge_types") and hasattr(data, "node_types"):
        edges = _edges_from_hetero_data(data, edge_attrs, node_attrs)
        _warn_of_odd({name: data[name] for name in (*data.node_types, *data.edge_types)}, edge_attrs, node_attrs)
        return edges
    if not hasattr(data, "edge_index"):
        raise InputError(
            f"Graph.from_pyg: expected a torch_geometric Data or HeteroData, got {type(data).__name__}; "
            "Graph.from_coo takes plain tensors"
        )
    src, dst, of_matrix = _ends_of(data, "data")
    _warn_of_odd({None: data}, edge_attrs, node_attrs)
    available = {**of_matrix, **_edge_level(data, len(src), edge_attrs)}
    return EdgeList(
        src=src,
        dst=dst,
        num_nodes=int(data.num_nodes),
        edge_attrs=selected(available, edge_attrs, len(src), "Graph.from_pyg"),
        node_attrs=attributes_of_nodes([None], [data], [int(data.num_nodes)], node_attrs, "Graph.from_pyg"),
    )


def warn_of_several_graphs(data: Any, what: str) -> None:
    """Warn where the graph is a ``Batch`` of several: what tells these apart is lost, as with PyG."""
    if hasattr(data, "to_data_list"):
        warn_user(
            f"{what}: the data are a Batch of {data.num_graphs} graphs, sampled as one; in its batches `batch` is "
            "not the graph of a node, and `ptr` is that of the whole. Keep the graph of each node as an attribute, "
            "data.graph = data.batch, or make a loader for each of data.to_data_list()",
        )


def _ends_of(storage: Any, label: str) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Return sources and destinations of a storage of PyG, and the values of a matrix that holds its edges.

    Edges are those of ``edge_index``, or else the entries of ``adj_t``, whose rows are destinations; its values are
    ``edge_weight``, or ``edge_attr`` where they have several columns, as in PyG before the conversion.
    """
    if storage.get("edge_index") is not None:
        src, dst = storage.edge_index
        return src, dst, {}
    matrix = storage.get("adj_t")
    if matrix is None:
        raise InputError(
            f"Graph.from_pyg: expected {label}.edge_index or {label}.adj_t, got neither; assign one of them"
        )
    (dst, src), values = entries_of_matrix(matrix), values_of_matrix(matrix)
    return src, dst, {} if values is None else {"edge_weight" if values.ndim == 1 else "edge_attr": values}


def entries_of_matrix(matrix: Any) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the entries of a sparse tensor or a SparseTensor, in its order.

    Entries of one place stay apart, which those of a coalesced tensor would not.
    """
    if not isinstance(matrix, Tensor):
        row, col, _ = matrix.coo()
    elif matrix.layout == torch.sparse_csr:
        row, col = _lines(matrix.crow_indices()), matrix.col_indices()
    elif matrix.layout == torch.sparse_csc:
        row, col = matrix.row_indices(), _lines(matrix.ccol_indices())
    else:
        row, col = matrix._indices()  # noqa: SLF001 - also of a tensor that is not coalesced
    return row, col


def values_of_matrix(matrix: Any) -> Tensor | None:
    """Return the values of these entries, in their order; None where they have none."""
    if not isinstance(matrix, Tensor):
        kept: Tensor | None = matrix.storage.value()
        return kept
    if matrix.layout == torch.sparse_coo and not matrix.is_coalesced():
        return matrix._values()  # noqa: SLF001 - entries stay as they are
    return matrix.values()


def _lines(starts: Tensor) -> Tensor:
    """Return the row, or column, of each entry, by where those of each start."""
    return torch.arange(len(starts) - 1, device=starts.device).repeat_interleave(starts.diff())


def _edges_from_hetero_data(data: Any, edge_attrs: Wanted, node_attrs: Wanted) -> EdgeList:
    relations = []
    for name in data.edge_types:
        storage = data[name]
        src, dst, of_matrix = _ends_of(storage, f"data[{name}]")
        available = {**of_matrix, **_edge_level(storage, len(src), edge_attrs)}
        relations.append(Relation(tuple(name), src, dst, available))
    named = {name: None for relation in relations for name in (relation.name[0], relation.name[2])}
    node_counts = {}
    for name in dict.fromkeys((*data.node_types, *named)):
        count = data[name].num_nodes
        if count is None:
            raise InputError(
                f"Graph.from_pyg: expected a number of nodes of type {name!r}, got none; "
                f"set data[{name!r}].num_nodes or give it a feature tensor"
            )
        node_counts[name] = int(count)
    of_nodes = attributes_of_nodes(
        list(node_counts),
        [data[name] for name in node_counts],
        list(node_counts.values()),
        node_attrs,
        "Graph.from_pyg",
    )
    return replace(join_relations(node_counts, relations, edge_attrs, "Graph.from_pyg"), node_attrs=of_nodes)


def _edge_level(storage: Any, num_edges: int, wanted: Wanted) -> dict[str, Any]:
    """Return the edge-level tensors but ``edge_index``, and labels of other edges only where they are asked for."""
    others = [name for name in storage.keys() if name not in ("edge_index", "adj_t")]  # noqa: SIM118 - Data is no dictionary
    found = {name: storage[name] for name in others if storage.is_edge_attr(name)}
    return {
        name: value
        for name, value in found.items()
        if wanted is not None or not (labels_other_edges(storage, name) or len(value) != num_edges)
    }


def labels_other_edges(storage: Any, name: str) -> bool:
    """Return whether an attribute of PyG is of the links in ``edge_label_index``; without those it is of the edges."""
    return name.startswith("edge_label") and storage.get("edge_label_index") is not None


def _warn_of_odd(storages: Mapping[Any, Any], edge_attrs: Wanted, node_attrs: Wanted) -> None:
    """Name what is called an attribute but has another number of rows: it is left out, and nothing else would say so.

    Labels, and other lists of edges, have numbers of their own.
    """
    odd = {}
    for name, storage in storages.items():
        has_edges, has_nodes = name is None or isinstance(name, tuple), not isinstance(name, tuple)
        counts = {int(storage.num_edges)} if has_edges else set()
        found: dict[str, set[int]] = {}
        if has_edges and edge_attrs is None:
            named = [str(one) for one in storage.keys() if str(one).startswith("edge_")]  # noqa: SIM118 - no dictionary
            others = [one for one in named if one.startswith("edge_index") or labels_other_edges(storage, one)]
            found = {one: counts for one in named if one not in others}
        if "time" in storage and (edge_attrs if isinstance(name, tuple) else node_attrs) is None:
            found["time"] = counts | ({int(storage.num_nodes)} if has_nodes else set())
        for one, expected in found.items():
            value = storage[one]
            if isinstance(value, (Tensor, np.ndarray)) and value.ndim and len(value) not in expected:
                what = one if name is None else f"{one} of {name}"
                odd[what] = f"{what} with {' or '.join(map(str, sorted(expected)))} rows, got {describe(value)}"
    if odd:
        warn_user(
            f"Graph.from_pyg: left out {list(odd)}: expected {'; '.join(odd.values())}; edge_attrs=[...] and "
            "node_attrs=[...] name those to take",
        )
