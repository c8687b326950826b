"""Without torchdata, the fallback keeps the same contract."""

from __future__ import annotations

import importlib
import sys

from headrace.pipeline.run import base_node

from plans import PLANS


def test_the_fallback_runs_plans_without_torchdata(monkeypatch):
    expected = [batch.digest() for batch in PLANS["neighbor"]().loader()]
    monkeypatch.setitem(sys.modules, "torchdata.nodes", None)
    fallback = importlib.util.module_from_spec(importlib.util.find_spec("headrace.pipeline.run.base_node"))
    fallback.__spec__.loader.exec_module(fallback)
    assert fallback.BaseNode is fallback.FallbackNode
    names = ["base_node", "nodes", "prefetch_node", "deferred_prefetch", "lower", "iteration", "loader", "loader_node"]
    modules = {
        name: sys.modules[f"headrace.pipeline.run.{name}"]
        for name in names
        if f"headrace.pipeline.run.{name}" in sys.modules
    }
    try:
        for name in names:
            sys.modules.pop(f"headrace.pipeline.run.{name}", None)
        loader = importlib.import_module("headrace.pipeline.run.loader")
        assert (
            importlib.import_module("headrace.pipeline.run.nodes").BaseNode.__module__
            == "headrace.pipeline.run.base_node"
        )
        assert [batch.digest() for batch in loader.Loader(PLANS["neighbor"]())] == expected
    finally:
        for name, module in modules.items():
            sys.modules[f"headrace.pipeline.run.{name}"] = module


def test_the_fallback_resets_before_first_use():
    class Count(base_node.FallbackNode):
        def reset(self, initial_state=None):
            super().reset(initial_state)
            self.count = 0 if initial_state is None else initial_state["count"]

        def next(self):
            self.count += 1
            return self.count

        def get_state(self):
            return {"count": self.count}

    node = Count()
    assert node.state_dict() == {"count": 0}
    assert [next(node), next(node)] == [1, 2]
    node.reset({"count": 9})
    assert next(node) == 10
