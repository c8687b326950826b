"""Jobs of torchrun in which a rank parts from the others; `leaving.py` runs the whole grid of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from leaving import faults, run_job

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")]


@pytest.mark.parametrize(
    ("scenario", "closing"),
    [("together", "without"), ("break", "without"), ("skip_the_sum", "with"), ("kill", "without"), ("stop", "with")],
)
def test_others_name_the_rank_and_all_processes_end(scenario, closing):
    outcome = run_job(2, scenario, closing, timeout=4.0)
    assert faults(outcome, scenario) == [], outcome.output
