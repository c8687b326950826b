"""The benchmark of tiers runs all of its parts."""

from __future__ import annotations

import argparse
import json


def test_every_part_has_options_with_defaults(bench):
    for part in bench("tiering").PARTS.values():
        parser = argparse.ArgumentParser()
        part.add_options(parser)
        assert vars(parser.parse_args([]))


def test_parts_are_run_drawn_and_written(bench, monkeypatch, tmp_path):
    tiering, record = bench("tiering"), bench("harness").Record
    drawn = []

    class Part:
        def add_options(self, parser):
            parser.add_argument("--size", type=int, default=3)

        def run(self, options):
            numbers = {"median": options.size, "min": 1, "max": 4, "n": options.rounds}
            return [record("tiering", "case", "system", "misses", "%", threads=1, **numbers)]

        def draw(self, records, folder):
            drawn.append((len(records), folder))

    monkeypatch.setattr(tiering, "PARTS", {"one": Part(), "two": Part()})
    paths = ["--json", str(tmp_path / "tiering.json"), "--plot", str(tmp_path / "tiering.png")]
    monkeypatch.setattr("sys.argv", ["tiering.py", "--rounds", "2", *paths])
    tiering.main()
    written = json.loads((tmp_path / "tiering.json").read_text())
    assert [(one["median"], one["n"]) for one in written] == [(3, 2), (3, 2)]
    assert drawn == [(1, tmp_path), (1, tmp_path)]
