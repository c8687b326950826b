"""What a partition costs on a graph: a report that prints and draws itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import GraphError, InputError
from headrace.ops.partition.counts import count_parts
from headrace.pipeline.data.arrays import as_node_mask
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.node_ids import check_known_by_own_ids


@dataclass(frozen=True, eq=False, repr=False)
class PartitionReport:
    """The costs of a partition of one graph, by part.

    Attributes
    ----------
    num_nodes, num_edges
        The size of the graph.
    nodes: int64[num_parts]
        Nodes that each part owns.
    edges: int64[num_parts]
        Edges of each part; with a partition of nodes, the in-edges of its nodes.
    copies: int64[num_parts]
        Nodes that each part needs: the nodes that it owns, and the ends of its edges.
    labelled: int64[num_parts], optional
        Labelled nodes that each part owns.
    edges_cut
        Edges between nodes of different owners; None for a partition of edges, which cuts none.
    edges_between: int64[num_parts, num_parts], optional
        Edges by the owner of their source and of their destination. None beyond 1,024 parts, and for a partition of
        edges.
    """

    num_nodes: int
    num_edges: int
    nodes: Tensor
    edges: Tensor
    copies: Tensor
    labelled: Tensor | None = None
    edges_cut: int | None = None
    edges_between: Tensor | None = None

    @property
    def num_parts(self) -> int:
        """Return the number of parts."""
        return len(self.nodes)

    @property
    def cut_share(self) -> float | None:
        """Return the share of the edges that are cut, 0 for a graph without edges."""
        return None if self.edges_cut is None else self.edges_cut / max(self.num_edges, 1)

    @property
    def node_balance(self) -> float:
        """Return the nodes of the largest part, divided by the mean."""
        return _balance(self.nodes)

    @property
    def edge_balance(self) -> float:
        """Return the edges of the part with the most edges, divided by the mean."""
        return _balance(self.edges)

    @property
    def labelled_balance(self) -> float | None:
        """Return the labelled nodes of the part with the most of them, divided by the mean."""
        return None if self.labelled is None else _balance(self.labelled)

    @property
    def replication_factor(self) -> float:
        """Return the mean, over nodes, of the number of parts that need the node."""
        return int(self.copies.sum()) / self.num_nodes

    @property
    def by_part(self) -> dict[str, Tensor]:
        """Return the counts of each part, by name: int64[num_parts] each."""
        counts = {"nodes": self.nodes, "edges": self.edges}
        if self.labelled is not None:
            counts["labelled"] = self.labelled
        return counts | {"copies": self.copies}

    def plot(self, path: str | Path) -> None:
        """Draw the counts of each part as bars, and the matrix of edges between parts.

        Needs matplotlib, of the extra ``plot``.

        Parameters
        ----------
        path
            The path of the picture; its suffix is its format (.png, .svg, .pdf).

        Raises
        ------
        ModuleNotFoundError
            If matplotlib is not installed.
        """
        from headrace.pipeline.partition.plot import draw

        draw(self, Path(path))

    def __repr__(self) -> str:
        lines = [f"{self.num_parts:,} parts of {self.num_nodes:,} nodes and {self.num_edges:,} edges"]
        lines.append(f"{'':<10}{'mean':>16}{'largest':>16}{'largest / mean':>16}")
        for name, counts in self.by_part.items():
            mean, largest = int(counts.sum()) / self.num_parts, int(counts.max())
            lines.append(f"{name:<10}{mean:>16,.1f}{largest:>16,}{_balance(counts):>16.3f}")
        if self.cut_share is not None:
            lines.append(f"edges cut           {self.cut_share:.1%}")
        lines.append(f"replication factor  {self.replication_factor:.3f}")
        return "\n".join(lines)


def report_nodes(graph: Graph, owners: Tensor, num_parts: int, labelled: ArrayLike | Tensor | None) -> PartitionReport:
    """Report on owners of nodes, int32[num_nodes], each of whom has the in-edges of its nodes."""
    return _report(graph, owners, num_parts, num_parts, labelled, of_edges=False)


def report_edges(
    graph: Graph, owners: Tensor, num_parts: int, num_columns: int, labelled: ArrayLike | Tensor | None
) -> PartitionReport:
    """Report on parts of edges, in the row of the owner of their source and the column of that of their destination."""
    return _report(graph, owners, num_parts, num_columns, labelled, of_edges=True)


def _report(
    graph: Graph,
    owners: Tensor,
    num_parts: int,
    num_columns: int,
    labelled: ArrayLike | Tensor | None,
    *,
    of_edges: bool,
) -> PartitionReport:
    check_same_nodes(graph, len(owners))
    marked = None
    if labelled is not None:
        mask = as_node_mask(labelled, graph.num_nodes, "labelled", InputError)
        marked = torch.bincount(owners[mask], minlength=num_parts)
    counts = count_parts(graph.indptr, graph.indices, owners, num_parts, num_columns)
    return PartitionReport(
        graph.num_nodes,
        graph.num_edges,
        torch.bincount(owners, minlength=num_parts),
        counts.edges,
        counts.copies,
        marked,
        None if of_edges else counts.cut,
        None if of_edges else counts.between,
    )


def check_same_nodes(graph: Graph, num_nodes: int) -> None:
    """Refuse a graph that is not the one that was partitioned, or a part of it.

    Raises
    ------
    GraphError
        If the numbers of nodes differ, or edges are missing.
    """
    if not isinstance(graph, Graph):
        raise GraphError(f"expected a whole graph to report on, got {graph!r}; pass the graph that was cut")
    check_known_by_own_ids(graph, "a partition's report")
    if graph.num_nodes != num_nodes:
        raise GraphError(
            f"expected a graph of the {num_nodes:,} nodes of the partition, got one of {graph.num_nodes:,}; "
            "make the partition for this graph"
        )


def _balance(counts: Tensor) -> float:
    total = int(counts.sum())
    return int(counts.max()) * len(counts) / total if total else 1.0
