"""The benchmark of training from disk says which limits of memory cannot hold."""

from __future__ import annotations

import argparse
import re

import pytest


def options_of(disk, *arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    disk.add_options(parser)
    return parser.parse_args(arguments)


def test_a_limit_that_cannot_hold_is_refused_before_any_work(bench, tmp_path):
    disk = bench("tiering_disk")
    disk.check_limit(options_of(disk))
    with pytest.raises(SystemExit, match=r"of at least [0-9]+ .*got 512; give a higher") as refused:
        disk.run(options_of(disk, "--limit", "512", "--folder", str(tmp_path)))
    least = re.search("at least ([0-9]+)", str(refused.value))
    assert least is not None
    disk.check_limit(options_of(disk, "--limit", least[1]))
    disk.check_limit(options_of(disk, "--limit", "512", "--batch-size", "256", "--reads", "20000"))
    assert not list(tmp_path.iterdir())


def test_rows_narrower_than_their_part_of_the_graph_are_refused(bench):
    disk = bench("tiering_disk")
    with pytest.raises(SystemExit, match="expected --width above 36, got 36"):
        disk.check_limit(options_of(disk, "--width", "36"))
