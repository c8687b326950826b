"""Instruction sets that this machine has, for tests of what is chosen among them."""

from __future__ import annotations

import pytest

from headrace.ops import _native

from instruction_sets import SETS


@pytest.fixture(params=SETS)
def instructions(request):
    """Use each instruction set in turn, and the best one again behind the test."""
    assert _native.use_instruction_set(request.param)
    yield request.param
    assert _native.use_instruction_set(SETS[-1])
