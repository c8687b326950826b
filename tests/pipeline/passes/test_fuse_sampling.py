"""fuse_sampling: fires, refuses, is switched off, gives the same result."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hand_made import hand_made, legal

import headrace as hr
from headrace.ops.sampling.rules import LaborRule, NeighborRule
from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.lowered.sample_hop import SampleHop
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.machine import Machine

from plans import PLANS, graph, items, unchanged

SAMPLERS = [
    "neighbor",
    "neighbor_new",
    "neighbor_replace",
    "full",
    "labor",
    "labor_poisson",
    "labor_dependent",
    "labor_1",
    "labor_star_new",
    "ladies",
    "weighted_pladies",
    "in_subgraph_new",
    "pairs",
]


def final_stages(plan, **switches):
    with legal():
        return [type(stage) for stage in rewrite(plan, Machine(), switches).final.stages]


@pytest.mark.parametrize("name", SAMPLERS)
def test_fires_on_every_sampler(name):
    stages = final_stages(PLANS[name]())
    assert stages.count(SampleFused) == 1
    assert SampleHop not in stages
    assert Compact not in stages


def test_keeps_what_keys_the_randomness():
    (fused,) = (
        stage for stage in rewrite(PLANS["labor_dependent"](), Machine()).final.stages if isinstance(stage, SampleFused)
    )
    assert [hop.key_layer for hop in fused.hops] == [0, 0, 0]
    assert [hop.rule for hop in fused.hops] == [LaborRule(5), LaborRule(3), LaborRule(2)]


def test_refuses_hops_that_disagree():
    rule = NeighborRule(2)
    plan = hand_made(items()).sample_hop(graph(), rule, layer=0, key_layer=0).compact(graph())
    plan = plan.sample_hop(graph(), rule, layer=1, key_layer=1, weight="weight").compact(graph())
    assert final_stages(plan).count(SampleFused) == 2


@pytest.mark.parametrize("first", [True, False])
def test_refuses_hops_of_which_one_has_edge_ids(first):
    """A fused stage gives edge ids to all of its blocks or to none."""
    rule = NeighborRule(2)
    plan = (
        hand_made(items())
        .sample_hop(graph(), rule, layer=0, key_layer=0, edge_ids=first)
        .compact(graph(), edge_ids=first)
    )
    plan = plan.sample_hop(graph(), rule, layer=1, key_layer=1, edge_ids=not first)
    plan = plan.compact(graph(), edge_ids=not first)
    assert final_stages(plan).count(SampleFused) == 2
    for fused, apart in zip(plan.loader(), plan.loader(fuse_sampling=False), strict=True):
        assert [block.edge_ids is not None for block in fused.blocks] == [not first, first]
        assert fused.digest() == apart.digest()


def test_fires_on_both_sides_of_a_stage_between():
    rule = NeighborRule(2)
    plan = hand_made(items()).sample_hop(graph(), rule, layer=0, key_layer=0).compact(graph()).transform(unchanged)
    plan = plan.sample_hop(graph(), rule, layer=1, key_layer=1).compact(graph())
    assert final_stages(plan).count(SampleFused) == 2
    fused, apart = plan.loader(), plan.loader(fuse_sampling=False)
    assert [batch.digest() for batch in fused] == [batch.digest() for batch in apart]


@pytest.mark.parametrize("name", SAMPLERS)
def test_blocks_have_all_fields_and_pass_the_checks_that_they_are_made_without(name):
    for batch in PLANS[name]().loader():
        for block in batch.blocks:
            made = {field.name: getattr(block, field.name) for field in fields(hr.Block)}
            # Marks are no fields: of blocks of our own, and of sizes in a process that has compiled a model.
            assert {name: one for name, one in vars(block).items() if not name.startswith("_")} == made
            hr.Block(**made)


def test_keeps_a_later_hop_that_expands_only_what_is_new():
    rule = NeighborRule(2)
    plan = (
        hand_made(items()).sample_hop(graph(), rule, layer=0, key_layer=0, expand="new").compact(graph(), expand="new")
    )
    plan = plan.transform(abs)
    plan = plan.sample_hop(graph(), rule, layer=1, key_layer=1, expand="new").compact(graph(), expand="new")
    assert final_stages(plan).count(SampleHop) == 1


def test_is_switched_off():
    stages = final_stages(PLANS["neighbor"](), fuse_sampling=False)
    assert SampleFused not in stages
    assert stages.count(SampleHop) == 2


@pytest.mark.parametrize("name", SAMPLERS)
def test_same_result(name):
    fused, apart = PLANS[name]().loader(), PLANS[name]().loader(fuse_sampling=False)
    for left, right in zip(fused, apart, strict=True):
        assert left.digest() == right.digest()
