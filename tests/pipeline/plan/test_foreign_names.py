"""Names of other libraries that do not exist: what errors name in their place does."""

from __future__ import annotations

import re

import pytest

import headrace as hr
from headrace.pipeline.plan.foreign_names import INSTEAD


@pytest.mark.parametrize("name", INSTEAD)
def test_what_is_named_exists(name):
    text = INSTEAD[name]
    for part in re.findall(r"\bhr\.(\w+)", text):
        assert part in hr.__all__
    for method in re.findall(r"hr\.Graph\.(\w+)|graph\.(\w+)\(", text):
        assert hasattr(hr.Graph, "".join(method))
    for one in re.findall(r"(?:\s|\))\.([a-z_]+)\(", text):
        assert one == "loader" or one in hr.ext.verbs()
    pyg = re.findall(r"headrace\.pyg\.(\w+)", text)
    if pyg:
        pytest.importorskip("torch_geometric")
        import headrace.pyg

        assert set(pyg) <= set(headrace.pyg.__all__)
    assert name not in hr.__all__
