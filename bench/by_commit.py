"""The table bench/by_commit.csv: CPU time and peak memory of commits over those of an older one, a line each.

`two_builds.py` measures the ratios. 1.03 is 3 % more.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from harness import Record

#: Metrics with columns in the table, and their names there.
METRICS = {"CPU time": "CPU", "peak memory": "memory"}
FIRST = ("date", "commit", "over", "machine")


def ratios(records: Sequence[Record], metric: str) -> dict[str, Record]:
    """Return the ratio of each case: how many times better the old build is, which is new over old."""
    return {
        record.case: record
        for record in records
        if record.metric == f"{metric} gain" and record.system.startswith("old ")
    }


def builds(records: Sequence[Record]) -> tuple[str, str]:
    """Return the labels of the old build and of the new one."""
    names = list(dict.fromkeys(record.system for record in records if record.unit != "×"))
    old, new = (next(name for name in names if name.startswith(side)) for side in ("old ", "new "))
    return old.removeprefix("old "), new.removeprefix("new ")


def line_of(records: Sequence[Record], date: str, machine: str) -> dict[str, str]:
    """Return the line of the new build, by column."""
    old, new = builds(records)
    line = dict(zip(FIRST, (date, new, old, machine), strict=True))
    by_metric = {name: ratios(records, metric) for metric, name in METRICS.items()}
    for case in dict.fromkeys(record.case for record in records):
        line |= {f"{case}: {name}": f"{of_case[case].median:.3f}" for name, of_case in by_metric.items()}
    return line


def read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and the lines of a file; of none, the columns that all have."""
    if not path.exists():
        return list(FIRST), []
    with path.open(newline="") as file:
        reader = csv.DictReader(file, restval="")
        return list(reader.fieldnames or FIRST), list(reader)


def append(path: Path, line: dict[str, str]) -> None:
    """Add a line. Columns keep their order, and new ones come last; a case that was not measured is empty."""
    columns, lines = read(path)
    columns += [name for name in line if name not in columns]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows([*lines, line])
