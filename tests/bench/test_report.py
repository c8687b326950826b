"""The report is made of files: bars decided, tables laid out, the hand-written part kept."""

from __future__ import annotations

import re

import pytest


@pytest.fixture
def report(bench):
    return bench("report")


@pytest.fixture
def record(bench):
    harness = bench("harness")

    def make(system="headrace over GraphBolt", metric="time gain", median=13.0, *, threads=1, unit="×", **where):
        fields = {"bench": "sampling", "case": "neighbor, products, batch 1024, fanouts 10,10,10", **where}
        return harness.Record(
            system=system,
            metric=metric,
            unit=unit,
            median=median,
            min=median - 1,
            max=median + 1,
            n=5,
            threads=threads,
            **fields,
        )

    return make


def test_bars_are_met_missed_or_not_measured(bench, report, record):
    bar = bench("bars").Bar("claim", "sampling", "neighbor, .*", "headrace over GraphBolt", "time gain", 1, 12)
    rows = {
        "met": [record(median=12.0)],
        "**missed**": [record(median=11.9)],
        "not measured": [
            record(threads=2),
            record(metric="edges gain"),
            record(system="headrace, weighted over GraphBolt"),
            record(case="labor, products"),
            record(bench="loader"),
        ],
    }
    for verdict, records in rows.items():
        *_, row = report.bar_lines(records, [bar])
        shown = "**missed** (0 of 1 met)" if "missed" in verdict else verdict
        assert row.endswith(f"| ≥ 12 | {shown} |")


def test_a_row_names_the_case_that_is_closest_to_missing_its_bar(bench, report, record):
    bar = bench("bars").Bar("claim", "sampling", ".*", "headrace over GraphBolt", "time gain", 1, at_least=10)
    cases = [record(median=median, case=f"case {median:g}") for median in (30.0, 9.0, 12.0)]
    *_, row = report.bar_lines(cases, [bar])
    assert row == (
        "| claim | 1 | 9 (8 to 10) | least of 3: case 9: headrace over GraphBolt | ≥ 10 | **missed** (2 of 3 met) |"
    )
    by_threads = report.bar_lines(
        [record(), record(threads=2)], [bench("bars").Bar("claim", "sampling", ".*", ".*", "time gain", None, 10)]
    )
    assert len(by_threads) == 4, "a row for each number of threads"


def test_every_bar_is_in_one_area(bench):
    areas = [bench_name for benches in bench("layout").AREAS.values() for bench_name in benches]
    assert sorted({bar.bench.split(":")[0] for bar in bench("bars").BARS}) == sorted(areas)


def test_bars_with_two_bounds_hold_a_value_between(bench, record):
    bar = bench("bars").Bar("claim", "labor", ".*", ".*", "ratio", None, 0.85, 1.15)
    assert bar.bound == "≥ 0.85, ≤ 1.15"
    assert [bar.met(record(median=value)) for value in (0.84, 0.85, 1.15, 1.16)] == [False, True, True, False]


def test_a_cost_is_bounded_from_above(bench, record):
    (bar,) = [bar for bar in bench("bars").BARS if "cost in uniform" in bar.claim]
    assert bar.met(record(median=1.9))
    assert not bar.met(record(median=2.1))


def test_every_case_is_a_table_of_systems_by_metrics(report, record):
    records = [
        record("headrace", "time", 2.0, unit="ms"),
        record("headrace", "edges", 1_234_567.0, unit="edges"),
        record("GraphBolt", "time", 26.0, unit="ms"),
        record(),
    ]
    lines = report.case_lines(records)
    assert "| system | threads | time, ms | edges, edges |" in lines
    assert "| headrace | 1 | 2 | 1,234,567 |" in lines
    assert "| GraphBolt | 1 | 26 | - |" in lines
    assert "| headrace over GraphBolt | 1 | 13 (12 to 14) |" in lines


def test_numbers_of_all_threads_share_a_row(report, record):
    records = [
        record("headrace", "time", 2.0, unit="ms"),
        record("headrace", "time", 1.0, unit="ms", threads=2),
        record("headrace", "edge rate", 9.0, unit="M edges/s", threads=2),
        record("GraphBolt", "time", 26.0, unit="ms", threads=2),
    ]
    lines = report.case_lines(records)
    assert "| headrace | 1 / 2 | 2 / 1 | - / 9 |" in lines
    assert "| GraphBolt | 2 | 26 | - |" in lines


def test_parts_with_a_row_a_case(report, record):
    """Cases with other columns have a table of their own; systems that name ranks have a row for each number."""

    def projected(case, system, metric, median, unit):
        return record(system, metric, median, unit=unit, bench="projection", case=case)

    records = [
        projected(case, f"independent{ranks}", "epoch", median, "s")
        for case, ranks, median in (
            ("a", ", 4 ranks", 3.0),
            ("b", ", 4 ranks", 5.0),
            ("a", ", 16 ranks", 4.0),
            ("c", "", 6.0),
        )
    ]
    records.append(projected("c", "independent", "time gain of loading", 7.0, "×"))
    lines = report.across_lines(records)
    start = lines.index("| case |  | threads | independent: epoch, s |")
    assert lines[start + 2 : start + 6] == [
        "| a | 4 ranks | 1 | 3 |",
        "| a | 16 ranks | 1 | 4 |",
        "| b | 4 ranks | 1 | 5 |",
        "",
    ]
    assert "| case | threads | independent: epoch, s | independent: time gain of loading |" in lines
    assert "| c | 1 | 6 | 7 (6 to 8) |" in lines


def test_what_is_not_shown(bench, record):
    """Counts of equal work everywhere; of parts with a row a case, what is not chosen."""
    layout = bench("layout")
    records = [record("headrace", metric, unit="ms") for metric in ("time", "edges", "inputs")]
    assert [one.metric for one in layout.shown(records)] == ["time"]
    records = [record("headrace", metric, unit="ms", bench="gather") for metric in ("time", "row rate")]
    assert [one.metric for one in layout.shown(records)] == ["row rate"]


def test_the_machine_is_named_with_the_rate_of_its_copies(report, record):
    printed = "Some CPU, 2 cores, load 1.4; Python 3.11\nsome graph"
    assert report.machine_lines([record()], printed) == ["Machine: Some CPU, 2 cores.", ""]
    copies = [
        record("limit: straight copy", "row rate", rate, unit="GB/s", bench="gather", threads=threads)
        for rate, threads in ((10.0, 1), (12.0, 1), (11.0, 1), (18.0, 2))
    ]
    line, _ = report.machine_lines(copies, printed)
    assert line == "Machine: Some CPU, 2 cores; copies at 12 GB/s on 1 thread, 18 GB/s on 2 threads."


def test_published_numbers_stand_beside_ours(report, record):
    ours = record("NS", "|V3|", 70.0, unit="thousand", bench="labor", case="flickr")
    assert report.cell(ours) == "70, published 73"
    lines = report.case_lines([ours])
    assert r"| system | threads | \|V3\|, thousand |" in lines


def test_the_report_follows_the_files_and_keeps_what_was_written_by_hand(bench, report, record, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    out = tmp_path / "RESULTS.md"
    with pytest.raises(FileNotFoundError, match="bench-all"):
        report.report_text(results, out)
    bench("harness").write_json(results / "sampling.json", [record()])
    (results / "sampling.txt").write_text("some machine\nsome graph\n\nsampling: a long table\n")
    (results / "sampling.png").touch()
    text = report.report_text(results, out)
    page = report.page_text("sampling", [record()], results)
    assert "some machine\nsome graph\n```" in page
    assert "a long table" not in page
    assert "![sampling](sampling.png)" in page
    assert "| headrace over GraphBolt | 1 | 13 (12 to 14) |" in page
    assert "[sampling](results/sampling.md)" in text
    assert (
        "| 1 | 13 (12 to 14) | neighbor, products, batch 1024, fanouts 10,10,10: headrace over GraphBolt | ≥ 12 | met |"
        in text
    )
    out.write_text(text.replace(report.BEGIN, report.BEGIN + "\nWhat remains is the memory.\n"))
    again = report.report_text(results, out)
    assert "What remains is the memory." in again
    out.write_text(again)
    assert report.report_text(results, out) == again


def test_deviation_from_the_published_ratio(bench, record):
    labor_table, published = bench("labor_table"), bench("published")
    ratio = published.published_ratio("flickr", "LABOR-0")
    assert ratio == pytest.approx(73 / 66)
    ours = record("NS over LABOR-0", "|V3| gain", 2 * ratio, bench="labor", case="flickr")
    (found,) = labor_table.deviations([ours, record("NS", "|V3|", 70.0, bench="labor", case="flickr")])
    assert found.median == pytest.approx(2.0)
    assert (found.system, found.metric) == ("NS over LABOR-0", "|V3| ratio over published")


def test_layer_sizes_are_fitted_to_the_nodes_that_are_reached(bench, monkeypatch):
    """A model of a sampler: of the nodes drawn for a hop, a known share was there already."""
    import numpy as np

    labor_table = bench("labor_table")
    new_share = np.array([0.9, 0.7, 0.5])

    def reached(sizes, train, threads):
        del threads
        return len(train) + np.cumsum(np.array(sizes) * new_share)

    monkeypatch.setattr(labor_table, "mean_nodes", reached)
    train = np.arange(100)
    target = np.array([600.0, 3_000.0, 9_000.0])
    sizes = labor_table.fitted_sizes(lambda sizes: sizes, target, train, threads=1)
    assert reached(sizes, train, 1) == pytest.approx(target, rel=0.01)


def test_the_report_that_is_kept_is_of_its_files_and_short(report):
    kept, results = report.BENCH / "RESULTS.md", report.BENCH / "results"
    text = kept.read_text()
    assert text == report.report_text(results, kept), "run `make bench-report`"
    assert len(text.splitlines()) <= 700
    assert len(report.by_hand(kept).splitlines()) <= 65, "at most 64 lines of reading"
    assert re.search(r"^Machine: .+; copies at .+ GB/s", text, flags=re.MULTILINE)
    for name, records in report.all_records(results).items():
        page = (results / f"{name}.md").read_text()
        assert page == report.page_text(name, records, results), "run `make bench-report`"
