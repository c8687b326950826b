"""The cooperative example prints the same losses and accuracies for one process and for several."""

from __future__ import annotations

import pytest

from launched import run_example, torchrun_example

# Its processes have limits of their own, of which a test may need several.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def together(data):
    """What two ranks print that make their batches together."""
    return torchrun_example("cooperative.py", "--data", data, "--batch-size", "50", num_processes=2)


def test_two_processes_print_what_one_does(data, together):
    alone = run_example("cooperative.py", "--data", data, "--batch-size", "50")
    epochs = [line for line in alone if line.startswith("epoch")]
    assert len(epochs) == 3
    assert epochs == [line for line in together if line.startswith("epoch")]
    work = [next(line for line in lines if "rows fetched" in line).split(": ")[1] for lines in (alone, together)]
    assert work[0] == work[1]


@pytest.mark.thorough
def test_independent_ranks_do_more_work(data, together):
    apart = run_example("cooperative.py", "--data", data, "--batch-size", "50", "--independent", num_processes=2)
    rows = [
        int(next(line for line in lines if "rows fetched" in line).split(", ")[-1].split()[0].replace(",", ""))
        for lines in (together, apart)
    ]
    assert rows[1] > 1.1 * rows[0]
