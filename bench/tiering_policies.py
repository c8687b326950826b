"""Cache policies on recorded traces: miss rates beside Belady's optimum, what look-ups cost, and reads beside a gather.

A trace is the distinct rows that each batch of a training reads, as headrace's own samplers draw them over some epochs.
Every policy goes through the whole trace from an empty cache, batch by batch, by the rules of `hr.CachedFeature`. The
optimum (`access_traces.belady`) knows the whole trace; the window of look-ahead is how many batches it knows.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from access_traces import CASES, Trace, belady, record
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    interleave,
    summarised,
)
from tiering_part import run_alone

import headrace as hr
from headrace import ops

BENCH = "tiering: policies"
COST = "tiering: cost of a cache"
ONLINE = ("lru", "clock", "s3-fifo", "sieve")
OPTIMUM = "Belady's optimum"
#: The static cache holds the rows that the trace itself reads most: no order of rows by a score does better.
HINDSIGHT = "static, by the trace's own counts"
DEFAULT_WINDOW = 128


def look_ahead(window: int) -> str:
    """Return the name of look-ahead with a window."""
    return f"look-ahead, {window} batches"


def replay(index: ops.CacheIndex, trace: Trace, window: int = 0) -> float:
    """Look up every batch, `window` of them expected before; return nanoseconds a row."""
    started = time.perf_counter()
    for ids in trace.batches[:window]:
        index.expect(ids)
    for number, ids in enumerate(trace.batches):
        if window and number > 0 and number + window <= len(trace.batches):
            index.expect(trace.batches[number + window - 1])
        index.look_up(ids).finish(True)
    return (time.perf_counter() - started) / trace.num_reads * 1e9


def miss_records(trace: Trace, shares: Sequence[float], windows: Sequence[int]) -> list[Record]:
    """Run every policy at every size, given as shares of the rows."""
    counts = np.bincount(np.concatenate(trace.batches), minlength=trace.num_rows)
    hottest = np.argsort(-counts, kind="stable")
    records = []
    for share in shares:
        capacity = int(share * trace.num_rows)
        case = f"{trace.case}; {share:.0%} of {trace.num_rows:,} rows cached, a batch reads {trace.footprint:.1%}"
        best = belady(trace.batches, trace.num_rows, capacity) / trace.num_reads

        def add(system: str, rate: float, cost: float | None, case: str = case, best: float = best) -> None:
            records.append(summarised(BENCH, case, system, "miss rate", "%", [100 * rate], 1))
            records.append(
                summarised(BENCH, case, system, "misses over the optimum", "%", [100 * (rate / best - 1)], 1)
            )
            if cost is not None:
                records.append(summarised(BENCH, case, system, "look-up", "ns/row", [cost], 1))

        add(OPTIMUM, best, None)
        indexes: dict[str, tuple[ops.CacheIndex, int]] = {
            HINDSIGHT: (ops.CacheIndex("static", capacity, trace.num_rows, ids=hottest[:capacity]), 0),
            **{policy: (ops.CacheIndex(policy, capacity, trace.num_rows), 0) for policy in ONLINE},
            **{look_ahead(w): (ops.CacheIndex("look-ahead", capacity, trace.num_rows), w) for w in windows},
        }
        for name, (index, window) in indexes.items():
            cost = replay(index, trace, window)
            add(name, index.counts()["misses"] / trace.num_reads, cost)
    return records


def cost_records(rounds: int, num_rows: int = 1_000_000, width: int = 100, num_ids: int = 100_000) -> list[Record]:
    """Read rows that are all cached, through each policy and without a cache; and find slots in a plain table."""
    x = torch.ones(num_rows, width)
    random = np.random.default_rng(0)
    hot = random.permutation(num_rows)[: num_rows // 5]
    batches = [torch.from_numpy(random.choice(hot, num_ids, replace=False)) for _ in range(4)]

    def timed(read: Callable[[torch.Tensor], Any]) -> Callable[[int], Metrics]:
        def run(number: int) -> Metrics:
            ids = batches[number % len(batches)]
            started = time.perf_counter()
            read(ids)
            return {"time": (time.perf_counter() - started) * 1e3}

        return run

    def looked_up(index: ops.CacheIndex) -> Callable[[torch.Tensor], Any]:
        return lambda ids: index.look_up(ids).finish(True)

    plain = hr.FeatureStore(node={"x": x}).node["x"]
    reads, look_ups = [System("plain gather", timed(plain.read))], []
    direct = torch.full((num_rows,), -1, dtype=torch.int32)
    direct[torch.from_numpy(hot)] = torch.arange(len(hot), dtype=torch.int32)
    look_ups.append(System("a table of all rows (index_select)", timed(lambda ids: torch.index_select(direct, 0, ids))))
    for policy in ("static", *ONLINE, "look-ahead"):
        options: dict[str, Any] = {"ids": hot} if policy == "static" else {"rows": len(hot)}
        cached = hr.CachedFeature(x, policy, **options)
        index = ops.CacheIndex(policy, len(hot), num_rows, ids=hot if policy == "static" else None)
        cached.read(torch.from_numpy(hot))
        index.look_up(hot).finish(True)
        reads.append(System(f"cached, {policy}", timed(cached.read)))
        look_ups.append(System(policy, timed(looked_up(index))))
    case = f"{num_ids:,} ids, all of them among {len(hot):,} cached of {num_rows:,} rows of {4 * width} B"
    over = [Gain((system.name, 1), ("plain gather", 1)) for system in reads[1:]]
    return interleave(COST, f"read: {case}", reads, rounds=rounds, gains=over) + interleave(
        COST, f"look-up: {case}", look_ups, rounds=rounds
    )


def run(options: argparse.Namespace) -> list[Record]:
    """Return the records of all cases whose graphs are there."""
    records = []
    for case in CASES:
        trace = record(case)
        if trace is None:
            print(f"skipped, as its graph is not there: {case}")
            continue
        records += miss_records(trace, options.shares, options.windows)
    check(records)
    return records + cost_records(options.rounds)


def check(records: Sequence[Record]) -> None:
    """Refuse results in which look-ahead does not do what it is there for.

    Raises
    ------
    ValueError
        If with the default window it misses more than an online policy, or 3 % more than the optimum.
    """
    rates = {(r.case, r.system): r.median for r in records if r.metric == "miss rate"}
    for case in dict.fromkeys(case for case, _ in rates):
        own = rates.get((case, look_ahead(DEFAULT_WINDOW)))
        if own is None:
            continue
        best_online = min(rates[case, policy] for policy in ONLINE)
        if own >= best_online or own > 1.03 * rates[case, OPTIMUM]:
            raise ValueError(
                f"{case}: look-ahead misses {own:.2f} %, online policies {best_online:.2f} %, the optimum "
                f"{rates[case, OPTIMUM]:.2f} %"
            )


def draw(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw miss rate over size, a panel a trace."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    rates = [r for r in records if r.bench == BENCH and r.metric == "miss rate"]
    traces = list(dict.fromkeys(r.case.split("; ")[0] for r in rates))
    figure = Figure(figsize=(4.2 * len(traces), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(traces), squeeze=False)[0]
    for panel, trace in zip(panels, traces, strict=True):
        shown = [r for r in rates if r.case.startswith(trace + "; ")]
        for system in dict.fromkeys(r.system for r in shown):
            line = [(float(r.case.split("; ")[1].split("%")[0]), r.median) for r in shown if r.system == system]
            style = {"color": "black", "linestyle": "--", "zorder": 5} if system == OPTIMUM else {}
            panel.plot(*zip(*line, strict=True), marker=".", label=system, **style)
        panel.set_xscale("log")
        sizes = sorted({float(r.case.split("; ")[1].split("%")[0]) for r in shown})
        panel.set_xticks(sizes, [f"{size:g}" for size in sizes])
        panel.minorticks_off()
        panel.set_ylim(0, 100)
        panel.set_title(trace.replace(", ", "\n", 1), fontsize=7)
        panel.set_xlabel("% of rows cached", fontsize=7)
        panel.tick_params(labelsize=7)
    panels[0].set_ylabel("miss rate, %", fontsize=7)
    panels[0].legend(fontsize=6)
    path = folder / "tiering_policies.png"
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=80)
    Image.open(drawn).quantize(64).save(path, optimize=True)  # a third of the bytes
    return [path]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run` reads."""
    parser.add_argument("--shares", type=float, nargs="+", default=[0.02, 0.05, 0.1, 0.2, 0.4], help="of rows cached")
    parser.add_argument("--windows", type=int, nargs="+", default=[4, 16, 64, DEFAULT_WINDOW], help="of look-ahead")


if __name__ == "__main__":
    run_alone(sys.modules[__name__], rounds=9)
