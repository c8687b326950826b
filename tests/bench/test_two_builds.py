"""Commits that are compared: their names, their builds in turns, and the table with a line for each issue."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

CASES = ("small batches", "first loader")


@pytest.fixture
def two_builds(bench):
    return bench("two_builds")


@pytest.fixture
def measured(bench):
    """Return a function that makes the records of cases, from their ratios of CPU time and peak memory."""
    harness = bench("harness")

    def make(old="0.1.0 (c192d152)", new="12345678", **cases):
        records = []
        for case, values in cases.items():
            for metric, ratio in zip(("CPU time", "peak memory"), values, strict=True):
                sides = {f"old {old}": [2.0] * 3, f"new {new}": [2.0 * ratio] * 3}
                systems = [
                    harness.System(name, lambda number, metric=metric, own=own: {metric: own[number]})
                    for name, own in sides.items()
                ]
                gain = harness.Gain(systems[0].key, systems[1].key, metric)
                records += harness.interleave("two builds", case, systems, rounds=3, gains=[gain], warm_up=0)
        return records

    return make


def test_names_are_those_of_commits(bench, monkeypatch):
    commits = bench("commits")
    known = {"c192d152^{commit}": "c192d1529bd4" + "0" * 28, "main^{commit}": "1" * 40}
    monkeypatch.setattr(commits, "_git", lambda *words, check=True: known.get(words[-1], ""))
    assert commits.label_of(commits.commit_of("0.1.0")) == "0.1.0 (c192d152)"
    assert commits.label_of(commits.commit_of("main")) == "11111111"
    with pytest.raises(ValueError, match=r"expected a commit .* 0\.1\.0.* got 'none'"):
        commits.commit_of("none")


def test_a_python_is_taken_as_it_is(bench):
    build = bench("commits").build_of(sys.executable)
    assert (build.label, str(build.python), build.commit) == (Path(sys.prefix).name, sys.executable, None)


@pytest.mark.slow
def test_a_table_by_commit_keeps_its_columns_and_gets_new_ones(bench, measured, tmp_path):
    by_commit, path = bench("by_commit"), tmp_path / "by_commit.csv"
    first = by_commit.line_of(measured(gather=(1.25, 1.0), typed=(0.5, 0.75)), "2026-01-01", "a CPU, fast")
    by_commit.append(path, first)
    second = by_commit.line_of(measured(new="87654321", links=(2.0, 1.0), typed=(1.0, 1.0)), "2026-02-01", "a CPU")
    by_commit.append(path, second)
    columns, lines = by_commit.read(path)
    assert columns == [
        *("date", "commit", "over", "machine"),
        *("gather: CPU", "gather: memory", "typed: CPU", "typed: memory", "links: CPU", "links: memory"),
    ]
    assert [line["commit"] for line in lines] == ["12345678", "87654321"]
    assert lines[0]["machine"] == "a CPU, fast"
    assert [line["gather: CPU"] for line in lines] == ["1.250", ""]
    assert [line["typed: memory"] for line in lines] == ["0.750", "1.000"]
    assert [line["links: CPU"] for line in lines] == ["", "2.000"]
    assert {len(line) for line in csv.reader(path.read_text().splitlines())} == {len(columns)}


def test_the_report_has_a_table_where_commits_were_compared(bench, measured, tmp_path):
    report, results = bench("report"), tmp_path / "results"
    results.mkdir()
    bench("harness").write_json(results / "spmm.json", measured(other=(1.0, 1.0)))
    assert "By commit" not in report.report_text(results, tmp_path / "RESULTS.md")
    records = measured(gather=(1.25, 1.0))
    bench("harness").write_json(results / "two_builds.json", records)
    text = report.report_text(results, tmp_path / "RESULTS.md")
    assert "CPU time and peak memory of 12345678 over those of 0.1.0 (c192d152)" in text
    assert "| gather | 1.25 (1.25 to 1.25) | 1 (1 to 1) |" in text
    page = report.page_text("two_builds", records, results)
    assert "old 0.1.0 (c192d152) over new 12345678: CPU time gain" in page


def test_every_case_has_a_name_of_its_own(bench):
    """Names are columns of the table."""
    two_builds, turns = bench("two_builds"), bench("case_turns")
    assert len(set(two_builds.NAMES)) == len(two_builds.NAMES) == len(turns.CASES) + 1
    assert {"neighbor batches", "labor batches", "small batches of pyg", "cooperative"} <= set(two_builds.NAMES)


def test_turns_are_of_the_work_of_one_batch(bench, monkeypatch):
    turns = bench("case_turns")
    made = []

    def turn(number):
        made.append(number)
        return lambda: turns.Done(4, 100 * number)

    answer = turns.timed(turn, 3)
    assert made == [3]
    assert answer["inputs"] == 75
    assert answer["peak memory"] > 0
    other = {"CPU time": 1000.0, "peak memory": 500.0, "inputs": 7.0, "time": 9.0}
    monkeypatch.setattr(turns, "OTHERS", [type("Other", (), {"call": lambda *_, **__: other})()])
    both = turns.timed(turn, 3)
    assert both["inputs"] == 82
    assert both["CPU time"] >= 1000
    assert both["peak memory"] >= 500
    assert both["time"] < 1000


def run(two_builds, tmp_path, monkeypatch, *words):
    """Compare two builds by two cases."""
    options = ["--rounds", "1", "--cases", *CASES, "--json", str(tmp_path / "out.json")]
    monkeypatch.setattr(sys, "argv", ["two_builds.py", *options, *words])
    two_builds.main()


@pytest.mark.slow
def test_builds_take_turns(bench, two_builds, tmp_path, monkeypatch, capsys):
    """That of this environment beside itself."""
    same = "--old", sys.executable, "--new", sys.executable
    run(two_builds, tmp_path, monkeypatch, *same)
    records = bench("harness").read_json(tmp_path / "out.json")
    for metric in ("CPU time", "peak memory"):
        ratios = bench("by_commit").ratios(records, metric)
        assert tuple(ratios) == CASES
        assert all(1 / 8 < ratio.median < 8 for ratio in ratios.values())
    assert "small batches" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run(two_builds, tmp_path, monkeypatch, *same, "--append", str(tmp_path / "by_commit.csv"))
    assert "name the commit" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(1800)  # it may compile
def test_a_commit_is_built_and_compared_with_itself(bench, two_builds, tmp_path, monkeypatch):
    """It compiles HEAD, unless that is there."""
    table = tmp_path / "by_commit.csv"
    run(two_builds, tmp_path, monkeypatch, "--old", "HEAD", "--new", "HEAD", "--append", str(table))
    _, (line,) = bench("by_commit").read(table)
    assert line["commit"] == line["over"] == bench("commits").commit_of("HEAD")[:8]
    assert float(line["small batches: CPU"]) > 0
