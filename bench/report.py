"""Turn the records of one run into Markdown: the bars, the plots and a table a case.

Reads every NAME.json in a folder, with NAME.txt (what the benchmark printed: its first lines, up to an empty one, say
on what it ran) and NAME.png beside it. What stands between the two marks in an existing report is kept: it is written
by hand, everything else is not.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from bars import BARS, Bar
from harness import Record, read_json
from published import COLUMNS, PUBLISHED

BENCH = Path(__file__).resolve().parent
BEGIN, END = "<!-- by hand: begin -->", "<!-- by hand: end -->"
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
    "projection",
    "import_time",
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
    """Return the table of one case: a row a system, a column a metric; then the ratios."""
    plain = [record for record in records if record.unit != "×"]
    ratios = [record for record in records if record.unit == "×"]
    lines = [f"### {records[0].bench}: {records[0].case}", "", f"{records[0].n} rounds; median (range).", ""]
    if plain:
        metrics = list(dict.fromkeys((record.metric, record.unit) for record in plain))
        rows = []
        for system, threads in dict.fromkeys((record.system, record.threads) for record in plain):
            own = {r.metric: r for r in plain if (r.system, r.threads) == (system, threads)}
            cells = [cell(own[metric]) if metric in own else "-" for metric, _ in metrics]
            rows.append([system, str(threads), *cells])
        lines += [*table(["system", "threads", *(f"{metric}, {unit}" for metric, unit in metrics)], rows), ""]
    if ratios:
        rows = [[record.system, str(record.threads), record.metric, spread(record)] for record in ratios]
        lines += [*table(["ratio", "threads", "of", "median (range)"], rows), ""]
    return lines


def cell(record: Record) -> str:
    """Return the median and range, and the published number where there is one."""
    published = PUBLISHED.get(record.case, {}).get(record.system) if record.bench == "labor" else None
    if published is None:
        return spread(record)
    by_column = dict(zip((*COLUMNS, "batch rate"), (*published.counts, published.rate), strict=True))
    return f"{number(record.median)}, published {by_column[record.metric]:g}"


def by_hand(report: Path) -> str:
    """Return the hand-written part of an existing report."""
    text = report.read_text() if report.exists() else ""
    if BEGIN not in text or END not in text:
        return "\n"
    return text.split(BEGIN, 1)[1].split(END, 1)[0]


def report_text(results: Path, report: Path) -> str:
    """Return the whole report.

    Raises
    ------
    FileNotFoundError
        If the folder holds no results.
    """
    names = {path.stem for path in results.glob("*.json")}
    if not names:
        raise FileNotFoundError(f"expected NAME.json files in {results}, got none; `make bench-all` writes them")
    ordered = [name for name in ORDER if name in names] + sorted(names - set(ORDER))
    records = {name: read_json(results / f"{name}.json") for name in ordered}
    everything = [record for name in ordered for record in records[name]]
    lines = [
        "# Benchmark results",
        "",
        "Written by `make bench-report` from the files of `bench/results`, except for the part that is marked.",
        "Ratios are of systems that ran in turns in the same run, taken round by round; `a over b` is how many times",
        "better a is. All graphs are generated: they have the sizes of the data sets that they are named after, not",
        "their edges.",
        "",
        "## Bars",
        "",
        *bar_lines(everything),
        "",
        "## Reading",
        "",
        BEGIN + by_hand(report) + END,
        "",
    ]
    for name in ordered:
        lines += [f"## {name}", ""]
        printed = results / f"{name}.txt"
        if printed.exists():
            lines += ["```", printed.read_text().split("\n\n", 1)[0].strip(), "```", ""]
        if (results / f"{name}.png").exists():
            lines += [f"![{name}]({os.path.relpath(results, report.parent)}/{name}.png)", ""]
        for bench, case in dict.fromkeys((record.bench, record.case) for record in records[name]):
            lines += case_lines([r for r in records[name] if (r.bench, r.case) == (bench, case)])
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=BENCH / "results", help="folder (default: bench/results)")
    parser.add_argument("--out", type=Path, default=BENCH / "RESULTS.md", help="file (default: bench/RESULTS.md)")
    options = parser.parse_args()
    options.out.write_text(report_text(options.results, options.out))


if __name__ == "__main__":
    main()
