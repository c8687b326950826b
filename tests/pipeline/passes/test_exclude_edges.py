"""What later passes are told of hops that leave edges out."""

from __future__ import annotations

from headrace.pipeline.lowered.sample_hop import SampleHop
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.machine import Machine

from plans import graph, pairs

ALONE = {"fuse_sampling": False, "prefetch": False}


def hops(plan):
    return [stage for stage in rewrite(plan, Machine(), ALONE).final.stages if isinstance(stage, SampleHop)]


def test_a_hop_that_leaves_edges_out_takes_neither_all_edges_nor_whole_rows():
    plan = pairs().exclude_seed_edges(reverse=True).sample_uniform_negative(graph()).sample_neighbor(graph(), [3, -1])
    assert [stage.hop.exclude.reverse for stage in hops(plan)] == [True, True]
    assert not any(stage.hop.takes_all or stage.hop.reads_whole_rows for stage in hops(plan))
