"""The rows of a graph with types: one for each node and each relation that may end in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_num_threads, as_numpy
from headrace.ops.errors import InputError
from headrace.ops.forks import cached_property
from headrace.ops.graphs.ranked_rows import RankedRows
from headrace.ops.memory_limit import check_fits_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, eq=False, repr=False)
class TypedRows:
    """The positions of the in-edges of each node and relation.

    Node types are ranges of node ids. A node of type T has a row for each relation that ends in T, in the order of the
    relations, and at least one. The rows of a node are consecutive, and rows are in the order of nodes. All in-edges of
    a node are its rows together, so the CSC of the graph does not change. If no type has several relations, the row of
    a node has the number of the node.

    Attributes
    ----------
    row_ptr : torch.Tensor or RankedRows
        int64[num_rows + 1], the bounds of rows among the graph's edges; of a part of a graph the rows of its own nodes.
    num_nodes : int
        Nodes of the graph.
    first_nodes : tuple of int
        The first node of each node type, and finally the number of nodes.
    relations : tuple of tuple of int
        For each relation the node types in which it may end; empty for a relation without such a type.
    """

    row_ptr: torch.Tensor | RankedRows
    num_nodes: int
    first_nodes: tuple[int, ...]
    relations: tuple[tuple[int, ...], ...]

    @property
    def num_rows(self) -> int:
        """Rows."""
        return self.row_ptr.num_ids if isinstance(self.row_ptr, RankedRows) else len(self.row_ptr) - 1

    def of_part(self, own_nodes: torch.Tensor, first_nodes: Sequence[int]) -> TypedRows:
        """Return these rows by the numbers that they have in a graph of which they are a part.

        Parameters
        ----------
        own_nodes : torch.Tensor
            int64[num_nodes], ascending, the nodes of the whole graph whose rows these are.
        first_nodes : sequence of int
            Those of the whole graph.
        """
        strides = _strides(len(first_nodes) - 1, self.relations)
        first_rows = torch.tensor(_first_rows(first_nodes, strides), device="cpu")
        firsts, stride = torch.tensor(first_nodes, device="cpu"), torch.tensor(strides, device="cpu")
        kinds = torch.searchsorted(firsts, own_nodes, right=True) - 1
        counts = stride[kinds]
        rows = first_rows[kinds] + (own_nodes - firsts[kinds]) * counts
        places = torch.arange(int(counts.sum()), device="cpu") - (counts.cumsum(0) - counts).repeat_interleave(counts)
        assert isinstance(self.row_ptr, torch.Tensor)  # of a graph of its own
        ranked = RankedRows.of(rows.repeat_interleave(counts) + places, self.row_ptr, int(first_rows[-1]))
        return TypedRows(ranked, first_nodes[-1], tuple(first_nodes), self.relations)

    @cached_property
    def ranges(self) -> tuple[tuple[int, int, int, int, int], ...]:
        """Ranges of destinations: the relation, first node and end, the row of the first node, and rows of a node."""
        return tuple(_ranges(self.first_nodes, self.relations))

    @cached_property
    def native(self) -> tuple[list[_native.Relation], list[int]]:
        """Ranges of destinations for kernels, each with its relation."""
        return [_native.Relation(*one[1:]) for one in self.ranges], [one[0] for one in self.ranges]

    def rows_of(self, nodes: torch.Tensor, relation: int | torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the nodes in which a relation, or each of int64[n], may end, and its rows of them: both int64[n]."""
        found = torch.full_like(nodes, -1)
        for owner, first_node, end_node, first_row, stride in self.ranges:
            here = (nodes >= first_node) & (nodes < end_node) & (relation == owner)
            found = torch.where(here, first_row + (nodes - first_node) * stride, found)
        places = (found >= 0).nonzero().squeeze(1)
        return places, found[places]

    def ranges_on(self, device: torch.device) -> torch.Tensor:
        """Return `ranges` for kernels on a device, int64[num_ranges, 5], copied there once."""
        known = self._ranges_by_device.get(device)
        if known is None:
            made = torch.tensor(self.ranges, dtype=torch.int64, device=device).view(-1, 5)
            known = self._ranges_by_device.setdefault(device, made)
        return known

    @cached_property
    def _ranges_by_device(self) -> dict[torch.device, torch.Tensor]:
        return {}


def typed_rows(
    indptr: Array,
    relation_offsets: Array,
    edge_ids: Array | None,
    first_nodes: Sequence[int],
    relations: Sequence[tuple[int, ...]],
    *,
    num_threads: int | None = None,
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
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it.

    Raises
    ------
    InputError
        If a row is not sorted by relation, an edge ends in a node of a wrong type, or rows do not fit into memory; for
        arrays that are not a CSC, or ranges of types that do not cover the nodes and the edges.
    """
    stage = "typed_rows"
    num_threads = as_num_threads(num_threads, stage=stage)
    starts = as_numpy(indptr, "indptr", stage=stage)
    offsets = as_numpy(relation_offsets, "relation_offsets", stage=stage)
    ids = None
    if edge_ids is not None:
        ids = as_numpy(edge_ids, "edge_ids", stage=stage, dtypes=ID_DTYPES)
    first_nodes, relations = tuple(first_nodes), tuple(relations)
    num_nodes = max(len(starts) - 1, 0)
    types = np.array(first_nodes, np.int64)
    if len(types) == 0 or types[0] != 0 or types[-1] != num_nodes or (types[1:] < types[:-1]).any():
        message = f"{stage}: expected first_nodes to rise from 0 to {num_nodes}, got others"
        raise InputError(message)
    if len(offsets) != len(relations) + 1:
        message = f"{stage}: expected an offset for each of {len(relations)} relations and one more, got {len(offsets)}"
        raise InputError(message)
    num_types = len(first_nodes) - 1
    num_rows = _first_rows(first_nodes, _strides(num_types, relations))[-1]
    check_fits_memory(
        8 * num_rows,
        f"Graph: got {num_rows:,} pairs of a node and a relation that may end in it",
        "merge relations, or sample graph.untyped()",
    )
    may_end = np.zeros((num_types, len(relations)), bool)
    for relation, ends in enumerate(relations):
        may_end[list(ends), relation] = True
    row_ptr = _native.typed_rows(starts, ids, offsets, types, may_end.ravel(), num_threads)
    return TypedRows(torch.from_numpy(row_ptr), num_nodes, first_nodes, relations)


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
