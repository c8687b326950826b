"""What a partition costs on a graph: a report that prints and draws itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.names import Named
from headrace.ops.optional import require
from headrace.ops.partition.counts import count_parts
from headrace.pipeline.data import Graph, check_known_by_own_ids
from headrace.pipeline.data.arrays import as_node_mask, check_kind
from headrace.pipeline.data.new_folder import check_file, write_file

#: Suffixes of files of pictures.
PICTURES = (".png", ".svg", ".pdf")


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
        return Named(f"{type(self).__name__}.by_part", counts | {"copies": self.copies})

    def plot(self, path: str | Path) -> None:
        """Draw the counts of each part as bars, and the matrix of edges between parts.

        Needs matplotlib, of the extra ``plot``.

        Parameters
        ----------
        path
            The path of the picture; its suffix is its format (.png, .svg, .pdf).

        Raises
        ------
        InputError
            If it has another suffix, its folder does not exist, or something else than a file is there.
        ModuleNotFoundError
            If matplotlib is not installed.
        OSError
            If it cannot be written; a file of this name stays as it was.
        """
        check_kind(path, (str, os.PathLike), "plot: expected the path of a picture", "name it", InputError)
        path = Path(path)
        if path.suffix.lower() not in PICTURES:
            raise InputError(f"plot: expected a name that ends in {', '.join(PICTURES)}, got {str(path)!r}")
        check_file(path, "plot", InputError, overwrite=True)
        write_file(path, "plot", _drawn(self, path.suffix[1:].lower()))

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
        mask = as_node_mask(labelled, graph.num_nodes, "labelled")
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
    InputError
        If the numbers of nodes differ, or edges are missing.
    """
    if not isinstance(graph, Graph):
        raise InputError(f"expected a whole graph to report on, got {graph!r}; pass the graph that was cut")
    check_known_by_own_ids(graph, "a partition's report")
    if graph.num_nodes != num_nodes:
        raise InputError(
            f"expected a graph of the {num_nodes:,} nodes of the partition, got one of {graph.num_nodes:,}; "
            "make the partition for this graph"
        )


def _balance(counts: Tensor) -> float:
    total = int(counts.sum())
    return int(counts.max()) * len(counts) / total if total else 1.0


def _drawn(report: PartitionReport, form: str) -> bytes:
    """Return a picture: a panel of bars for each count, with the mean as a line, and one of edges between parts."""
    require("matplotlib", extra="plot", stage="PartitionReport.plot")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    counts = report.by_part
    has_matrix = report.edges_between is not None
    figure = Figure(figsize=(12.5 if has_matrix else 7.5, 1.5 * len(counts) + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(counts), 2 if has_matrix else 1)
    above: Any = None
    for place, (name, values) in enumerate(counts.items()):
        panel = figure.add_subplot(grid[place, 0], sharex=above)
        above = above or panel
        mean = int(values.sum()) / report.num_parts
        panel.bar(range(report.num_parts), values.tolist(), width=0.8 if report.num_parts <= 64 else 1.0)
        panel.axhline(mean, color="0.3", linewidth=0.8)
        panel.set_ylabel(name)
        panel.set_title(f"largest {int(values.max()):,}, mean {mean:,.1f}", fontsize="small", loc="right")
        panel.set_xlabel("part" if place == len(counts) - 1 else "")
    if report.edges_between is not None:
        _draw_matrix(figure, figure.add_subplot(grid[:, 1]), report)
    figure.suptitle(
        f"{report.num_parts:,} parts of {report.num_nodes:,} nodes, replication factor {report.replication_factor:.2f}",
        fontsize="medium",
    )
    # No date in the file: the same numbers give the same bytes.
    nameless = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    picture = BytesIO()
    figure.savefig(picture, dpi=110, format=form, metadata=nameless[form])
    return picture.getvalue()


def _draw_matrix(figure: Any, panel: Any, report: PartitionReport) -> None:
    """Show edges on a scale of orders of magnitude: what stays within parts would drown the rest."""
    from matplotlib.colors import SymLogNorm

    assert report.edges_between is not None
    matrix = report.edges_between.numpy()
    scale = SymLogNorm(1, vmin=int(matrix.min()), vmax=max(int(matrix.max()), int(matrix.min()) + 1))
    picture = panel.imshow(matrix, norm=scale, cmap="viridis")
    figure.colorbar(picture, ax=panel, label="edges")
    panel.set_xlabel("part of the destination")
    panel.set_ylabel("part of the source")
    panel.set_title(f"{report.cut_share:.1%} of {report.num_edges:,} edges cut", fontsize="small")
