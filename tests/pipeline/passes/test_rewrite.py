"""The rewriting machinery itself."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.pipeline import rewriting
from headrace.pipeline.machine import Machine
from headrace.pipeline.passes import PASSES, Pass, Promise, Rule
from headrace.pipeline.stages import Prefetch

from plans import PLANS, graph, items


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("machine", [Machine(cores=1), Machine(cores=8, gpus=4)])
def test_every_plan_comes_out_legal_and_untouched(name, machine):
    plan = PLANS[name]()
    rewriting.rewrite(plan, machine)
    assert plan == PLANS[name]()


def test_switches_are_the_optional_passes():
    assert [one.name for one in PASSES if one.optional] == ["cooperative", "fuse_exchange", "fuse_sampling", "prefetch"]


def test_a_rule_in_a_circle_is_stopped():
    again = Rule("again", (Prefetch,), lambda window, machine: (Prefetch(window[0].workers + 1),))
    with pytest.raises(hr.PlanError, match="'again' is in a circle"):
        Pass("spin", Promise.SAME_BATCHES, (again,)).apply(items().prefetch(), Machine())


def test_a_pass_that_breaks_the_plan_is_named(monkeypatch):
    cut = Rule("cut the compaction", (hr.MapStage,), lambda w, machine: () if w[0].verb == "compact" else None)
    broken = Pass("scissors", Promise.SAME_BATCHES, (cut,))
    monkeypatch.setattr(rewriting, "PASSES", (PASSES[0], broken))
    with pytest.raises(hr.PlanError, match=r"pass scissors \(rules cut the compaction\) broke the plan") as caught:
        rewriting.rewrite(items().sample_neighbor(graph(), [2]), Machine())
    assert "compact(" in str(caught.value)
