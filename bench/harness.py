"""Time systems side by side: interleaved rounds, medians with their spread, records that can be kept.

On a shared machine medians drift by a fifth within minutes. So every system has a turn in every round, in rotating
order, and only numbers of the same run are compared: a ratio is taken round by round, and its median is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from itertools import count
from pathlib import Path

#: Where real graphs lie, which cannot be generated; cases of those that are not there are left out.
DATA = Path(os.environ.get("HEADRACE_DATA", Path(__file__).resolve().parents[2] / "shared/data"))
WARM_UP_ROUNDS = 5
# Seconds of rest before each turn: threads of OpenMP go on spinning for a while after their work, on cores that the
# next system needs.
REST = 0.05
# Where a system runs in succession: seconds of runs that do not count, and then of those that do, and the fewest runs.
SPELL = 0.05
LEAST_RUNS = 2

UNITS = {
    "time": "ms",
    "time after a rest": "ms",
    "CPU time": "ms",
    "edge rate": "M edges/s",
    "edge cost": "ns/edge",
    "row rate": "GB/s",
    "read rate": "k rows/s",
    "access time": "ns",
    "launch time": "µs",
    "launches time": "µs",
    "batch rate": "batches/s",
    "peak memory": "GB",
    "peak in arrays": "int64[|E|]",
    "peak over the limit": "ratio",
    "bytes over the bound": "ratio",
    "memory over the bound": "ratio",
    "edges cut": "%",
    "node balance": "ratio",
    "edge balance": "ratio",
    "train balance": "ratio",
    "replication": "copies",
    "edges": "edges",
    "inputs": "rows",
    "rows read": "rows",
    "scans": "files",
    **dict.fromkeys(("|V3|", "|E2|", "|V2|", "|E1|", "|V1|", "|E0|"), "thousand"),
}
# Of the others, more is better.
COSTS = {
    "time",
    "time after a rest",
    "CPU time",
    "edge cost",
    "access time",
    "launch time",
    "launches time",
    "peak memory",
    "peak in arrays",
}

Metrics = Mapping[str, float]


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


@dataclass(frozen=True)
class System:
    """What is measured: `run` takes the round's number, derives its input from it, runs once and returns metrics.

    The metrics are keys of `UNITS`. A system times itself, so that preparing the input is not counted.
    """

    name: str
    run: Callable[[int], Metrics]
    threads: int = 1

    @property
    def key(self) -> tuple[str, int]:
        return self.name, self.threads


def in_succession(system: System) -> System:
    """Return a system that runs again and again when it is its turn.

    Its first run finds cores asleep and in the caches what other systems left; its time is kept as the "time after a
    rest". The runs of a spell with it do not count. Of those of the next spell it measures means, of rates by time.
    """

    def spell(numbers: Iterator[int]) -> list[Metrics]:
        until = time.perf_counter() + SPELL
        runs = [system.run(next(numbers)) for _ in range(LEAST_RUNS)]
        while time.perf_counter() < until:
            runs.append(system.run(next(numbers)))
        return runs

    def turn(number: int) -> Metrics:
        numbers = count(number * 1000)
        first, *_ = spell(numbers)
        runs = spell(numbers)
        seconds = sum(run["time"] for run in runs)
        means = {
            metric: sum(run[metric] * run["time"] for run in runs) / seconds
            if UNITS[metric].endswith("/s")
            else statistics.fmean(run[metric] for run in runs)
            for metric in first
        }
        return {"time": means.pop("time"), "time after a rest": first["time"], **means}

    return replace(system, run=turn)


@dataclass(frozen=True)
class Gain:
    """How many times better one system is than another, both named by (name, threads).

    For a cost, such as a time, it is the other's over its own; for a rate its own over the other's. For counts it is
    its own over the other's as well, and 1 says that both did the same work.
    """

    system: tuple[str, int]
    over: tuple[str, int]
    metric: str = "time"

    def of(self, own: float, other: float) -> float:
        return other / own if self.metric in COSTS else own / other

    @property
    def name(self) -> str:
        (name, threads), (other, least) = self.system, self.over
        if name == other:
            return f"{name}, {threads} threads over {least}"
        return f"{name} over {other}" if threads == least else f"{name} over {other} on {least}"


def interleave(
    bench: str,
    case: str,
    systems: Sequence[System],
    *,
    rounds: int,
    gains: Iterable[Gain] = (),
    warm_up: int = WARM_UP_ROUNDS,
) -> list[Record]:
    """Run every system once a round and summarise what they measured.

    Parameters
    ----------
    bench, case : str
        Where the records belong.
    systems : sequence of System
        Their order rotates from round to round.
    rounds : int
        Rounds that count; `warm_up` come before.
    gains : iterable of Gain
        Ratios to record, of systems that are there; those that name others are left out (a peer that is not installed).
    """
    measured: dict[tuple[str, int], list[Metrics]] = {system.key: [] for system in systems}
    if len(measured) < len(systems):
        raise ValueError(f"{case}: expected systems of different (name, threads), got {[s.key for s in systems]}")
    for number in range(-warm_up, rounds):
        first = number % len(systems)
        for system in [*systems[first:], *systems[:first]]:
            time.sleep(REST)
            metrics = system.run(number + warm_up)
            if number >= 0:
                measured[system.key].append(metrics)
    records = [
        summarised(bench, case, system.name, metric, UNITS[metric], [taken[metric] for taken in runs], system.threads)
        for system, runs in ((system, measured[system.key]) for system in systems)
        for metric in runs[0]
    ]
    for gain in gains:
        if gain.system in measured and gain.over in measured:
            pairs = zip(measured[gain.system], measured[gain.over], strict=True)
            values = [gain.of(own[gain.metric], other[gain.metric]) for own, other in pairs]
            records.append(summarised(bench, case, gain.name, f"{gain.metric} gain", "×", values, gain.system[1]))
    return records


def summarised(
    bench: str, case: str, system: str, metric: str, unit: str, values: Sequence[float], threads: int
) -> Record:
    """Return the record of some rounds' values."""
    middle = statistics.median(values)
    return Record(bench, case, system, metric, unit, middle, min(values), max(values), len(values), threads)


def check_same_work(records: Iterable[Record], tolerance: float) -> None:
    """Refuse comparisons of systems that did not do the same work: all gains of counts must be 1.

    Raises
    ------
    ValueError
        Naming the case and the systems whose counts differ by more than `tolerance`.
    """
    for record in records:
        if record.metric in ("edges gain", "inputs gain") and abs(record.median - 1) > tolerance:
            raise ValueError(
                f"{record.bench}, {record.case}: expected equal work, got {record.median:.3f} times the "
                f"{record.metric.split()[0]} in {record.system}; their times cannot be compared"
            )


def processor() -> str:
    """Return the model of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def describe_machine(packages: Iterable[str]) -> str:
    """Say on what, and with which versions, numbers were taken."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    cores = len(os.sched_getaffinity(0))
    return (
        f"{processor()}, {cores} cores, load {os.getloadavg()[0]:.1f}; Python {platform.python_version()}, {versions}"
    )


def print_table(records: Sequence[Record]) -> None:
    """Print one line a case, system and metric: the median, then the range."""
    case = None
    for record in records:
        if (record.bench, record.case) != case:
            case = (record.bench, record.case)
            print(f"\n{record.bench}: {record.case}, {record.n} rounds")
        print(
            f"  {record.system:<36} {record.threads} thread{'s' if record.threads > 1 else ' '} {record.metric:<22}"
            f" {record.median:>14,.2f} {record.unit:<10} ({record.min:,.2f} to {record.max:,.2f})"
        )


def arguments(description: str, *, rounds: int = 15) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help="rounds that count (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the records to PATH as well")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw them into PATH, a .png or .svg")
    return parser


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Add the option of which numbers of threads to measure, all in one run."""
    cores = len(os.sched_getaffinity(0))
    parser.add_argument(
        "--threads", type=int, nargs="+", default=sorted({1, cores}), help="measured in one run (default: 1 and all)"
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the option of where the files of real graphs lie."""
    text = "folder of the files of real graphs (default: $HEADRACE_DATA, or ../shared/data)"
    parser.add_argument("--data", type=Path, default=DATA, metavar="FOLDER", help=text)


def write_json(path: Path | None, records: Sequence[Record]) -> None:
    """Write the records as a JSON list, if a path was given."""
    if path is not None:
        path.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n")


def read_json(path: Path) -> list[Record]:
    """Return the records that `write_json` wrote."""
    return [Record(**fields) for fields in json.loads(path.read_text())]
