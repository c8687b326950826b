"""Jobs of torchrun in which a rank parts from the others; `leaving.py` runs the whole grid of them."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from leaving import faults, run_job

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")]


JOBS = [("together", "without"), ("break", "without"), ("skip_the_sum", "with"), ("kill", "without"), ("stop", "with")]


@pytest.fixture(scope="module")
def outcomes():
    """What becomes of the jobs, two at a time: they wait for longer than they work."""
    with ThreadPoolExecutor(2) as pool:
        ran = pool.map(lambda job: run_job(2, *job, timeout=4.0), JOBS)
        return dict(zip(JOBS, ran, strict=True))


@pytest.mark.parametrize("job", JOBS, ids="-".join)
def test_others_name_the_rank_and_all_processes_end(job, outcomes):
    assert faults(outcomes[job], job[0]) == [], outcomes[job].output
