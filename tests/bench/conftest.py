"""Benchmarks are scripts that import the files beside them: tests import them the same way, and leave no trace."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch):
    """Return a function that imports a module of bench/ by its name."""
    names = [path.stem for path in BENCH.glob("*.py")]
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}  # helpers of tests by the same name
    monkeypatch.syspath_prepend(BENCH)
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(others)
