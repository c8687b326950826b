"""A process that leaves an iteration midway ends with the right status; `python -m exits` does it more."""

from __future__ import annotations

import sys

import pytest

from exits.run import run
from exits.scenarios import SCENARIOS

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sends signals and forks")
@pytest.mark.parametrize("name", SCENARIOS)
def test_ends_as_it_should(name):
    end = run(name)
    assert end.is_right, end
