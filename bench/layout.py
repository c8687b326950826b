"""What the report shows of each benchmark: all is in the records, but a table is read by a person.

A part of a benchmark that is not named here has one table a case, a row a system. Those named have one row a case, a
column a system, of the metrics that are named.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness import Record

#: The areas of the report, with the benchmarks whose bars they list.
AREAS = {
    "Sampling": ("sampling", "labor", "types"),
    "Features, loading and the start": ("gather", "loader", "contention", "import", "launches"),
    "Building graphs": ("build", "scaling", "convert", "parts"),
    "Tiers, caches and disk": ("tiering", "windows"),
    "Ranks": ("cooperative", "hybrid-parallel"),
    "Models and whole graphs": ("spmm", "training", "sar", "strategies"),
}

#: Never shown: systems that are compared did the same work, which is checked when they are measured.
SAME_WORK = {"edges gain", "inputs gain", "edges", "inputs"}

#: Parts with a row a case, and the metrics that they show.
ACROSS = {
    "conversion": {"time", "time gain"},
    "contention": {"time", "time over the best"},
    "gather": {"access time", "row rate", "time gain"},
    "scaling: graph": {"access time", "edge cost", "time gain"},
    "scaling: growth": {"access time growth", "edge cost growth"},
    "scaling: batch": {"time", "edge cost", "time gain"},
    "cooperative: work": {
        "|S3|",
        "received bytes",
        "|S1| ratio",
        "|S3| ratio",
        "|S3| ratio over simulated",
        "|S3| a seed",
    },
    "cooperative: cache": {"rows past the cache", "miss rate", "rows past the cache ratio"},
    "cooperative: time": {"time", "CPU time", "overhead", "CPU overhead", "time gain"},
    "cooperative: network": {"time", "overhead", "time gain", "rate"},
    "tiering: scores": {"hits, 10% of rows kept", "traffic cut", "time", "time gain"},
    "tiering: policies": {"miss rate"},
    "tiering: places": {"bytes from cuda", "bytes from peer", "bytes from pinned", "bytes from cpu", "bytes from disk"},
    "tiering: dependent batches": {"rows", "mean miss rate", "mean test accuracy", "its standard error"},
    "tiering: disk": {"read rate", "read rate gain"},
    "spmm": {"time", "time gain", "peak memory"},
    "types": {"edge cost", "edge rate gain", "edge cost gain", "time gain"},
    "hybrid-parallel": {"layer 1: messages", "layer 1: bytes", "layer 1: edge balance", "replication"},
    "two builds": {"time", "CPU time", "peak memory", "CPU time gain", "peak memory gain"},
    "gpu: gather": {"row rate", "row rate gain"},
    "projection: published": {"time gain of loading", "time gain of the copy", "time gain of the cached copy"},
    "projection": {"epoch", "rows", "rows past the cache", "time gain of loading"},
}


def shown(records: Sequence[Record]) -> list[Record]:
    """Return the records of one part of a benchmark that the report shows."""
    chosen = ACROSS.get(records[0].bench)
    return [
        record for record in records if (record.metric not in SAME_WORK if chosen is None else record.metric in chosen)
    ]


def row_and_column(record: Record) -> tuple[str, str]:
    """Return the row, beside the case, and the column of a record: "cooperative, 4 ranks" is in a row of 4 ranks."""
    system, comma, ranks = record.system.rpartition(", ")
    return (ranks, system) if comma and ranks.endswith(" ranks") else ("", record.system)
