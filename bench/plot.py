"""Draw records: bars of medians with their range, or lines over a size. matplotlib comes with the extra `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from harness import Record


def draw_bars(path: Path | None, records: Sequence[Record], metric: str) -> None:
    """Draw one panel a case, one bar a system, for one metric; nothing without a path."""
    if path is None:
        return
    shown = [record for record in records if record.metric == metric]
    cases = list(dict.fromkeys((record.bench, record.case) for record in shown))
    figure, panels = _figure(len(cases), heights=[_count(shown, case) for case in cases])
    for panel, case in zip(panels, cases, strict=True):
        bars = [record for record in shown if (record.bench, record.case) == case]
        medians = [bar.median for bar in bars]
        spread = [[bar.median - bar.min for bar in bars], [bar.max - bar.median for bar in bars]]
        panel.barh([_label(bar) for bar in bars], medians, xerr=spread, color="tab:blue", ecolor="0.3")
        panel.invert_yaxis()
        panel.set_title(": ".join(case), fontsize="small")
        panel.set_xlabel(f"{metric}, {bars[0].unit}: median and range of {bars[0].n} rounds", fontsize="small")
    _save(figure, path)


def draw_lines(
    path: Path | None, panels_of: Sequence[tuple[str, Sequence[tuple[float, Record]]]], axis: str = "edges"
) -> None:
    """Draw one panel a (title, points), one line a system; each point is an abscissa and its record."""
    if path is None:
        return
    figure, panels = _figure(len(panels_of), heights=[6] * len(panels_of))
    for panel, (title, points) in zip(panels, panels_of, strict=True):
        for label in dict.fromkeys(_label(record) for _, record in points):
            line = [(x, record) for x, record in points if _label(record) == label]
            medians = [record.median for _, record in line]
            low = [record.median - record.min for _, record in line]
            high = [record.max - record.median for _, record in line]
            panel.errorbar([x for x, _ in line], medians, yerr=[low, high], marker="o", capsize=3, label=label)
        panel.set_xscale("log")
        panel.set_ylim(bottom=0)
        panel.set_title(title, fontsize="small")
        panel.set_xlabel(axis, fontsize="small")
        if points:
            panel.set_ylabel(f"{points[0][1].metric}, {points[0][1].unit}", fontsize="small")
            panel.legend(fontsize="small")
    _save(figure, path)


def draw_shares(
    path: Path, panels_of: Sequence[tuple[str, Sequence[tuple[str, Sequence[float], Sequence[float]]]]], axes: str
) -> None:
    """Draw small panels (title, lines) with one legend; a line is (label, percentages, percentages)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = 3
    rows = -(-len(panels_of) // columns)
    figure = Figure(figsize=(9, 2.1 * rows + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat)
    for panel, (title, lines) in zip(panels, panels_of, strict=False):
        for label, x, y in lines:
            panel.plot(x, y, marker=".", linewidth=1, label=label)
        panel.set_title(title, fontsize=6)
        panel.tick_params(labelsize=6)
    for panel in panels[len(panels_of) :]:
        panel.remove()
    figure.supxlabel(axes, fontsize="small")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize="x-small")
    _save_small(figure, path)


def _save_small(figure: Any, path: Path) -> None:
    """Save a picture of few colours in a third of the bytes."""
    from PIL import Image

    with BytesIO() as drawn:
        figure.savefig(drawn, dpi=75, format="png", metadata={"Software": None})
        Image.open(drawn).convert("RGB").quantize(128).save(path, optimize=True)


def _label(record: Record) -> str:
    return f"{record.system}, {record.threads} thread{'s' if record.threads > 1 else ''}"


def _count(records: Sequence[Record], case: tuple[str, str]) -> int:
    return sum((record.bench, record.case) == case for record in records)


def _figure(count: int, heights: Sequence[int]) -> tuple[Any, list[Any]]:
    if not count:
        raise ValueError("there are no records to draw")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = (9, sum(0.35 * height + 1.0 for height in heights))
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(count, 1, squeeze=False, height_ratios=[height + 2 for height in heights])
    return figure, list(panels[:, 0])


def _save(figure: Any, path: Path) -> None:
    # No date in the file: the same numbers give the same bytes.
    figure.savefig(path, dpi=110, metadata={"Software": None} if path.suffix == ".png" else {"Date": None})
