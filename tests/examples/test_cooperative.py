"""The cooperative example prints the same losses and accuracies for one process and for several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Its processes have limits of their own, of which a test may need several.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).parents[2] / "examples" / "cooperative.py"


def run(data: Path, num_processes: int, *options: str) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_processes)]
    command = [*(launcher if num_processes > 1 else [sys.executable]), str(SCRIPT), "--data", str(data), *options]
    # The script's own folder belongs on the path of a script.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.fixture(scope="module")
def together(data):
    """What two ranks print that make their batches together."""
    return run(data, 2, "--batch-size", "50")


def test_two_processes_print_what_one_does(data, together):
    alone = run(data, 1, "--batch-size", "50")
    epochs = [line for line in alone if line.startswith("epoch")]
    assert len(epochs) == 3
    assert epochs == [line for line in together if line.startswith("epoch")]
    work = [next(line for line in lines if "rows fetched" in line).split(": ")[1] for lines in (alone, together)]
    assert work[0] == work[1]


def test_independent_ranks_do_more_work(data, together):
    apart = run(data, 2, "--batch-size", "50", "--independent")
    rows = [
        int(next(line for line in lines if "rows fetched" in line).split(", ")[-1].split()[0].replace(",", ""))
        for lines in (together, apart)
    ]
    assert rows[1] > 1.1 * rows[0]
