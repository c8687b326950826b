"""fuse_sampling of hops that are chained by hand."""

from __future__ import annotations

import pytest
from hand_made import hand_made, legal

from headrace.ops.sampling.rules import LaborRule, NeighborRule
from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.lowered.sample_hop import SampleHop
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.machine import Machine

from plans import PLANS, graph, items, unchanged


def final_stages(plan, **switches):
    with legal():
        return [type(stage) for stage in rewrite(plan, Machine(), switches).final.stages]


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


def test_keeps_a_later_hop_that_expands_only_what_is_new():
    rule = NeighborRule(2)
    plan = (
        hand_made(items()).sample_hop(graph(), rule, layer=0, key_layer=0, expand="new").compact(graph(), expand="new")
    )
    plan = plan.transform(abs)
    plan = plan.sample_hop(graph(), rule, layer=1, key_layer=1, expand="new").compact(graph(), expand="new")
    assert final_stages(plan).count(SampleHop) == 1
