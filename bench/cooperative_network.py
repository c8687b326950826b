"""Two ranks on a network of a given rate and latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cooperative_time import BARE, COOPERATIVE, INDEPENDENT, SCRIPT, records_of, settings_of
from graphs import cached_csc
from harness import Record, summarised
from network import link, why_not
from processes import run_processes

BENCH = "cooperative: network"


def network_records(options: Any) -> list[Record]:
    """Measure every rate and latency, or say why not."""
    reason = why_not()
    if reason is not None:
        print(f"\nnetwork: skipped, {reason}")
        return []
    records = []
    for rate in options.rates:
        for latency in options.latencies:
            with link(rate * 1e9, latency * 1e-3) as joined:
                settings = {
                    **settings_of(options, 2),
                    "profile": 0,
                    "folder": str(cached_csc(options.network_shape)),
                    "rounds": options.network_rounds,
                    "batch_size": options.network_batch_size,
                }
                added = "netem"
                if latency and not joined.adds_latency:
                    added, settings["latency"] = "before each collective", latency * 1e-3
                answers = run_processes(SCRIPT, 2, settings, prefix=joined.prefix, environment=joined.environment)
            where = f"{rate:g} Gb/s" + (f", {latency:g} ms by {added}" if latency else "")
            case = f"{options.network_shape}, 2 ranks, {options.network_batch_size} seeds a rank, {where}"
            found = records_of(BENCH, case, answers, settings)
            found += counted(case, answers, settings, options.feature_width)
            print_network(found)
            records += found
    return records


def counted(case: str, answers: Sequence[Any], settings: Any, width: int) -> list[Record]:
    """Return the rate that the link had, the bytes sent, and what independent ranks would send.

    Independent ranks read every row from a copy of all features here. Where each has half of them, half of its rows
    come from the other.
    """
    threads, row_bytes = settings["threads"], 4 * width
    rates = [answer["link rate"] / 1e9 for answer in answers]
    halves = [answer["independent rows"] / 2 * row_bytes / 1e6 for answer in answers]
    return [
        summarised(BENCH, case, "the link alone", "rate", "Gb/s", rates, threads),
        summarised(BENCH, case, f"{INDEPENDENT}, if features were split", "received by a rank", "MB", halves, threads),
    ]


def print_network(records: Sequence[Record]) -> None:
    """Print one line: the rate, the times and the bytes."""
    found = {(record.system, record.metric): record.median for record in records}
    received = "received by a rank"
    rate, split = found["the link alone", "rate"], found[f"{INDEPENDENT}, if features were split", received]
    times = [
        f"{name} {found[system, 'time']:.1f}"
        for name, system in (
            (f"{INDEPENDENT} (all features on each rank)", INDEPENDENT),
            (COOPERATIVE, COOPERATIVE),
            ("bare", BARE),
        )
    ]
    print(f"\n{records[0].case}")
    print(f"  the link alone: {rate:.2f} Gb/s; ms a batch: {', '.join(times)}")
    print(
        f"  MB received by a rank: {COOPERATIVE} {found[COOPERATIVE, received]:.1f}; {INDEPENDENT}, if each had half "
        f"of the features, {split:.1f}, which alone take {split * 8 / rate:.1f} ms"
    )
