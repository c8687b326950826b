"""The rows of a graph with types: one for each node and each relation that may end in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_numpy
from headrace.ops.errors import GraphError
from headrace.ops.graphs.rows import starts_of
from headrace.ops.memory_limit import check_fits_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Edges that are looked at together when rows are counted: temporary memory, a few numbers of 8 bytes for each.
_EDGES_AT_ONCE = 1 << 24


@dataclass(frozen=True, eq=False, repr=False)
class TypedRows:
    """Where the in-edges of each node and relation are.

    Node types are ranges of node ids. A node of type T has a row for each relation that ends in T, in the order of the
    relations, and at least one: rows of a node lie one after the other, and those of types as the types do. All
    in-edges of a node are its rows together, so the CSC of the graph stays what it is. Where no type has several
    relations, the row of a node has the number of the node.

    Attributes
    ----------
    row_ptr : torch.Tensor
        int64[num_rows + 1], where rows begin among the graph's edges.
    num_nodes : int
        Nodes of the graph.
    first_nodes : tuple of int
        Of each node type its first node, and at the end the number of nodes.
    relations : tuple of tuple of int
        Of each relation the node types that it may end in, none for one that has no such type.
    """

    row_ptr: torch.Tensor
    num_nodes: int
    first_nodes: tuple[int, ...]
    relations: tuple[tuple[int, ...], ...]

    @property
    def num_rows(self) -> int:
        """Rows."""
        return len(self.row_ptr) - 1

    @cached_property
    def ranges(self) -> tuple[tuple[int, int, int, int, int], ...]:
        """Ranges of destinations: the relation, first node and end, the row of the first node, and rows of a node."""
        return tuple(_ranges(self.first_nodes, self.relations))

    @cached_property
    def native(self) -> tuple[list[_native.Relation], list[int]]:
        """Ranges of destinations as kernels know them, and of each the relation that it belongs to."""
        return [_native.Relation(*one[1:]) for one in self.ranges], [one[0] for one in self.ranges]

    def rows_of(self, nodes: torch.Tensor, relation: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return which nodes a relation may end in, and its rows of these: both int64[n]."""
        places, rows = [], []
        for owner, first_node, end_node, first_row, stride in self.ranges:
            if owner == relation:
                found = ((nodes >= first_node) & (nodes < end_node)).nonzero().squeeze(1)
                places.append(found)
                rows.append(first_row + (nodes[found] - first_node) * stride)
        if not places:
            return nodes.new_empty(0), nodes.new_empty(0)
        order = torch.cat(places).argsort(stable=True)
        return torch.cat(places)[order], torch.cat(rows)[order]


def typed_rows(
    indptr: Array,
    relation_offsets: Array,
    edge_ids: Array | None,
    first_nodes: Sequence[int],
    relations: Sequence[tuple[int, ...]],
) -> TypedRows:
    """Find the rows of a graph whose rows are sorted by relation.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    relation_offsets : torch.Tensor or numpy.ndarray
        int64[num_relations + 1]: a relation's edges are a range of the *input* edge ids.
    edge_ids : torch.Tensor or numpy.ndarray, optional
        int32[num_edges] or int64[num_edges], the input edge id of each CSC position; the position by default.
    first_nodes : sequence of int
        As in `TypedRows`.
    relations : sequence of tuple of int
        As in `TypedRows`.

    Raises
    ------
    GraphError
        If a row is not sorted by relation, an edge ends in a node that its relation does not end in, or rows do not
        fit into memory; for arrays that are no CSC, or ranges of types that do not cover the nodes and the edges.
    """
    stage = "typed_rows"
    indptr = torch.from_numpy(as_numpy(indptr, "indptr", stage=stage, error=GraphError))
    relation_offsets = torch.from_numpy(as_numpy(relation_offsets, "relation_offsets", stage=stage, error=GraphError))
    if edge_ids is not None:
        edge_ids = torch.from_numpy(as_numpy(edge_ids, "edge_ids", stage=stage, dtypes=ID_DTYPES, error=GraphError))
    first_nodes, relations = tuple(first_nodes), tuple(relations)
    num_nodes = len(indptr) - 1
    _check_rises(indptr, "indptr")
    _check_rises(torch.tensor(first_nodes, dtype=torch.int64), "first_nodes", num_nodes)
    _check_rises(relation_offsets, "relation_offsets")
    if len(relation_offsets) != len(relations) + 1 or (edge_ids is not None and len(edge_ids) != int(indptr[-1])):
        message = f"{stage}: expected an offset for each of {len(relations)} relations, and an id for each edge"
        raise GraphError(message)
    num_types = len(first_nodes) - 1
    strides = torch.tensor(_strides(num_types, relations), dtype=torch.int64)
    starts = torch.tensor(_first_rows(first_nodes, strides.tolist()), dtype=torch.int64)
    num_rows = int(starts[-1])
    check_fits_memory(
        16 * num_rows,
        f"Graph: got {num_rows:,} pairs of a node and a relation that may end in it",
        "merge relations, or sample graph.untyped()",
        GraphError,
    )
    ranks = torch.full((num_types, len(relations)), -1, dtype=torch.int64)
    for relation, rank, node_type in _ranks(num_types, relations):
        ranks[node_type, relation] = rank
    # Of each node the place of its type's ranks, and its first row.
    sizes = torch.tensor(first_nodes, dtype=torch.int64).diff()
    of_type = torch.arange(num_types).repeat_interleave(sizes) * len(relations)
    own_rows = starts[:-1] - torch.tensor(first_nodes[:-1], dtype=torch.int64) * strides
    first_rows = own_rows.repeat_interleave(sizes) + torch.arange(num_nodes) * strides.repeat_interleave(sizes)
    counts = torch.zeros(num_rows, dtype=torch.int64)
    num_edges = int(indptr[-1])
    last = -1
    for first in range(0, num_edges, _EDGES_AT_ONCE):
        end = min(first + _EDGES_AT_ONCE, num_edges)
        nodes = slice(int(torch.searchsorted(indptr, first, right=True)) - 1, int(torch.searchsorted(indptr, end)))
        degrees = indptr[nodes.start : nodes.stop + 1].clamp(first, end).diff()
        ids = torch.arange(first, end) if edge_ids is None else edge_ids[first:end].long()
        found = torch.searchsorted(relation_offsets, ids, right=True) - 1
        if bool((found >= len(relations)).any()) or bool((found < 0).any()):
            message = f"{stage}: expected edge ids below {int(relation_offsets[-1])}, the end of the last relation"
            raise GraphError(message)
        numbers = ranks.flatten()[of_type[nodes].repeat_interleave(degrees) + found]
        if bool((numbers < 0).any()):
            place = int((numbers < 0).nonzero()[0, 0])
            node = int(torch.searchsorted(indptr, first + place, right=True)) - 1
            message = (
                f"Graph: edge {int(ids[place])} of relation {int(found[place])} ends in node {node}, "
                "which has another type than that relation ends in"
            )
            raise GraphError(message)
        rows = first_rows[nodes].repeat_interleave(degrees) + numbers
        if int(rows[0]) < last or bool((rows[1:] < rows[:-1]).any()):
            message = "Graph: expected in-edges of each node sorted by edge type, got others; build it with from_coo"
            raise GraphError(message)
        last = int(rows[-1])
        counts += torch.bincount(rows, minlength=num_rows)
    return TypedRows(starts_of(counts), num_nodes, first_nodes, relations)


def _check_rises(offsets: torch.Tensor, name: str, end: int | None = None) -> None:
    """Refuse what does not rise from 0, to `end` where that is known."""
    rises = len(offsets) > 0 and int(offsets[0]) == 0 and bool((offsets[1:] >= offsets[:-1]).all())
    if not rises or (end is not None and int(offsets[-1]) != end):
        message = f"typed_rows: expected {name} to rise from 0{'' if end is None else f' to {end}'}, got others"
        raise GraphError(message)


def _ranks(num_types: int, relations: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, int, int]]:
    """Yield each relation with its number among those that end in a node type, and the type."""
    seen = [0] * num_types
    for relation, ends in enumerate(relations):
        for node_type in ends:
            yield relation, seen[node_type], node_type
            seen[node_type] += 1


def _strides(num_types: int, relations: Sequence[tuple[int, ...]]) -> list[int]:
    strides = [0] * num_types
    for _, _, node_type in _ranks(num_types, relations):
        strides[node_type] += 1
    # With one row at least there are as many rows as nodes, whose ids are numbers of rows then.
    return [max(stride, 1) for stride in strides]


def _first_rows(first_nodes: Sequence[int], strides: Sequence[int]) -> list[int]:
    starts = [0]
    for node_type, stride in enumerate(strides):
        starts.append(starts[-1] + (first_nodes[node_type + 1] - first_nodes[node_type]) * stride)
    return starts


def _ranges(
    first_nodes: Sequence[int], relations: Sequence[tuple[int, ...]]
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield for each relation and type that it ends in: the relation, the range of nodes, the first row, the stride."""
    strides = _strides(len(first_nodes) - 1, relations)
    starts = _first_rows(first_nodes, strides)
    for relation, rank, node_type in _ranks(len(strides), relations):
        yield (
            relation,
            first_nodes[node_type],
            first_nodes[node_type + 1],
            starts[node_type] + rank,
            strides[node_type],
        )
