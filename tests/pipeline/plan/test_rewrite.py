"""The rewriting machinery itself."""

from __future__ import annotations

from collections import Counter

import pytest

import headrace as hr
from headrace.pipeline.passes import LOWERINGS, OPTIMISATIONS, PASSES, Pass, Promise, Rule, rewrite
from headrace.pipeline.plan import rewriting, rules
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.stages.steps import Prefetch

from plans import PLANS, graph, items


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("machine", [Machine(cores=1), Machine(cores=8, gpus=4)])
def test_every_plan_comes_out_legal_and_untouched(name, machine):
    plan = PLANS[name]()
    rewrite(plan, machine)
    assert plan == PLANS[name]()


def test_switches_are_the_optional_passes():
    assert [one.name for one in LOWERINGS if one.optional] == ["cooperative"]
    assert all(one.optional and one.on for one in OPTIMISATIONS)
    assert [one.name for one in PASSES if one.optional] == [
        "cooperative",
        "tiered_cache",
        "fuse_exchange",
        "fuse_sampling",
        "split_sample",
        "graph_cache",
        "feature_cache",
        "uva_gather",
        "lookahead",
        "prefetch",
        "stream_overlap",
    ]


@pytest.mark.parametrize("verb", ["sample_neighbor", "sample_pinsage"])
def test_work_grows_with_the_hops_and_no_faster(verb, monkeypatch):
    """Counted, as time would not be the same twice: stages made, and windows that rules looked at."""

    def plan(hops):
        if verb == "sample_pinsage":
            return items().sample_pinsage(graph(), 2, 2, 2, num_layers=hops)
        return items().sample_neighbor(graph(), [1] * hops)

    def work(hops):
        counted = Counter()
        monkeypatch.setattr(
            hr.ext.Stage, "__new__", lambda cls, *_, **__: counted.update(["made"]) or object.__new__(cls)
        )
        monkeypatch.setattr(rules, "map", lambda *given: counted.update(["looked at"]) or map(*given), raising=False)
        rewrite(plan(hops), Machine(cores=2))
        return counted

    small, large = work(50), work(200)
    assert small["made"] > 50
    assert small["looked at"] > 50
    assert all(large[what] <= 4.2 * small[what] for what in small)


def test_rules_keep_their_precedence_and_look_again_where_stages_are_new():
    """A rule listed first goes first wherever it matches; what a rewrite brings together is seen."""

    def rule(name, kinds, result):
        def rewritten(*matched):
            *window, _facts, _machine = matched
            if [stage.workers for stage in window] != kinds:
                return None
            return tuple(Prefetch(workers=kind) for kind in result)

        return Rule(name, (Prefetch,) * len(kinds), rewritten)

    rules = (
        rule("2 2 -> 3", [2, 2], [3]),
        rule("3 1 -> nothing", [3, 1], []),
        rule("1 -> 2", [1], [2]),
        rule("4 3 -> 4", [4, 3], [4]),
    )
    plan = items()
    for workers in (4, 1, 2, 2, 1, 5, 1):
        plan = plan.prefetch(workers=workers)
    after, fired = Pass("toy", Promise.SAME_BATCHES, rules).apply(plan, Machine())
    assert fired == ("2 2 -> 3", "3 1 -> nothing", "1 -> 2", "1 -> 2")
    assert [stage.workers for stage in after.stages[1:]] == [4, 2, 5, 2]
    plan = items()
    for workers in (4, 2, 1, 3, 3):
        plan = plan.prefetch(workers=workers)
    after, fired = Pass("toy", Promise.SAME_BATCHES, rules).apply(plan, Machine())
    assert fired == ("1 -> 2", "2 2 -> 3", "4 3 -> 4", "4 3 -> 4", "4 3 -> 4")
    assert [stage.workers for stage in after.stages[1:]] == [4]


def test_a_rule_in_a_circle_is_stopped():
    again = Rule("again", (Prefetch,), lambda one, facts, machine: (Prefetch(one.workers + 1),))
    with pytest.raises(hr.PlanError, match="'again' is in a circle"):
        Pass("spin", Promise.SAME_BATCHES, (again,)).apply(items().prefetch(), Machine())


def test_a_pass_that_breaks_the_plan_is_named():
    cut = Rule(
        "cut the compaction", (hr.ext.MapStage,), lambda one, facts, machine: () if one.name == "compact" else None
    )
    broken = Pass("scissors", Promise.SAME_BATCHES, (cut,))
    with pytest.raises(hr.PlanError, match=r"pass scissors \(rules cut the compaction\) broke the plan") as caught:
        rewriting.rewrite((PASSES[0], broken), items().sample_neighbor(graph(), [2]), Machine())
    assert "compact(" in str(caught.value)
