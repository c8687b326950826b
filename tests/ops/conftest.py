"""Instruction sets that this machine has, for tests of what is chosen among them; threads for the smallest work."""

from __future__ import annotations

import pytest

from headrace.ops import _native

from instruction_sets import SETS


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what asks for another instruction set than the best one as a test of the kernels alone."""
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if any(isinstance(value, _native.InstructionSet) and value is not SETS[-1] for value in values):
            item.add_marker("kernel")


@pytest.fixture(params=SETS)
def instructions(request):
    """Use each instruction set in turn, and the best one again behind the test."""
    assert _native.use_instruction_set(request.param)
    yield request.param
    assert _native.use_instruction_set(SETS[-1])


@pytest.fixture(autouse=True)
def _shared_work():
    """Let kernels use the threads they are given, which for graphs as small as those of tests would not pay."""
    _native.share_all_work(True)
    yield
    _native.share_all_work(False)
