"""Passes of users: they rewrite the plan as written, before those of headrace."""

from __future__ import annotations

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
    ],
)
def test_refusals(make, fragment):
    with pytest.raises(hr.PlanError, match=fragment):
        make()
