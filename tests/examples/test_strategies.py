"""One model, three strategies: they learn, and several processes print what one does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from launched import run_example

# Its processes have limits of their own, of which a test may need several.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(script: str, data: Path, *options: str, num_processes: int = 1) -> list[str]:
    return run_example(script, "--data", data, *options, num_processes=num_processes)


def accuracies(lines: list[str]) -> list[float]:
    return [float(found.group(1)) for line in lines if (found := re.search(r"test accuracy ([0-9.]+)", line))]


def losses(lines: list[str]) -> list[float]:
    return [float(found.group(1)) for line in lines if (found := re.search(r"loss ([0-9.]+)", line))]


CLUSTERS = ("--clusters", "12", "--clusters-per-batch", "4")


@pytest.mark.combinations(1)
@pytest.mark.parametrize(
    "options",
    [("global",), ("mini", "--batch-size", "64"), ("cluster", *CLUSTERS, "--boundary", "1")],
    ids=lambda options: options[0],
)
def test_processes_print_what_one_does(options, data):
    arguments = ("--epochs", "6", "--strategy", *options)
    alone = run("strategies.py", data, *arguments)
    assert accuracies(alone)[-1] > 0.9
    assert run("strategies.py", data, *arguments, num_processes=2) == alone


@pytest.mark.thorough
@pytest.mark.parametrize(("boundary", "num_processes"), [("0", 3), ("1", 2)])
def test_cluster_gcn_learns_on_any_number_of_processes(boundary, num_processes, data):
    arguments = (*CLUSTERS, "--boundary", boundary, "--epochs", "6")
    alone, together = (run("cluster_gcn.py", data, *arguments, num_processes=number) for number in (1, num_processes))
    assert len(accuracies(alone)) == 6
    assert accuracies(alone)[-1] > 0.9
    assert any("cluster_sampler" in line for line in alone)
    assert accuracies(together) == pytest.approx(accuracies(alone), abs=0.01)
    assert losses(together) == pytest.approx(losses(alone), abs=1e-3)
