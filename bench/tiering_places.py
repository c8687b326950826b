"""Bytes per place: rows of a feature over devices, host memory and disk, as plan_tiers puts them.

Devices are tables in CPU memory here, each of its own, so that bytes are those that would cross a link, and times are
not those of devices: what is timed is what routing costs, against a plain gather of the same rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from directed_graphs import directed_graph
from harness import (
    Metrics,
    Record,
    System,
    interleave,
    summarised,
)
from plot import draw_bars
from tiering_part import run_alone

import headrace as hr
from headrace.ops import TierSizes
from headrace.pipeline.data.place import DISK
from headrace.pipeline.storage.array_source import ArraySource

BENCH = "tiering: places"
DEVICES = (0, 1, 2, 4, 8)
PLACES = ("cuda", "peer", "pinned", "cpu", "disk")


def run(options: Any) -> list[Record]:
    """Count the bytes of each place for several numbers of devices, and time routing."""
    graph = directed_graph(options.nodes, options.degree, options.top_share)
    items = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))[: graph.num_nodes // 10]
    sampled = hr.ItemSampler(items, batch_size=options.batch_size, shuffle=True, seed=1).sample_neighbor(
        graph, [12, 12]
    )
    scores = hr.scores.access_frequency(sampled, num_batches=options.profiled)
    source = ArraySource(torch.empty(graph.num_nodes, options.width).normal_(), place=DISK)
    store = hr.FeatureStore(node={"x": source})
    records = []
    for count in DEVICES:
        held = int(options.held * graph.num_nodes) * source.row_bytes
        taken = graph.indptr.nbytes + graph.indices.nbytes
        machine = hr.Machine(gpus=count, gpu_memory=(2 * held,) * count, memory=taken + 4 * held)
        plan = hr.plan_tiers(store, graph, machine, scores)
        print(f"\n{count} devices that hold {options.held:.0%} of the rows each\n{plan}")
        records += measured(sampled, plan.apply(store, stand_ins=True), count, options)
    return [*records, *routing_records(sampled, store, scores, options)]


def measured(sampled: hr.Plan, store: hr.FeatureStore, devices: int, options: Any) -> list[Record]:
    """Return the share of the bytes from each place, over some batches."""
    case = f"{options.nodes:,} nodes, top 1 % with {options.top_share:.0%} of the edges, {options.held:.0%} a device"
    shares: dict[str, list[float]] = {place: [] for place in PLACES}
    feature = store.node["x"]
    with sampled.loader() as loader:
        for _, batch in zip(range(options.batches), loader, strict=False):
            rows, counts = feature.read(batch.n_id)
            for place in PLACES:
                shares[place].append(100 * counts.get(f"bytes_from_{place}", 0) / rows.nbytes)
    name = f"{devices} device{'s' * (devices != 1)}"
    return [summarised(BENCH, case, name, f"bytes from {place}", "%", found, 1) for place, found in shares.items()]


def routing_records(sampled: hr.Plan, store: hr.FeatureStore, scores: torch.Tensor, options: Any) -> list[Record]:
    """Time a gather through four tables against one from a single table, of the same rows."""
    with sampled.loader() as loader:
        batches = [batch.n_id for _, batch in zip(range(8), loader, strict=False)]
    rank = torch.argsort(scores, descending=True).argsort()
    num_rows = len(rank)
    sizes = TierSizes(num_rows // 20, num_rows // 5, num_rows - num_rows // 20 - num_rows // 5, 2)
    devices = (hr.Place("cuda", 0), hr.Place("cuda", 1))
    tiers = hr.TieredFeature(store.node["x"], rank, sizes, devices=devices, stand_ins=True)
    tiers.fill()

    def system(name: str, source: hr.FeatureSource) -> System:
        def read(number: int) -> Metrics:
            ids = batches[number % len(batches)]
            start = time.perf_counter()
            rows, _ = source.read(ids)
            seconds = time.perf_counter() - start
            return {"time": 1e3 * seconds, "row rate": rows.nbytes / seconds / 1e9}

        return System(name, read)

    both = [system("plain gather", store.node["x"]), system("gather through tiers", tiers)]
    return interleave(BENCH, f"routing, rows of {4 * options.width} bytes", both, rounds=options.rounds)


def draw(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw the share of the bytes that comes from disk, the slowest place."""
    path = folder / "tiering_places.png"
    draw_bars(path, [record for record in records if record.metric == "bytes from disk"], "bytes from disk")
    return [path]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run` reads."""
    parser.add_argument("--nodes", type=int, default=300_000)
    parser.add_argument("--degree", type=float, default=15.0)
    parser.add_argument(
        "--top-share", type=float, default=0.35, help="share of the edges from the top 1 %% of the nodes"
    )
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--held", type=float, default=0.05, help="share of the rows that a device has room for")
    parser.add_argument("--profiled", type=int, default=200, help="batches that scores are measured on")
    parser.add_argument("--batches", type=int, default=50, help="batches that count")


if __name__ == "__main__":
    run_alone(sys.modules[__name__])
