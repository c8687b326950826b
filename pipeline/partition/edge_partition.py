"""Partitions of edges: by their source, by their destination, or on a grid by both."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops import InputError, gather_rows
from headrace.ops.forks import cached_property
from headrace.ops.graphs.rows import edge_positions, row_starts
from headrace.ops.partition.owners import edge_owners, grid_columns
from headrace.pipeline.data import Graph, whole_number
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.partition.report import PartitionReport, check_same_nodes, report_edges


class EdgePartition:
    """Assign every edge of a graph to one part, and every node to one part that is its master.

    The parts are a grid, part p in row ``p // num_columns`` and column ``p % num_columns``. Edge u -> v is in the row
    of u's master and in the column of v's. Make one with

    ======================  =======================================================================================
    :meth:`by_source`       one column: edges are with the master of their source (1D)
    :meth:`by_destination`  one row: edges are with the master of their destination (1D), as with a
                            `Partition` of nodes
    :meth:`grid`            rows and columns: the edges of a hub are spread over a row or a column (2D vertex cut)
    ======================  =======================================================================================

    With ``.loader(cooperative=True, partition=...)`` each rank processes the edges of its part in every batch. This
    needs ``sample_in_subgraph`` as the sampler, without times, negatives and excluded edges, and a graph without types:
    use ``graph.untyped()`` for the partition and the plan, or partition a graph with types by a `Partition`. The parts
    depend on ids only, not on types; those that `Dataset.partition` writes keep types.

    A node has copies in the parts of its edges: on a grid of R rows and C columns at most R + C - 1, including that of
    its master, because all are in one row or one column.

    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 1, 2, 3], [1, 2, 3, 0], num_nodes=4)
    >>> edges = hr.EdgePartition.by_source(graph, hr.Partition.range(4, 2))
    >>> edges.owned(0).tolist()  # the edges 0 -> 1 and 1 -> 2, by their place among the in-edges of 0, 1, 2, 3
    [1, 2]

    Parameters
    ----------
    graph
        The graph whose edges are assigned.
    nodes
        The master of each node.
    num_columns
        Columns of the grid; a divisor of the number of parts.

    Raises
    ------
    InputError
        If the nodes are not those of the graph.
        If the columns do not divide the parts.
    """

    def __init__(self, graph: Graph, nodes: Partition, num_columns: int) -> None:
        _check_graph(graph)
        if not isinstance(nodes, Partition):
            raise InputError(f"EdgePartition: expected nodes to be an hr.Partition, got {type(nodes).__name__}")
        check_same_nodes(graph, nodes.num_nodes)
        num_columns = whole_number(num_columns, "EdgePartition: num_columns", 0, InputError)
        if num_columns < 1 or nodes.num_parts % num_columns:
            raise InputError(
                f"EdgePartition: expected num_columns to divide the {nodes.num_parts} parts, got {num_columns}"
            )
        self.graph = graph
        self.nodes = nodes
        self.num_columns = num_columns

    @classmethod
    def by_source(cls, graph: Graph, num_parts: int | Partition) -> EdgePartition:
        """Put edges with the master of their source.

        Parameters
        ----------
        num_parts
            A number, for masters by `Partition.hash`, or a partition of the nodes.
        """
        return cls(graph, _masters(graph, num_parts), 1)

    @classmethod
    def by_destination(cls, graph: Graph, num_parts: int | Partition) -> EdgePartition:
        """Put edges with the master of their destination; `num_parts` as in `by_source`."""
        nodes = _masters(graph, num_parts)
        return cls(graph, nodes, nodes.num_parts)

    @classmethod
    def grid(cls, graph: Graph, num_parts: int | Partition) -> EdgePartition:
        """Put edges in the row of their source's master and the column of their destination's, on a grid near a square.

        With a prime number of parts the grid is one row, as `by_destination`. `num_parts` is as in `by_source`. The
        bound on copies holds for any partition of the nodes; the balance of edges is good for a hash.
        """
        nodes = _masters(graph, num_parts)
        return cls(graph, nodes, grid_columns(nodes.num_parts))

    @property
    def num_parts(self) -> int:
        """Return the number of parts."""
        return self.nodes.num_parts

    @property
    def num_rows(self) -> int:
        """Return the number of rows of the grid."""
        return self.num_parts // self.num_columns

    def owner(self, source: Tensor, destination: Tensor) -> Tensor:
        """Return the parts, int32[n], of edges from ``source`` to ``destination``, int64[n] each."""
        return edge_owners(self.nodes.owner(source), self.nodes.owner(destination), self.num_columns)

    def owned(self, part: int) -> Tensor:
        """Return the edges of a part as CSC positions, int64[sizes[part]] ascending."""
        part = whole_number(part, "EdgePartition.owned: part", 0, InputError, self.num_parts - 1)
        graph, (row, column) = self.graph, divmod(part, self.num_columns)
        found = [torch.empty(0, dtype=torch.int64, device="cpu")]
        nodes = (self._masters() % self.num_columns == column).nonzero().reshape(-1)
        for _, positions in edge_positions(graph.indptr, nodes, row_starts(graph.indptr, nodes)):
            rows = self.nodes.owner(gather_rows(graph.indices, positions).long()) // self.num_columns
            found.append(positions[rows == row])
        return torch.cat(found)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of edges of each part."""
        return tuple(self._costs.edges.tolist())

    @cached_property
    def _costs(self) -> PartitionReport:
        return report_edges(self.graph, self._masters(), self.num_parts, self.num_columns, None)

    def report(self, graph: Graph, labelled: ArrayLike | Tensor | None = None) -> PartitionReport:
        """Return the costs of the partition: balance of edges, masters and labelled masters, and copies of nodes.

        Parameters
        ----------
        graph
            Usually the graph that was partitioned; any other must have as many nodes.
        labelled: bool[num_nodes] or integer[n], optional
            Nodes, by mask or ids, whose balance is reported, too.

        Raises
        ------
        InputError
            If the graph has another number of nodes.
            If `labelled` names no nodes of the graph.
        """
        if graph is self.graph and labelled is None:
            return self._costs
        return report_edges(graph, self._masters(), self.num_parts, self.num_columns, labelled)

    def _masters(self) -> Tensor:
        """Return the master of each node, int32[num_nodes]."""
        return self.nodes.owner(torch.arange(self.nodes.num_nodes, device="cpu"))

    def __repr__(self) -> str:
        return f"EdgePartition({self.graph.num_edges:,} edges, {self.num_rows} x {self.num_columns} parts)"


def _check_graph(graph: object) -> None:
    if not isinstance(graph, Graph):
        raise InputError(f"EdgePartition: expected a whole graph, an hr.Graph, got {type(graph).__name__}")


def _masters(graph: Graph, num_parts: int | Partition) -> Partition:
    _check_graph(graph)
    return num_parts if isinstance(num_parts, Partition) else Partition.hash(graph.num_nodes, num_parts)
