"""Dependent batches (arXiv 2310.12403): what they save a cache of feature rows, and that they cost no accuracy.

cache: rows past an exact LRU cache of a fifth of the nodes, at the shape of the published setting: ogbn-products,
LABOR-0, fanouts of 10, 10, 10, batches of 1,024; there the miss rate falls from 0.619 to 0.221 with a dependency of 32.
accuracy: a GraphSAGE trained on Amazon Computers with several dependencies and seeds.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graphs import SHAPES, cached_csc, cached_train
from harness import Record, add_data, arguments, describe_machine, summarised, write_json
from plot import draw_lines
from row_cache import RowCache
from tiering_accuracy import test_accuracy

import headrace as hr

BENCH = "tiering: dependent batches"
PARTS = ("cache", "accuracy")
GRAPH = "amazon_computers.npz"
DEPENDENCIES = (1, 2, 4, 8, 16, 32, 64, 256, math.inf)
_PUBLISHED = 61.9 / 22.1  # of the miss rates of kappa = 1 and 32


def name_of(dependency: float) -> str:
    return "independent" if dependency == 1 else f"kappa = {dependency}"


def cache_records(options: Any, *, layers: bool) -> list[Record]:
    """Count the rows of batches and those past the cache; batches before `warm_up` fill it and are not counted."""
    folder = cached_csc(options.shape)
    graph = hr.Graph.from_csc(*(torch.from_numpy(np.load(folder / f"{part}.npy")) for part in ("indptr", "indices")))
    items = hr.ItemSampler(cached_train(options.shape), batch_size=options.batch_size, shuffle=True, seed=0)
    capacity = round(options.cached * graph.num_nodes)
    case = f"{options.shape}, LABOR-0, 10, 10, 10, {options.batch_size} seeds, {capacity:,} rows cached"
    case += ", layers depend on each other" if layers else ""
    threads = len(os.sched_getaffinity(0))
    records = []
    for dependency in options.dependencies:
        plan = items.sample_layer_neighbor(
            graph, [10, 10, 10], batch_dependency=dependency, layer_dependency=layers, edge_ids=False
        )
        cache = RowCache(capacity, graph.num_nodes)
        rows, rates, times = [], [], []
        with plan.loader(prefetch=False, num_threads=threads) as loader:
            start = time.perf_counter()
            for number, batch in zip(range(options.warm_up + options.batches), loader, strict=False):
                seconds = time.perf_counter() - start
                missed = cache.read(batch.n_id.numpy())
                if number >= options.warm_up:
                    rows.append(len(batch.n_id) / 1e3)
                    rates.append(100 * missed / len(batch.n_id))
                    times.append(1e3 * seconds)
                start = time.perf_counter()
        measured = (("rows", "thousand", rows), ("miss rate", "%", rates), ("sampling time", "ms", times))
        records += [
            summarised(BENCH, case, name_of(dependency), metric, unit, values, threads)
            for metric, unit, values in measured
        ]
        records.append(replace(records[-2], metric="mean miss rate", median=float(np.mean(rates))))
    return records


def gain_records(records: Sequence[Record]) -> list[Record]:
    """Return how many times less is missed with each dependency than without one."""
    means = [record for record in records if record.metric == "mean miss rate"]
    without = {record.case: record.median for record in means if record.system == name_of(1)}
    gains = []
    for record in means:
        if record.case in without and record.system != name_of(1):
            gain = without[record.case] / record.median
            system = f"{record.system} over {name_of(1)}"
            gains.append(
                replace(record, system=system, metric="miss rate gain", unit="×", median=gain, min=gain, max=gain)
            )
    return gains


def accuracy_records(options: Any) -> list[Record]:
    """Train with each dependency and seed; test test_accuracy."""
    case = f"amazon_computers, GraphSAGE, 10, 10, {options.epochs} epochs of batches of 512"
    path, records = options.data / GRAPH, []
    for dependency in options.trained:
        found = [100 * test_accuracy(path, dependency, seed, options.epochs) for seed in range(options.seeds)]
        print(f"{case}, {name_of(dependency)}:", *(f"{one:.2f}" for one in found), flush=True)
        mean = summarised(BENCH, case, name_of(dependency), "test accuracy", "%", found, 1)
        records.append(replace(mean, metric="mean test accuracy", median=float(np.mean(found))))
        error = float(np.std(found, ddof=1) / len(found) ** 0.5) if len(found) > 1 else math.nan
        records.append(replace(mean, metric="its standard error", unit="points", median=error, min=error, max=error))
    return records


def run(options: Any) -> list[Record]:
    """Measure the parts; accuracy where its data is."""
    records = []
    if "cache" in options.part:
        # The published setting reaches 250 thousand rows a batch: as many as this graph with layers that depend.
        records = [*cache_records(options, layers=True), *cache_records(options, layers=False)]
        records += gain_records(records)
    if "accuracy" in options.part and (options.data / GRAPH).exists():
        records += accuracy_records(options)
    return records


def show(records: Sequence[Record]) -> None:
    """Print a line for each dependency."""
    for case in dict.fromkeys(record.case for record in records):
        print(f"\n{case}")
        chosen = [record for record in records if record.case == case]
        for system in dict.fromkeys(record.system for record in chosen):
            found = {record.metric: record for record in chosen if record.system == system}
            print(f"  {system:<14}" + "".join(f" {r.metric} {r.median:.2f} {r.unit};" for r in found.values()))
        for record in chosen:
            if record.metric == "miss rate gain" and record.system == f"{name_of(32)} over {name_of(1)}":
                print(f"  kappa = 32 cuts the miss rate by {record.median:.2f} x (published: {_PUBLISHED:.2f} x)")


def draw(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw the miss rate over the dependency; an infinite one stands at the right end."""
    points: dict[str, list[tuple[float, Record]]] = {}
    for record in records:
        if record.metric == "miss rate":
            text = record.system.removeprefix("kappa = ")
            x = 1.0 if text == "independent" else 1024.0 if text == "inf" else float(text)
            points.setdefault(record.case, []).append((x, replace(record, system="exact LRU")))
    path = folder / "tiering_dependency.png"
    draw_lines(path, list(points.items()), axis="kappa (1024 stands for infinity)")
    return [path]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run` reads."""
    parser.add_argument("--part", choices=PARTS, nargs="+", default=PARTS)
    parser.add_argument("--shape", choices=SHAPES, default="products-footprint")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--cached", type=float, default=0.2041, help="share of the nodes that the cache holds")
    parser.add_argument("--dependencies", type=float_or_int, nargs="+", default=DEPENDENCIES)
    parser.add_argument("--warm-up", type=int, default=8, help="batches that fill the cache")
    parser.add_argument("--batches", type=int, default=24, help="batches that count")
    add_data(parser)
    parser.add_argument("--trained", type=float_or_int, nargs="+", default=[1, 32, 256, math.inf])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)


def float_or_int(text: str) -> float:
    return math.inf if text == "inf" else int(text)


def main() -> None:
    parser = arguments(__doc__ or "")
    add_options(parser)
    options = parser.parse_args()
    print(describe_machine(["headrace", "torch", "numpy"]))
    records = run(options)
    show(records)
    write_json(options.json, records)
    if options.plot is not None:
        draw(records, options.plot.parent)


if __name__ == "__main__":
    main()
