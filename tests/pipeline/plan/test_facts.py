"""What is known at each position of a plan, and rules that go by it."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.passes import PASSES, Pass, Promise, Rule, rewrite
from headrace.pipeline.plan.rules import Facts, facts_of
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.steps import Prefetch

from plans import PLANS, graph, items, pairs, store

MACHINES = [hr.Machine(cores=2), hr.Machine(cores=8, gpus=2, gpu_memory=(1 << 34, 1 << 34))]


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("machine", MACHINES, ids=["cpu", "gpu"])
def test_facts_are_those_of_the_stages_before(name, machine):
    """Each fact anew from the stages, as a rule on the whole plan would have to."""
    stages = rewrite(PLANS[name](), machine).final.stages
    known = list(facts_of(stages))
    assert len(known) == len(stages) + 1
    for position, facts in enumerate(known):
        before = stages[:position]
        assert facts.before == before
        assert facts.last is (before[-1] if before else None)
        assert facts.source is (stages[0] if before else None)
        assert facts.hops == sum(stage.num_hops for stage in before)
        assert facts.fields.keys() == {name for stage in before for name in stage.writes}
        assert facts.place == next((stage.moves_to for stage in reversed(before) if stage.moves_to), None)
        assert facts.threads == any(stage.threads for stage in before)
        assert facts.shares_layers == any(stage.ranks.shares_layers for stage in before)
        found = [stage.graph for stage in before if hasattr(stage, "graph")]
        assert all(any(one is other for other in found) for one in facts.graphs)
        assert len({id(one) for one in found}) == len(facts.graphs)


def test_fields_have_places():
    plan = items().sample_neighbor(graph(), [2]).copy_to("cuda:1").fetch_feature(store(), node=["x"])
    *_, sampled, copied, fetched = facts_of(plan.stages)
    assert set(sampled.fields.values()) == {CPU}
    assert sampled.place is None
    assert set(copied.fields.values()) == {Place.parse("cuda:1")}
    assert copied.place == fetched.place == Place.parse("cuda:1")


def test_trees_boundaries_and_exclusion_are_known():
    trees = rewrite(items().sample_neighbor(graph(), [2], disjoint=True), hr.Machine()).final
    assert [facts.trees for facts in facts_of(trees.stages)] == [False, False, True, True]
    plan = pairs().exclude_seed_edges().sample_neighbor(graph(), [2])
    assert [facts.exclude is not None for facts in facts_of(plan.stages)] == [False, False, True, True]
    source = hr.GlobalBatch(graph())
    assert [facts.boundary for facts in facts_of(source.stages)] == [None, 0]


def test_ids_behind_a_stage_of_a_user_are_not_known_to_be_sound():
    plan = items().sample_neighbor(graph(), [2]).transform(lambda batch: batch).prefetch()
    assert [facts.sound_ids for facts in facts_of(plan.stages)] == [True, True, True, False, False]


def toy(*rules):
    return Pass("toy", Promise.SAME_BATCHES, rules)


def test_a_gap_takes_the_fewest_stages_with_which_the_rule_applies():
    seen = []

    def swap(copy, between, prefetch, facts, machine):
        seen.append(len(between))
        return (prefetch, *between, copy) if prefetch.workers == 3 else None

    plan = items().copy_to("cpu").prefetch(workers=1).prefetch(workers=3).prefetch(workers=3)
    after, fired = toy(Rule("swap", (CopyTo, ..., Prefetch), swap)).apply(plan, hr.Machine())
    assert fired == ("swap", "swap")
    assert seen[:2] == [0, 1]
    assert [getattr(stage, "workers", 0) for stage in after.stages[1:]] == [3, 1, 3, 0]


def test_facts_that_a_rule_changes_far_ahead_wake_rules_behind():
    def to_cpu(prefetch, facts, machine):
        return (hr.ItemSampler(4, batch_size=2).copy_to("cpu").stages[1],) if prefetch.workers == 9 else None

    def mark(prefetch, facts, machine):
        return (Prefetch(workers=5),) if facts.place is not None and prefetch.workers == 4 else None

    rules = (Rule("mark", (Prefetch,), mark), Rule("to cpu", (Prefetch,), to_cpu))
    plan = items().prefetch(workers=9).prefetch(workers=1).prefetch(workers=4)
    after, fired = toy(*rules).apply(plan, hr.Machine())
    assert fired == ("to cpu", "mark")
    assert after.stages[-1].workers == 5


@pytest.mark.parametrize("pattern", [(..., Prefetch), (Prefetch, ...), (Prefetch, ..., Prefetch, ..., Prefetch)])
def test_a_pattern_has_one_gap_between_two_types(pattern):
    with pytest.raises(hr.PlanError, match="at most one gap"):
        Rule("wide", pattern, lambda *_: None)


def test_few_rules_look_at_the_whole_plan():
    whole = [(one.name, rule.name) for one in PASSES for rule in one.rules if not rule.pattern]
    assert len(whole) <= 6, whole


def test_nothing_is_known_before_the_source():
    facts = Facts()
    assert (facts.before, facts.source, facts.boundary, facts.hops) == ((), None, None, 0)
