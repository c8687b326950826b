"""An example tells one story, which takes less than 120 lines."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "name",
    ["heterogeneous", "link_prediction", "temporal_links", "pyg_drop_in", "dgl_model", "lightning_module"],
)
def test_is_told_in_less_than_120_lines(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 120
