"""Draw the figures of the pages: `make figures`.

The explanation, the timeline and the tiers are of a run that is made here; cooperation and SAR are of the recorded runs
in bench/results. The pictures are in the repository, so that pages have them wherever they are read.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import headrace as hr

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/figures"
NUM_NODES = 20_000


def graph_of_hubs() -> hr.Graph:
    """Return a graph whose in- and out-degrees fall like those of many networks."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.rand(2, 30 * NUM_NODES, generator=generator, dtype=torch.float64)
    src, dst = (ends.pow(3) * NUM_NODES).long()
    names = torch.randperm(NUM_NODES, generator=generator)
    return hr.Graph.from_coo(names[src], names[dst], num_nodes=NUM_NODES)


def plan_over(graph: hr.Graph, num_items: int = 16_000, fanouts: tuple[int, ...] = (10, 10)) -> hr.Plan:
    """Return the plan of all figures."""
    store = hr.FeatureStore(node={"x": torch.randn(NUM_NODES, 128), "y": torch.arange(NUM_NODES) % 10})
    items = hr.ItemSampler(num_items, batch_size=512, shuffle=True, seed=7)
    return items.sample_neighbor(graph, fanouts).fetch_feature(store, node=["x"], labels="y")


def explanation(graph: hr.Graph) -> None:
    """Draw the text of explain(): what each pass takes away and adds."""
    lines = plan_over(graph).prefetch(workers=2).loader().explain().splitlines()
    figure = Figure(figsize=(10.5, 0.235 * len(lines) + 0.2))
    FigureCanvasAgg(figure)
    colours = {"+": "tab:green", "-": "tab:red"}
    for place, line in enumerate(lines):
        head = not line.startswith((" ", "+", "-"))
        figure.text(
            0.01,
            1 - (place + 0.9) / (len(lines) + 0.4),
            line,
            family="monospace",
            fontsize=9,
            weight="bold" if head else "normal",
            color=colours.get(line.strip()[:1], "black"),
        )
    with mpl.rc_context({"svg.fonttype": "none"}):  # text that a reader can select
        save(figure, "explain")


def timeline(graph: hr.Graph) -> None:
    """Draw the last batches of an epoch whose model takes four milliseconds a batch."""
    loader = plan_over(graph).prefetch(workers=2).loader(num_threads=1)
    for batch in loader:
        time.sleep(0.004 if batch.index % 6 else 0.012)
    loader.profile(FOLDER / "timeline.svg")


def tiers(graph: hr.Graph) -> None:
    """Draw the share of reads that the hottest rows take, as a cache of this size serves them."""
    plan = plan_over(graph, 1_024, (5, 5))
    reads = torch.zeros(NUM_NODES)
    for batch in plan.loader():
        reads += torch.bincount(batch.n_id, minlength=NUM_NODES)
    shares = torch.arange(1, NUM_NODES + 1) / NUM_NODES * 100
    orders = {
        "rows read most often (the best that can be)": reads,
        "hr.scores.access_frequency, other batches": hr.scores.access_frequency(plan),
        "hr.scores.weighted_reverse_pagerank": hr.scores.weighted_reverse_pagerank(graph, torch.arange(1_024)),
    }
    figure, panel = one_panel("share of rows that are kept, %", "share of reads, %")
    for name, scores in orders.items():
        kept = reads[torch.as_tensor(scores).argsort(descending=True, stable=True)].cumsum(0) / reads.sum() * 100
        panel.plot(shares, kept, label=name)
    panel.plot([0, 100], [0, 100], color="0.7", linestyle="--", label="rows at random")
    panel.legend(fontsize="small", frameon=False)
    save(figure, "tiers")


def cooperation() -> None:
    """Draw the nodes of a batch of 1,024 seeds a rank, all ranks together, three hops of fanout 10."""
    figure, panel = one_panel("ranks", "thousand rows a batch, all ranks")
    for sampler, colour in (("LABOR-0", "tab:blue"), ("NS", "tab:orange")):
        for system, style in (("independent", "--"), ("cooperative", "-")):
            points = recorded(
                "cooperative", "|S3|", system, lambda case, one=sampler: case.startswith(f"{one}, ") and "1024" in case
            )
            ranks = [int(case.split(", ")[1].split()[0]) for case, _ in points]
            if points:
                panel.plot(
                    ranks, [value for _, value in points], style, color=colour, marker="o", label=f"{sampler}, {system}"
                )
    panel.set_xscale("log", base=2)
    panel.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    panel.legend(fontsize="small", frameon=False)
    save(figure, "cooperation")


def sar() -> None:
    """Draw the peak memory of a rank in a training step of GAT with three layers."""
    figure, panel = one_panel("ranks", "peak of a rank, MB")
    for system in ("one-shot, PyG", "one-shot, autograd", "one-shot", "SAR"):
        values = [
            (int(metric.split()[1]), value)
            for metric, value in recorded_metrics("sar_memory", "GAT", system)
            if metric.startswith("peak, ")
        ]
        labels = {"one-shot, PyG": "one exchange a layer, PyG's layers", "one-shot, autograd": "…, our kernels"}
        labels |= {"one-shot": "…, nothing kept for edges"}
        panel.plot(*zip(*values, strict=True), marker="o", label=labels.get(system, system))
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    panel.legend(fontsize="small", frameon=False)
    save(figure, "sar")


def recorded(bench: str, metric: str, system: str, chosen: Callable[[str], bool]) -> list[tuple[str, float]]:
    """Return cases and medians of a recorded benchmark."""
    records = json.loads((ROOT / f"bench/results/{bench}.json").read_text())
    return [
        (record["case"], record["median"])
        for record in records
        if record["metric"] == metric and record["system"] == system and chosen(record["case"])
    ]


def recorded_metrics(bench: str, case: str, system: str) -> Iterable[tuple[str, float]]:
    """Return metrics and medians of one case and system."""
    records = json.loads((ROOT / f"bench/results/{bench}.json").read_text())
    return [(one["metric"], one["median"]) for one in records if one["case"] == case and one["system"] == system]


def one_panel(x: str, y: str) -> tuple[Figure, Any]:
    """Return a figure with one panel."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.add_subplot()
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    panel.grid(visible=True, alpha=0.3)
    return figure, panel


def save(figure: Figure, name: str) -> None:
    """Write a figure, with the same bytes for the same numbers."""
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None}, facecolor="white")


def main() -> None:
    """Draw all of them, or those that are named."""
    mpl.rcParams["svg.hashsalt"] = "headrace"
    mpl.rcParams["svg.fonttype"] = "path"
    FOLDER.mkdir(exist_ok=True)
    graph = graph_of_hubs()
    drawn = {
        "explain": lambda: explanation(graph),
        "timeline": lambda: timeline(graph),
        "tiers": lambda: tiers(graph),
        "cooperation": cooperation,
        "sar": sar,
    }
    for name in sys.argv[1:] or drawn:
        drawn[name]()
        print(f"docs/figures/{name}.svg")


if __name__ == "__main__":
    main()
