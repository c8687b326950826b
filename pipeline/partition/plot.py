"""The picture of a partition's report. matplotlib comes with the extra `plot`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.ops.optional import require

if TYPE_CHECKING:
    from headrace.pipeline.partition.report import PartitionReport


def draw(report: PartitionReport, path: Path) -> None:
    """Draw one panel of bars for each count, with the mean as a line, and one for the edges between parts."""
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
    nameless = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    figure.savefig(path, dpi=110, metadata=nameless.get(path.suffix))


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
