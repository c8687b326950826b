"""expand_macros: fires, refuses, cannot be switched off, gives the same result."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from explained import names
from ranks import partition

import headrace as hr

from plans import PLANS, graph, items, store, timed_graph, timed_items

ALONE = {"fuse_sampling": False, "prefetch": False}


def final_names(plan):
    return names(plan, hr.Machine(), **ALONE)


def test_fires_on_samplers():
    hop = ["sample_hop", "compact"]
    assert final_names(items().sample_neighbor(graph(), [3, 2])) == ["item_sampler", *hop * 2]
    assert final_names(items().sample_pinsage(graph(), 2, 3, 2)) == ["item_sampler", "walk_hop", "compact"]


def test_fires_on_macros_of_users():
    class Twice(hr.ext.MacroStage):
        name = "twice"

        def parts(self):
            return items().transform(abs).transform(abs).stages[1:]

    assert final_names(items().then(Twice())) == ["item_sampler", "transform", "transform"]


def test_refuses_what_stands_for_itself():
    assert final_names(PLANS["saint_node"]()) == ["item_sampler", "sample_saint", "fetch_feature"]


@dataclass(frozen=True, eq=False, repr=False)
class Begins(hr.ext.MacroStage):
    """Stands for the own stages of a plan."""

    name = "begins"

    plan: hr.Plan

    def parts(self):
        return self.plan.stages[1:]


def reading(*fields):
    members = {"name": "reads", "reads": frozenset(fields), "runner": lambda *_: lambda batch: (batch, {})}
    return type("Reads", (hr.ext.MapStage,), members)()


def lowered():
    return hr.Plan([items(), *items().sample_neighbor(graph(), [3, 2]).stages[1].parts()])


@pytest.mark.parametrize("inside", [lambda: items().sample_neighbor(graph(), [3, 2]), lowered], ids=["verb", "hops"])
def test_a_macro_of_users_writes_what_its_parts_write(inside):
    macro, sampled = items().then(Begins(inside())), items().sample_neighbor(graph(), [3, 2])
    plans = [plan.fetch_feature(store(), node=["x"], edge=["e"]) for plan in (macro, sampled)]
    assert [batch.digest() for batch in plans[0].loader()] == [batch.digest() for batch in plans[1].loader()]
    for batch, like in zip(macro.to_pyg().loader(), sampled.to_pyg().loader(), strict=True):
        assert torch.equal(batch.edge_index, like.edge_index)


def test_a_macro_of_users_reads_what_no_part_before_writes():
    twice = items().then(Begins(items().fetch_feature(store(), labels="y").then(reading("y", "seeds"))))
    assert len(list(twice.loader())) == len(list(items().loader()))
    with pytest.raises(hr.PlanError, match=r"begins cannot stand here: it reads slot, which no stage before it writes"):
        items().then(Begins(items().then(reading("slot")))).loader()


def test_a_macro_of_users_has_the_hops_of_its_parts():
    inner = hr.ClusterSampler(partition("hash", 4), boundary=2, seed=0)
    plan = inner.then(Begins(items().sample_in_subgraph(graph(), num_hops=2)))
    like = inner.sample_in_subgraph(graph(), num_hops=2)
    assert [batch.digest() for batch in plan.loader()] == [batch.digest() for batch in like.loader()]


def test_parts_that_are_no_stages_are_refused_before_any_is_asked():
    with pytest.raises(
        hr.PlanError, match=r"begins: expected Begins\.parts to return a tuple of stages behind a source"
    ):
        items().then(type("Begins", (Begins,), {"parts": lambda self: [3]})(items())).loader()


@pytest.mark.parametrize("verb", ["disjoint", "shadow", "time"])
def test_a_stage_behind_trees_reads_their_slots(verb):
    made = {
        "disjoint": lambda: items().sample_neighbor(graph(), [2], disjoint=True),
        "shadow": lambda: items().sample_shadow(graph(), 2, 2),
        "time": lambda: timed_items().sample_neighbor(timed_graph(), [2], time="time"),
    }[verb]()
    assert next(iter(made.then(reading("slot")).loader())).slot is not None
