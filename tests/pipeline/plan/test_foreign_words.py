"""Words of other libraries for arguments: each verb answers them, by names that it has."""

from __future__ import annotations

import inspect

import pytest

import headrace as hr
from headrace.pipeline.passes import PASSES
from headrace.pipeline.plan.foreign_words import ADVICE, MEANING, SAME

from plans import items

STAGES = {name: getattr(hr.Plan, name) for name in hr.ext.verbs()}


def _stage_of(verb: str) -> type[hr.Plan]:
    return STAGES[verb].__wrapped__


@pytest.mark.parametrize("verb", STAGES)
def test_every_verb_answers_every_foreign_word(verb):
    """What the message calls by another name is an argument of this very verb."""
    plan = items()
    names = [*inspect.signature(_stage_of(verb)).parameters]
    for word in {*SAME, *ADVICE} - {*names}:
        with pytest.raises(hr.PlanError, match=rf"^{verb}: .*got {word}=; ") as caught:
            getattr(plan, verb)(**{word: 1})
        same = [one for one in SAME.get(word, ()) if one in names]
        assert ("here it is called" in str(caught.value)) == bool(same)
        assert not same or f"here it is called {same[0]}=" in str(caught.value)


def test_foreign_words_lead_to_arguments_that_exist():
    known = {name for verb in STAGES for name in inspect.signature(_stage_of(verb)).parameters}
    for source in (hr.ItemSampler, hr.ClusterSampler):
        known |= set(inspect.signature(source).parameters)
    assert {name for names in SAME.values() for name in names} <= known
    assert set(MEANING) <= set(SAME)
    switches = {one.name for one in PASSES}
    assert not switches & {"num_workers", *SAME}
