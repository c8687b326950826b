"""Turn the records of one run into Markdown: the bars, the plots and few tables, each as `layout` says.

Reads every NAME.json in a folder, with NAME.txt (what the benchmark printed: its first lines, up to an empty one, say
on what it ran) and NAME.png beside it. What stands between the two marks in an existing report is kept: it is written
by hand, everything else is not.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bars import BARS, Bar
from harness import Record, read_json
from layout import ACROSS, row_and_column, shown
from published import COLUMNS, PUBLISHED

BENCH = Path(__file__).resolve().parent
BEGIN, END = "<!-- by hand: begin -->", "<!-- by hand: end -->"
#: Benchmarks of GPUs, which bench/gpu.sh runs.
GPU = ("gpu_gather", "gpu_sampling", "gpu_training", "gpu_cache", "gpu_shared", "gpu_aggregate")
ORDER = (
    "sampling",
    "gather",
    "loader",
    "conversion",
    "contention",
    "build",
    "scaling",
    "labor_table",
    "cooperative",
    "tiering",
    "projection",
    "spmm",
    "sar_memory",
    "hybrid_parallel",
    "strategies",
    "typed",
    "import_time",
    *GPU,
)


def number(value: float) -> str:
    """Return three significant digits, and all of those before the point."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def spread(record: Record) -> str:
    return f"{number(record.median)} ({number(record.min)} to {number(record.max)})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table; bars in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines]


def bar_lines(records: Sequence[Record], bars: Sequence[Bar] = BARS) -> list[str]:
    rows = []
    for bar in bars:
        decisive = bar.decided_by(records)
        for record in decisive:
            verdict = "met" if bar.met(record) else "**missed**"
            where = f"{record.case}: {record.system}"
            rows.append([bar.claim, where, str(record.threads), spread(record), bar.bound, verdict])
        if not decisive:
            rows.append(
                [bar.claim, "-", "-" if bar.threads is None else str(bar.threads), "-", bar.bound, "not measured"]
            )
    return table(["claim", "case", "threads", "median (range)", "bar", ""], rows)


def case_lines(records: Sequence[Record]) -> list[str]:
    """Return the tables of one case: a row a system, a column a metric; then the ratios."""
    lines = [f"### {records[0].bench}: {records[0].case}", "", f"{rounds(records)}.", ""]
    for first, part in (("system", plain(records)), ("ratio", ratios(records))):
        if part:
            lines += [*rows_and_columns((first,), part, lambda record: (record.system,), lambda _: ""), ""]
    return lines


def across_lines(records: Sequence[Record]) -> list[str]:
    """Return the tables of one part of a benchmark: a row a case, a column a system and metric.

    Cases that have the same columns are in one table.
    """

    def row(record: Record) -> tuple[str, ...]:
        return record.case, row_and_column(record)[0]

    cases = list(dict.fromkeys(record.case for record in records))
    records = sorted(records, key=lambda record: cases.index(record.case))
    columns: dict[str, dict[tuple[str, str], None]] = {}
    for record in records:
        columns.setdefault(record.case, {})[row_and_column(record)[1], record.metric] = None
    tables: dict[tuple[tuple[str, str], ...], list[Record]] = {}
    for record in records:
        tables.setdefault(tuple(sorted(columns[record.case])), []).append(record)
    lines = [f"### {records[0].bench}", "", f"{rounds(records)}.", ""]
    for part in tables.values():
        lines += [*rows_and_columns(("case", ""), part, row, lambda record: row_and_column(record)[1] + ": "), ""]
    return lines


def rows_and_columns(
    first: tuple[str, ...],
    records: Sequence[Record],
    row: Callable[[Record], tuple[str, ...]],
    prefix: Callable[[Record], str],
) -> list[str]:
    """Return a table; a cell has the medians of all threads of its row, and their ranges where they are ratios."""

    def column(record: Record) -> str:
        return prefix(record) + record.metric + ("" if record.unit == "×" else f", {record.unit}")

    columns = list(dict.fromkeys(column(record) for record in records))
    lines = []
    for name in dict.fromkeys(row(record) for record in records):
        own = [record for record in records if row(record) == name]
        threads = sorted({record.threads for record in own})
        cells = []
        for one in columns:
            by_threads = {record.threads: cell(record) for record in own if column(record) == one}
            cells.append(" / ".join(by_threads.get(number, "-") for number in threads) if by_threads else "-")
        lines.append([*name, " / ".join(map(str, threads)), *cells])
    kept = [place for place, title in enumerate(first) if title or any(line[place] for line in lines)]
    kept += range(len(first), len(first) + 1 + len(columns))
    header = [*first, "threads", *columns]
    return table([header[place] for place in kept], [[line[place] for place in kept] for line in lines])


def plain(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.unit != "×"]


def ratios(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.unit == "×"]


def rounds(records: Sequence[Record]) -> str:
    """Return how many there were."""
    counts = sorted({record.n for record in records})
    return " or ".join(map(str, counts)) + (" round" if counts == [1] else " rounds")


def cell(record: Record) -> str:
    """Return the median, with the range of a ratio and the published number where there is one."""
    published = PUBLISHED.get(record.case, {}).get(record.system) if record.bench == "labor" else None
    if published is not None:
        by_column = dict(zip((*COLUMNS, "batch rate"), (*published.counts, published.rate), strict=True))
        return f"{number(record.median)}, published {by_column[record.metric]:g}"
    return spread(record) if record.unit == "×" and record.n > 1 else number(record.median)


def machine_lines(records: Sequence[Record], printed: str) -> list[str]:
    """Return the machine of a benchmark's output, and how fast it copies, if that was measured."""
    machine = re.sub(", load .*", "", printed.split(";", 1)[0]).strip()
    rates: dict[int, float] = {}
    for record in records:
        if (record.system, record.metric) == ("limit: straight copy", "row rate"):
            rates[record.threads] = max(record.median, rates.get(record.threads, 0.0))
    copies = [f"{number(rate)} GB/s on {threads} thread{'s' * (threads > 1)}" for threads, rate in rates.items()]
    return [f"Machine: {machine}" + (f"; copies at {', '.join(copies)}." if copies else "."), ""]


def never_run(names: Iterable[str]) -> list[str]:
    """Return which benchmarks of GPUs have no file of a run on one, as the lines that say so."""
    left = [f"`{name}`" for name in GPU if name not in names]
    where = "no figure of theirs is here. `bench/gpu.sh` runs them."
    return [f"**Never run on a GPU:** {', '.join(left)}; {where}", ""] if left else []


def measured(path: Path) -> list[Record]:
    """Return the records of a file, without those of what stands in for a GPU, whose times mean nothing."""
    return [record for record in read_json(path) if not record.bench.startswith("stand-in: ")]


def by_hand(report: Path) -> str:
    """Return the hand-written part of an existing report."""
    text = report.read_text() if report.exists() else ""
    if BEGIN not in text or END not in text:
        return "\n"
    return text.split(BEGIN, 1)[1].split(END, 1)[0]


def first_lines(printed: Path) -> str:
    """Return what a benchmark said of the machine and its data, or nothing."""
    return printed.read_text().split("\n\n", 1)[0].strip() if printed.exists() else ""


def report_text(results: Path, report: Path) -> str:
    """Return the whole report.

    Raises
    ------
    FileNotFoundError
        If the folder holds no results.
    """
    found = {path.stem: measured(path) for path in results.glob("*.json")}
    names = {name for name, records in found.items() if records or name not in GPU}
    if not names:
        raise FileNotFoundError(f"expected NAME.json files in {results}, got none; `make bench-all` writes them")
    ordered = [name for name in ORDER if name in names] + sorted(names - set(ORDER))
    records = {name: found[name] for name in ordered}
    everything = [record for name in ordered for record in records[name]]
    lines = [
        "# Benchmark results",
        "",
        "Written by `make bench-report` from the files of `bench/results`, except for the part that is marked.",
        "Numbers are medians over rounds, `1 / 2` those on one thread and on two; the files have the ranges and what",
        "is not shown here. Ratios are of systems that ran in turns in the same run, taken round by round, with their",
        "ranges; `a over b` is how many times better a is. All graphs are generated: they have the sizes of the data",
        "sets that they are named after, not their edges.",
        "",
        *machine_lines(everything, first_lines(results / f"{ordered[0]}.txt")),
        "## Bars",
        "",
        *bar_lines(everything),
        "",
        *never_run(names),
        "## Reading",
        "",
        BEGIN + by_hand(report) + END,
        "",
    ]
    for name in ordered:
        lines += [f"## {name}", ""]
        if printed := first_lines(results / f"{name}.txt"):
            lines += ["```", printed, "```", ""]
        for picture in sorted(results.glob(f"{name}*.png")):
            if picture.stem == name or picture.stem.startswith(f"{name}_"):
                lines += [f"![{picture.stem}]({os.path.relpath(picture, report.parent)})", ""]
        for bench in dict.fromkeys(record.bench for record in records[name]):
            part = shown([record for record in records[name] if record.bench == bench])
            if bench in ACROSS:
                lines += across_lines(part)
                continue
            for case in dict.fromkeys(record.case for record in part):
                lines += case_lines([record for record in part if record.case == case])
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=BENCH / "results", help="folder (default: bench/results)")
    parser.add_argument("--out", type=Path, default=BENCH / "RESULTS.md", help="file (default: bench/RESULTS.md)")
    options = parser.parse_args()
    options.out.write_text(report_text(options.results, options.out))


if __name__ == "__main__":
    main()
