"""Features of half the bytes train as well."""

from __future__ import annotations

import pytest

from launched import run_example

pytestmark = pytest.mark.slow


def result(data, dtype):
    last = run_example("half_precision.py", "--data", data, "--epochs", "4", "--batch-size", "35", "--dtype", dtype)[-1]
    gathered, _, accuracy = last.partition(" bytes gathered  test accuracy ")
    return int(gathered.replace(",", "")), float(accuracy)


def test_learns_from_half_the_bytes(data):
    (half, narrow), (whole, wide) = result(data, "bfloat16"), result(data, "float32")
    assert 0.5 * whole <= half < 0.55 * whole  # labels have eight bytes in both
    assert narrow > 0.9
    assert abs(narrow - wide) < 0.05
