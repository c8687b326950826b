"""The example of full-batch training, run as it is: one process or several, the same lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric")
pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "full_batch_sar.py"


def run(data: Path, processes: int, *arguments: str) -> list[str]:
    """Run the example under torchrun, or by itself if there is one process."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONSAFEPATH", None)  # the data sets are beside the script
    result = subprocess.run(
        [sys.executable, *(launcher if processes > 1 else []), str(EXAMPLE), "--data", str(data), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env=environment,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout.splitlines()


def epochs(lines: list[str]) -> list[list[float]]:
    return [[float(line.split()[3]), float(line.split()[6])] for line in lines if line.startswith("epoch")]


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
