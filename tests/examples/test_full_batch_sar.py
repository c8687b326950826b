"""The example of full-batch training, run as it is: one process or several, the same lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from launched import run_example

pytest.importorskip("torch_geometric")
pytestmark = pytest.mark.slow


def run(data: Path, processes: int, *arguments: str) -> list[str]:
    imports = ("torch_geometric",)
    return run_example("full_batch_sar.py", "--data", data, *arguments, num_processes=processes, imports=imports)


def epochs(lines: list[str]) -> list[list[float]]:
    return [[float(line.split()[3]), float(line.split()[6])] for line in lines if line.startswith("epoch")]


@pytest.mark.combinations(1)
@pytest.mark.parametrize(
    ("model", "processes", "further"),
    [("sage", 2, ["--prefetch", "1"]), ("gat", 3, ["--partition", "range", "--mode", "one-shot"])],
)
def test_processes_print_what_one_does(data, model, processes, further):
    alone = run(data, 1, "--model", model, "--epochs", "5")
    together = run(data, processes, "--model", model, "--epochs", "5", *further)
    assert len(epochs(alone)) == 5
    for one, other in zip(epochs(alone), epochs(together), strict=True):
        assert one[0] == pytest.approx(other[0], abs=2e-3)
        assert one[1] == pytest.approx(other[1], abs=0.02)
    assert epochs(alone)[-1][0] < epochs(alone)[0][0] / 4
    assert sum(line.startswith("rank") for line in together) == processes
