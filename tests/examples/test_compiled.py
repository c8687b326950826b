"""A compiled model learns on padded batches, and is compiled twice."""

from __future__ import annotations

import pytest
import torch

from launched import run_example

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(torch.library, "register_autograd"), reason="torch before 2.4 compiles no layers"),
]


def test_learns_and_is_compiled_twice(data):
    lines = run_example("compiled.py", "--data", data, "--epochs", "4", "--batch-size", "35")
    assert [line.rpartition(" ")[2] for line in lines if line.startswith("epoch")] == ["2"] * 4
    assert float(lines[-1].removeprefix("test accuracy ")) > 0.9
