"""Turn the records of one run into Markdown: one page of bars by area, and a page of tables for each benchmark.

Reads every NAME.json in a folder, with NAME.txt (what the benchmark printed: its first lines, up to an empty one, name
the machine and the data) and NAME.png beside it, and writes NAME.md there. The text between the two marks in an
existing report is written by hand and is kept; everything else is generated.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import by_commit
from bars import BARS, Bar
from harness import Record, read_json
from layout import ACROSS, AREAS, row_and_column, shown
from published import COLUMNS, PUBLISHED

BENCH = Path(__file__).resolve().parent
BEGIN, END = "<!-- by hand: begin -->", "<!-- by hand: end -->"
#: Benchmarks of GPUs, which bench/gpu.sh and bench/gpu_second.sh run.
GPU = (
    "gpu_gather",
    "gpu_sampling",
    "gpu_plans",
    "gpu_training",
    "gpu_cache",
    "gpu_shared",
    "gpu_aggregate",
    "gpu_offsets",
    "gpu_ranks",
)
#: What they are to show, as text while no GPU has run them.
BARS_OF_GPUS = (
    ("UVA gather over a copy from pinned memory", "gpu_gather", "≥ 0.9"),
    ("gather of rows of 512 bytes and more in GPU memory over a copy there", "gpu_gather", "≥ 0.75"),
    ("NS and LABOR-0 over all cores of the CPU", "gpu_sampling", "≥ 5"),
    ("NS, 1024 seeds, fanouts 10,10,10, G edges/s", "gpu_sampling", "≥ 2"),
    ("an epoch with all passes over one without, features in CPU memory", "gpu_training", "≥ 3"),
    ("share of an epoch in which the GPU is busy", "gpu_training", "≥ 0.85"),
)

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
    "windows",
    "projection",
    "spmm",
    "models",
    "training",
    "sar_memory",
    "sar_time",
    "hybrid_parallel",
    "strategies",
    "typed",
    "convert",
    "parts",
    "import_time",
    "launches",
    "two_builds",
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
    """Return a table of bars: a row a claim and number of threads, with the case that is closest to missing its bar."""
    rows = []
    for bar in bars:
        by_threads: dict[int | None, list[Record]] = {}
        for record in bar.decided_by(records):
            by_threads.setdefault(record.threads, []).append(record)
        for threads, decisive in by_threads.items() or [(bar.threads, [])]:
            cells = [bar.claim, "-" if threads is None else str(threads)]
            if not decisive:
                rows.append([*cells, "-", "-", bar.bound, "not measured"])
                continue
            closest = min(decisive, key=bar.slack)
            met = sum(map(bar.met, decisive))
            where = f"{closest.case}: {closest.system}"
            if len(decisive) > 1:
                where = f"least of {len(decisive)}: {where}"
            verdict = "met" if met == len(decisive) else f"**missed** ({met} of {len(decisive)} met)"
            rows.append([*cells, spread(closest), where, bar.bound, verdict])
    return table(["claim", "threads", "median (range)", "case", "bar", ""], rows)


def area_lines(records: Sequence[Record]) -> list[str]:
    """Return the bars of all areas, a table each."""
    lines = []
    for area, benches in AREAS.items():
        bars = [bar for bar in BARS if bar.bench.split(":")[0] in benches]
        lines += [f"### {area}", "", *bar_lines(records, bars), ""]
    return lines


def commit_lines(records: Sequence[Record]) -> list[str]:
    """Return the table of two commits, a row a case; nothing where they were not compared."""
    if not records:
        return []
    old, new = by_commit.builds(records)
    cpu, memory = (by_commit.ratios(records, metric) for metric in by_commit.METRICS)
    return [
        "## By commit",
        "",
        f"CPU time and peak memory of {new} over those of {old}, by `bench/two_builds.py`: 1.03 is 3 % more.",
        "",
        *table(["case", *by_commit.METRICS], [[case, spread(cpu[case]), spread(memory[case])] for case in cpu]),
        "",
    ]


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
    left = [name for name in GPU if name not in names]
    if not left:
        return []
    where = "no figure of theirs is here. `bench/gpu.sh` and `bench/gpu_second.sh` run them. These bars wait for them:"
    rows = [f"| {claim} | `{bench}` | {bar} |" for claim, bench, bar in BARS_OF_GPUS if bench in left]
    return [
        f"**Never run on a GPU:** {', '.join(f'`{name}`' for name in left)}; {where}",
        "",
        "| claim | bench | bar |",
        "| --- | --- | --- |",
        *rows,
        "",
    ]


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
    """Return the page of bars.

    Raises
    ------
    FileNotFoundError
        If the folder holds no results.
    """
    records = all_records(results)
    everything = [record for name in records for record in records[name]]
    pages = ", ".join(f"[{name}]({os.path.relpath(results / f'{name}.md', report.parent)})" for name in records)
    lines = [
        "# Benchmark results",
        "",
        "`make bench-report` writes this page and those of `bench/results` from the records there, except for the",
        "part that is marked. A number is the median over rounds, with its range. A ratio compares systems that ran",
        "in turns in the same run, round by round; `a over b` is how many times better a is. Graphs are generated",
        "unless a case names a data set: they have the sizes of the data sets they are named after, not their edges.",
        "",
        *machine_lines(everything, first_lines(results / f"{next(iter(records))}.txt")),
        f"All tables: {pages}.",
        "",
        "## Bars",
        "",
        "A row names the case that is closest to missing its bar.",
        "",
        *area_lines(everything),
        *never_run(records),
        *commit_lines(records.get("two_builds", [])),
        "## Reading",
        "",
        BEGIN + by_hand(report) + END,
    ]
    return "\n".join(lines).rstrip() + "\n"


def all_records(results: Path) -> dict[str, list[Record]]:
    """Return the records of each benchmark that has some, in the order of the report.

    Raises
    ------
    FileNotFoundError
        If the folder holds no results.
    """
    found = {path.stem: measured(path) for path in results.glob("*.json")}
    names = {name for name, records in found.items() if records or name not in GPU}
    if not names:
        raise FileNotFoundError(f"expected NAME.json files in {results}, got none; `make bench-all` writes them")
    return {name: found[name] for name in [*(one for one in ORDER if one in names), *sorted(names - set(ORDER))]}


def page_text(name: str, records: Sequence[Record], results: Path) -> str:
    """Return the page of one benchmark: what it ran on, its plots, its tables."""
    lines = [f"# {name}", ""]
    if printed := first_lines(results / f"{name}.txt"):
        lines += ["```", printed, "```", ""]
    for picture in sorted(results.glob(f"{name}*.png")):
        if picture.stem == name or picture.stem.startswith(f"{name}_"):
            lines += [f"![{picture.stem}]({picture.name})", ""]
    for bench in dict.fromkeys(record.bench for record in records):
        part = shown([record for record in records if record.bench == bench])
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
    for name, records in all_records(options.results).items():
        (options.results / f"{name}.md").write_text(page_text(name, records, options.results))


if __name__ == "__main__":
    main()
