"""Items that count within types become items of the graph."""

from __future__ import annotations

import pytest
import torch
from explained import passes

import headrace as hr

from contracts import digests
from plans import typed_graph, typed_items


def test_fires():
    plan = typed_items().sample_neighbor(typed_graph(), [2])
    assert "typed_items" in passes(plan.explain(machine=hr.Machine()))
    assert sorted(torch.cat([batch.seeds for batch in plan.loader()]).tolist()) == list(range(0, 120, 2))


def test_refuses_items_without_types_and_types_without_a_graph():
    plan = hr.ItemSampler(torch.arange(5), seed=0).sample_neighbor(typed_graph(), [2])
    assert "typed_items" not in passes(plan.explain(machine=hr.Machine()))
    with pytest.raises(hr.PlanError, match=r"for items of \['a'\]"):
        typed_items().loader()


def test_same_result():
    flat = hr.ItemSampler(torch.arange(120, 140), batch_size=6, shuffle=True, seed=3)
    named = hr.ItemSampler({"b": torch.arange(20)}, batch_size=6, shuffle=True, seed=3)
    found, expected = (digests(one.sample_neighbor(typed_graph(), [2]).loader(), 1) for one in (named, flat))
    assert found == expected
