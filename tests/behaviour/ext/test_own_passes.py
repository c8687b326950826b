"""Passes of users: they rewrite the plan as written, before those of headrace."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest
import torch

import headrace as hr
from headrace import ext


@dataclass(frozen=True, eq=False, repr=False)
class Add(ext.MapStage):
    """Add a number to the labels."""

    name = "add"
    number: int

    @property
    def reads(self):
        return frozenset({"y"})

    @property
    def writes(self):
        return frozenset({"y"})

    def runner(self, settings):
        return lambda batch: (batch.replace(y=batch.y + self.number), {})


def plan(*numbers):
    store = hr.FeatureStore(node={"y": torch.arange(20)})
    longer = hr.ItemSampler(20, batch_size=5, shuffle=True, seed=2).fetch_feature(store, labels="y")
    for number in numbers:
        longer = longer.then(Add(number))
    return longer


def merging(rewrite=lambda first, second, facts, machine: (Add(first.number + second.number),), pattern=(Add, Add)):
    return ext.Pass("merge", ext.Promise.SAME_BATCHES, (ext.Rule("two sums -> one", pattern, rewrite),))


def labels(loader):
    return torch.cat([batch.y for batch in loader]).tolist()


def test_a_pass_keeps_its_promise():
    merged = plan(1, 2, 4).loader(merge=merging())
    text = merged.explain()
    assert "pass merge (same batches): two sums -> one" in text
    assert text.split("plan as written")[0].count("add(") == 1
    assert labels(merged) == labels(plan(1, 2, 4).loader())
    assert "pass merge" not in plan(1, 2, 4).explain()
    assert "pass merge" in plan(1, 2, 4).explain(merge=merging())


def test_the_name_is_that_of_the_argument():
    assert "pass fold_sums" in plan(1, 2).explain(fold_sums=merging())


def test_a_pass_that_does_not_apply_changes_nothing():
    assert labels(plan(1).loader(merge=merging())) == labels(plan(1).loader())


def test_rules_read_the_machine_and_the_facts():
    seen = []

    def note(stage, facts, machine):
        seen.append((machine.cores, sorted(facts.fields)))

    plan(1).explain(machine=hr.Machine(cores=3), note=merging(note, (Add,)))
    ((cores, fields),) = seen
    assert cores == 3
    assert "y" in fields


@pytest.mark.parametrize("passes", [({}, True), (True, {})])
def test_a_checkpoint_is_of_the_plan_as_written(passes):
    first, second = ({"merge": merging()} if one else {} for one in passes)
    loader = plan(1, 2).loader(**first)
    whole = labels(plan(1, 2).loader())
    iterator = iter(loader)
    begun = [next(iterator).y.tolist() for _ in range(2)]
    resumed = plan(1, 2).loader(**second)
    resumed.load_state_dict(loader.state_dict())
    assert [label for batch in begun for label in batch] + labels(resumed) == whole


def test_a_rule_on_the_whole_plan():
    def drop(stages, facts, machine):
        return (
            tuple(stage for stage in stages if not isinstance(stage, Add) or stage.number) if len(stages) > 3 else None
        )

    assert labels(plan(0, 3).loader(drop=merging(drop, ()))) == labels(plan(3).loader())


def for_ever(first, facts, machine):
    return (Add(first.number),)


RULE = ext.Rule("r", (Add,), for_ever)


def made(name="p", promise=ext.Promise.SAME_BATCHES, rules=(RULE,), **others):
    return ext.Pass(name, promise, rules, **others)


@pytest.mark.parametrize(
    ("make", "fragment"),
    [
        (lambda: plan(1, 2).loader(merge=merging(lambda *_: [Add(1)])), "expected a tuple of stages, or None"),
        (lambda: plan(1, 2).loader(merge=merging(lambda *_: ("add",))), "expected a tuple of stages, or None"),
        (lambda: plan(1, 2).loader(merge=merging(for_ever, (Add,))), "rule 'two sums -> one' is in a circle"),
        (lambda: plan(1, 2).loader(merge=merging(lambda *_: (), (hr.ItemSampler,))), "pass merge .* broke the plan"),
        (
            lambda: plan(1, 2).loader(prefetch=merging()),
            "another name for a pass of your own, headrace has a pass 'pref",
        ),
        (lambda: plan(1, 2).loader(merge=True), "merge"),
        (lambda: plan(1, 2).loader(merge="merge"), "merge"),
        (lambda: ext.Rule("gaps", (Add, ..., Add, ..., Add), for_ever), "at most one gap"),
        (
            lambda: ext.Rule("r", Add, for_ever),
            "rule 'r': expected pattern to be a tuple of types of stages, .* got Add",
        ),
        (lambda: ext.Rule("r", (Add(1),), for_ever), r"rule 'r': expected .* got an instance of Add in it; pass Add"),
        (lambda: ext.Rule("r", (int,), for_ever), "rule 'r': expected .* got int in it"),
        (lambda: ext.Rule("r", ("add",), for_ever), "rule 'r': expected .* got 'add' in it"),
        (lambda: made(rules=RULE), "Pass: expected rules to be a tuple of hr.ext.Rule, got Rule; pass \\(rule,\\)"),
        (lambda: made(rules=(for_ever,)), "Pass: expected rules to be a tuple of hr.ext.Rule, got function in it"),
        (lambda: made(promise="same batches"), "Pass: expected promise to be an hr.ext.Promise, .* got 'same batches'"),
        (
            lambda: plan(1, 2).loader(mine=merging(lambda first, second: None)),
            r"rewrite of rule 'two sums -> one' in pass mine to take \(first, second, facts, machine\), got a",
        ),
        (lambda: plan(1).loader(mine=merging(3, (Add,))), "to be a function of .stage, facts, machine., got int"),
        (
            lambda: plan(1, 2).loader(mine=merging(lambda first: None, ())),
            r"rewrite of rule 'two sums -> one' in pass mine to take \(stages, facts, machine\), got a function of",
        ),
    ],
)
def test_refusals(make, fragment):
    with pytest.raises(hr.PlanError, match=fragment):
        make()


def test_a_rule_that_fails_is_named():
    with pytest.raises(ZeroDivisionError) as caught:
        plan(1, 2).loader(mine=merging(lambda *_: 1 // 0))
    assert caught.value.__notes__ == ["headrace: in rule 'two sums -> one' of pass mine"]
    with pytest.raises(hr.PlanError, match="tuple of stages") as caught:
        plan(1, 2).loader(mine=merging(lambda *_: Add(1)))
    assert caught.value.__notes__ == ["headrace: in rule 'two sums -> one' of pass mine"]


def test_a_pass_that_is_off_does_not_run():
    text = plan(1, 2).explain(merge=dataclasses.replace(merging(), on=False))
    assert "pass merge" not in text or "off" in text.split("pass merge")[1].splitlines()[0]
    assert text.split("plan as written")[0].count("add(") == 2
