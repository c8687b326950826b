"""Time systems side by side: interleaved rounds, medians with their spread, records that can be kept.

On a shared machine medians drift by a fifth within minutes. So every round runs every system once, in rotating order,
and only numbers of the same run are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

WARM_UP_ROUNDS = 2

UNITS = {
    "time": "ms",
    "edge rate": "M edges/s",
    "row rate": "GB/s",
    "edges": "edges",
    "inputs": "rows",
}


@dataclass(frozen=True)
class Record:
    """One metric of one system in one case, over `n` rounds."""

    bench: str
    case: str
    system: str
    metric: str
    unit: str
    median: float
    min: float
    max: float
    n: int
    threads: int


def interleave(
    bench: str,
    case: str,
    systems: Mapping[str, Callable[[int], Mapping[str, float]]],
    *,
    rounds: int,
    threads: int,
) -> list[Record]:
    """Run every system once a round and summarise what they measured.

    Parameters
    ----------
    bench, case : str
        Where the records belong.
    systems : mapping of str to callable
        Each takes the round's number, from which it derives its input, runs once and returns metrics (keys of `UNITS`).
        It times itself, so that preparing the input is not counted.
    rounds : int
        Rounds that count; `WARM_UP_ROUNDS` come before.
    threads : int
        Recorded; the systems have been told.
    """
    names = list(systems)
    measured: dict[tuple[str, str], list[float]] = {}
    for number in range(-WARM_UP_ROUNDS, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            metrics = systems[name](number + WARM_UP_ROUNDS)
            if number >= 0:
                for metric, value in metrics.items():
                    measured.setdefault((name, metric), []).append(value)
    return [
        Record(
            bench,
            case,
            name,
            metric,
            UNITS[metric],
            statistics.median(values),
            min(values),
            max(values),
            rounds,
            threads,
        )
        for (name, metric), values in measured.items()
    ]


def describe_machine(packages: Iterable[str]) -> str:
    """Say on what, and with which versions, numbers were taken."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} cores, load {os.getloadavg()[0]:.1f}; Python {platform.python_version()}, {versions}"


def print_table(records: Sequence[Record]) -> None:
    """Print one line a case, system and metric: the median, then the range."""
    case = None
    for record in records:
        if (record.case, record.threads) != case:
            case = (record.case, record.threads)
            plural = "s" if record.threads > 1 else ""
            print(f"\n{record.bench}: {record.case}, {record.threads} thread{plural}, {record.n} rounds")
        print(
            f"  {record.system:<20} {record.metric:<10} {record.median:>14,.2f} {record.unit:<10}"
            f" ({record.min:,.2f} to {record.max:,.2f})"
        )


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=15, help="rounds that count (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the records to PATH as well")
    return parser


def write_json(path: Path | None, records: Sequence[Record]) -> None:
    """Write the records as a JSON list, if a path was given."""
    if path is not None:
        path.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n")
