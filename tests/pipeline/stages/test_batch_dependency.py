"""The keys and the lowered stages of batches that depend on each other."""

from __future__ import annotations

import math

import pytest
import torch
from hand_made import hand_made, legal

import headrace as hr
from headrace.ops import dependent_key, sample_hop
from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.lowered.sample_hop import SampleHop
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.machine import Machine

from plans import graph, items

SEEDS = torch.arange(100)


def same_seeds(kappa, *, num_batches=12, **more):
    """Batches that differ in their random numbers alone."""
    plan = hr.ItemSampler(SEEDS.repeat(num_batches), batch_size=len(SEEDS), seed=3)
    return plan.sample_layer_neighbor(graph(), [3], batch_dependency=kappa, **more)


def test_the_step_is_that_of_the_batch():
    """The key of a batch, taken for itself: its index counts, not how many batches this process has made."""
    batches = list(same_seeds(4).loader())
    for index in (1, 2, 5):
        key = dependent_key(3, 0, index, 0, 4)
        hop = sample_hop(graph().indptr, graph().indices, SEEDS, hr.ext.LaborRule(3), key)
        assert torch.equal(batches[index].blocks[0].edge_ids, graph().edge_ids[hop.positions])


@pytest.mark.parametrize("fused", [True, False])
def test_passes_can_read_it(fused):
    for kappa in (1, 4, math.inf):
        stages = rewrite(same_seeds(kappa), Machine(), {"fuse_sampling": fused}).final.stages
        (hop,) = (stage for stage in stages if stage.num_hops)
        assert isinstance(hop, SampleFused if fused else SampleHop)
        assert hop.batch_dependency == hop.origin.batch_dependency == kappa
    assert items().sample_neighbor(graph(), [2]).stages[-1].batch_dependency == 1


def test_hops_of_different_dependencies_are_not_fused():
    rule = hr.ext.LaborRule(2)
    plan = hand_made(items()).sample_hop(graph(), rule, layer=0, key_layer=0, batch_dependency=2).compact(graph())
    plan = plan.sample_hop(graph(), rule, layer=1, key_layer=1, batch_dependency=3).compact(graph())
    with legal():
        stages = rewrite(plan, Machine(), {}).final.stages
    assert [stage.batch_dependency for stage in stages if isinstance(stage, SampleFused)] == [2, 3]
