"""Parameters of users' stages: plans and checkpoints tell them apart, and classes that hide them are refused."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headrace as hr
from headrace import ext

from copies import run_program


def state_of(plan: hr.Plan) -> dict[str, Any]:
    return plan.loader().state_dict()


def planned(stage: ext.Stage) -> hr.Plan:
    return hr.ItemSampler(10, batch_size=5, seed=1).then(stage)


class Unchanged(ext.MapStage):
    """Takes nothing, so that it need not be a dataclass."""

    name = "unchanged"

    def runner(self, settings):
        return lambda batch: (batch, {})


@dataclass(frozen=True, eq=False, repr=False)
class Own(Unchanged):
    value: Any


def test_a_class_without_parameters_needs_no_decorator():
    assert planned(Unchanged()) == planned(Unchanged())
    assert len(list(planned(Unchanged()).loader())) == 2


class WithInit(Unchanged):
    def __init__(self, limit):
        object.__setattr__(self, "limit", limit)


@dataclass(frozen=True, eq=False, repr=False)
class DecoratedWithInit(Unchanged):
    def __init__(self, limit):
        object.__setattr__(self, "limit", limit)


class OfMacro(ext.MacroStage):
    name = "of_macro"

    def __init__(self, limit=3):
        object.__setattr__(self, "limit", limit)

    def parts(self):
        return (Unchanged(),)


class OfSource(ext.SourceStage):
    name, seed = "of_source", 0

    def __init__(self, *, limit):
        object.__setattr__(self, "limit", limit)

    def source(self, settings):
        raise NotImplementedError


@pytest.mark.parametrize(
    "make", [lambda: WithInit(3), lambda: DecoratedWithInit(3), OfMacro, lambda: OfSource(limit=3)]
)
def test_parameters_that_are_no_fields_are_refused(make):
    match = (
        r"expected the parameters of \w+ to be fields of a frozen dataclass, .* got limit in its __init__; write "
        r"@dataclass\(frozen=True, eq=False, repr=False\) above the class, limit: <type> in it"
    )
    with pytest.raises(hr.PlanError, match=match):
        make()


def test_fields_without_the_decorator_are_refused():
    class Forgot(Unchanged):
        limit: int

    with pytest.raises(hr.PlanError, match=r"expected the parameters of Forgot .* got limit as an annotation alone;"):
        Forgot(3)


def test_a_constructor_of_the_fields_is_none_of_this():
    @dataclass(frozen=True, eq=False, repr=False)
    class Listed(Unchanged):
        limits: tuple[int, ...]

        def __init__(self, limits, **others):
            object.__setattr__(self, "limits", tuple(limits))

    assert planned(Listed([1])) == planned(Listed((1,)))
    assert planned(Listed([1])) != planned(Listed([2]))
    assert state_of(planned(Listed([1]))) != state_of(planned(Listed([2])))


class Slots:
    __slots__ = ("first", "second")

    def __init__(self, first):
        self.first = first


class Keyed:
    def __init__(self, key):
        self.key, self.lock = key, threading.Lock()

    def content_digest(self):
        return self.key


class Shift:
    def __init__(self, number):
        self.number = number

    def up(self, batch):
        return batch.replace(y=self.number)

    def down(self, batch):
        return batch.replace(y=-self.number)


class Turn(Shift):
    pass


PAIRS = {
    "slots": lambda: (Slots(1), Slots(2)),
    "a set": lambda: ({1, 2}, {1, 3}),
    "a frozen set": lambda: (frozenset({"a", "b"}), frozenset({"a", "c"})),
    "digests": lambda: (Keyed("a"), Keyed("b")),
    "functions in C": lambda: (torch.relu, torch.tanh),
    "methods in C": lambda: ("ab".count, "ac".count),
    "methods": lambda: (Shift(1).up, Shift(1).down),
    "methods of classes": lambda: (Shift(1).up, Turn(1).up),
    "modules": lambda: (np, torch),
    "classes": lambda: (hr.FeatureSource, Keyed),
    "partial": lambda: (functools.partial(max, 1), functools.partial(max, 2)),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_states_tell_values_apart(kind):
    (first, second), (same, _) = PAIRS[kind](), PAIRS[kind]()
    assert state_of(planned(Own(first))) == state_of(planned(Own(same)))
    assert state_of(planned(Own(first))) != state_of(planned(Own(second)))


STATES = """
import json, sys, torch
sys.path[:0] = sys.argv[1:]
from test_own_parameters import PAIRS, Own, planned, state_of
print(json.dumps([state_of(planned(Own(make()[0])))["plan"]["unchanged"] for make in PAIRS.values()]))
"""


@pytest.mark.slow
def test_states_are_the_same_in_every_process():
    """Whose seeds of hashes are others: that of a copy is the one of what it is a copy of."""
    here = [str(Path(__file__).parents[level]) for level in (0, 2)]
    fresh = subprocess.run([sys.executable, "-c", STATES, *here], capture_output=True, check=True)
    assert json.loads(fresh.stdout) == json.loads(run_program(STATES, *here).stdout)


OPAQUE = {
    "lock": (threading.Lock, "lock"),
    "in a list": (lambda: [1, threading.Lock()], "lock"),
    "in an object": (lambda: Shift(threading.Lock()), "lock"),
}


@pytest.mark.parametrize("kind", OPAQUE)
def test_values_without_a_content_are_refused_by_name(kind):
    make, named = OPAQUE[kind]
    match = (
        rf"unchanged: expected values that a checkpoint can tell by their content, got {named} in value; "
        r"pass what it is made of, or give its class a method content_digest\(\)"
    )
    with pytest.raises(hr.PlanError, match=match):
        state_of(planned(Own(make())))


def test_values_that_hold_themselves_are_refused():
    own = Shift(1)
    own.number = own
    with pytest.raises(hr.PlanError, match=r"unchanged: expected values .* got one that holds itself in value"):
        state_of(planned(Own(own)))


def test_methods_of_a_transform_are_told_apart():
    states = [state_of(hr.ItemSampler(10, seed=1).transform(one)) for one in (Shift(1).up, Shift(1).down, Turn(1).up)]
    plans = [state["plan"]["transform"] for state in states]
    assert len(set(plans)) == 3


def test_an_object_whose_method_is_called_may_change():
    counts = Shift(1)
    before = state_of(hr.ItemSampler(10, seed=1).transform(counts.up))
    counts.number, counts.lock = 2, threading.Lock()
    assert state_of(hr.ItemSampler(10, seed=1).transform(counts.up)) == before
