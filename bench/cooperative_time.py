"""Time of cooperative loading between processes, beside independent loading and beside its bare parts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphs import cached_csc
from harness import Record, summarised
from processes import run_processes
from published_cooperative import COOPERATIVE, INDEPENDENT

BENCH = "cooperative: time"
BARE = "bare collectives and kernels"
SCRIPT = Path(__file__).resolve().parent / "cooperative_rank.py"
# The bare parts that kinds of stages of the loader do; one rank alone exchanges nothing.
STAGES = {
    ("sampling",): ("sample_fused",),
    ("collectives of ids",): ("exchange_ids",),
    ("gather", "collectives of rows"): (
        "fetch_feature",
        "fetch_owned",
        "fetch_and_exchange",
        "exchange_rows",
        "return_ids",
    ),
}
METRICS = {"all": "time", "cpu": "CPU time", "kernel": "CPU time in the kernel"}


def shape_of(options: Any, world_size: int) -> str:
    """Return the graph: every rank has it and all features, for which memory is too small where ranks are many."""
    shape: str = options.shape if world_size <= options.most_ranks else options.small_shape
    return shape


def settings_of(options: Any, world_size: int) -> dict[str, Any]:
    """Return what a rank is to do; the cores are shared evenly, and a rank has one thread at least."""
    return {
        "folder": str(cached_csc(shape_of(options, world_size))),
        "batch_size": options.batch_size,
        "batches": options.batches,
        "width": options.feature_width,
        "rounds": options.rounds,
        "threads": max(1, len(os.sched_getaffinity(0)) // world_size),
        "latency": 0.0,
        "profile": 25,
    }


def time_records(options: Any) -> list[Record]:
    """Measure every number of ranks."""
    records = []
    for world_size in options.processes:
        settings = settings_of(options, world_size)
        answers = run_processes(SCRIPT, world_size, settings)
        cores = len(os.sched_getaffinity(0))
        crowded = "" if world_size <= cores else f", {cores} cores"
        shape = shape_of(options, world_size)
        case = f"{shape}, {world_size} processes of gloo, {options.batch_size} seeds a rank{crowded}"
        found = records_of(BENCH, case, answers, settings)
        records += found
        print_time(found)
        print_profile(answers[0]["profile"], options.batches)
    return records


def records_of(
    bench: str, case: str, answers: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> list[Record]:
    """Return the records of one case: milliseconds a batch, means of the ranks, and what they are over each other."""
    threads, scale = settings["threads"], 1e3 / settings["batches"]
    measured = {
        name: [_mean_of_ranks(same) for same in zip(*(answer["measured"][key] for answer in answers), strict=True)]
        for key, name in (("independent", INDEPENDENT), ("cooperative", COOPERATIVE), ("bare", BARE))
    }
    records = []
    for name, rounds in measured.items():
        for part in rounds[0]:
            if part == "faults":
                values = [one[part] / settings["batches"] / 1e3 for one in rounds]
                records.append(summarised(bench, case, name, "page faults", "thousand", values, threads))
                continue
            metric = METRICS.get(part, f"time of {part}")
            values = [one[part] * scale for one in rounds]
            records.append(summarised(bench, case, name, metric, "ms", values, threads))
    received = [answer["received bytes"] / 1e6 for answer in answers]
    records.append(summarised(bench, case, COOPERATIVE, "received by a rank", "MB", received, threads))
    for metric, over, part, unit in (
        ("overhead", BARE, "all", "%"),
        ("CPU overhead", BARE, "cpu", "%"),
        ("time gain", INDEPENDENT, "all", "×"),
    ):
        pairs = [(own[part], other[part]) for own, other in zip(measured[COOPERATIVE], measured[over], strict=True)]
        values = [100 * (own / other - 1) if unit == "%" else other / own for own, other in pairs]
        records.append(summarised(bench, case, f"{COOPERATIVE} over {over}", metric, unit, values, threads))
    return records


def _mean_of_ranks(same: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {part: sum(one[part] for one in same) / len(same) for part in same[0]}


def print_time(records: Sequence[Record]) -> None:
    """Print each stage of the loader beside the bare work in it, and the overhead."""
    case = records[0].case
    found = {(record.system, record.metric): record for record in records}
    print(f"\n{case}; milliseconds a batch, medians of {records[0].n} rounds")
    for name in (INDEPENDENT, COOPERATIVE, BARE):
        record = found[name, "time"]
        on_cpu, kernel, faults = (found[name, m].median for m in ("CPU time", "CPU time in the kernel", "page faults"))
        spread = f"({record.min:.2f} to {record.max:.2f})"
        print(
            f"  {name:30} {record.median:9.2f} {spread:24} of CPU time {on_cpu:9.2f}, in the kernel {kernel:9.2f}, "
            f"{faults:.1f} thousand page faults"
        )
    print(f"  {'part':32}{'cooperative':>12}{'bare':>10}{'beyond':>10}")
    within = 0.0
    for parts, stages in STAGES.items():
        whole, bare = (
            sum(found[name, f"time of {one}"].median for one in ones if (name, f"time of {one}") in found)
            for name, ones in ((COOPERATIVE, stages), (BARE, parts))
        )
        within += whole
        print(f"  {', '.join(parts):32}{whole:12.2f}{bare:10.2f}{whole - bare:10.2f}")
    rest = found[COOPERATIVE, "time"].median - within
    print(f"  {'outside these stages':32}{rest:12.2f}{0:10.2f}{rest:10.2f}")
    print(f"  received by a rank: {found[COOPERATIVE, 'received by a rank'].median:.1f} MB")
    for metric in ("overhead", "CPU overhead"):
        record = found[f"{COOPERATIVE} over {BARE}", metric]
        print(f"  {metric}: {record.median:.1f} % of the bare ({record.min:.1f} to {record.max:.1f})")


def print_profile(profile: Sequence[Sequence[Any]], batches: int) -> None:
    """Print the functions with the most own time on rank 0; the profiler itself slows small calls down."""
    if profile:
        print("  own time on rank 0, milliseconds a batch (calls), by cProfile")
    for name, seconds, calls in profile:
        print(f"  {seconds / batches * 1e3:9.2f} ({calls / batches:7.1f})  {name}")
