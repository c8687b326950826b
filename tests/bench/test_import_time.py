"""Bars for the start are times: a machine that is slower by a factor is held to that many times as much."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("median", "slower", "expected"),
    [(59, 1, []), (61, 1, ["`import headrace`, ms"]), (119, 2, []), (121, 2, ["`import headrace`, ms"])],
)
def test_bars_of_the_start(bench, median, slower, expected):
    record = bench("harness").summarised("import", "after torch", "import headrace", "time", "ms", [median], 1)
    assert bench("import_time").missed([record], slower) == expected
