"""What passes make is still the user's stage."""

from __future__ import annotations

import pytest
import torch

import headrace as hr
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.rewriting import Rewriting

from plans import NUM_NODES, graph, items, store

X = torch.randn(NUM_NODES, 2)


OWNERS = hr.Partition.hash(NUM_NODES, 2)


def rewritten(*, shards: bool, cooperative: bool, pairs: bool) -> Rewriting:
    rows = {name: hr.ShardedFeature.of(X, OWNERS, 0) if shards else X for name in ("x", "z", "late")}
    features = hr.FeatureStore(node=rows)
    over = graph().shard(OWNERS, 0) if shards else graph()
    seeds = torch.arange(20).reshape(10, 2) if pairs else torch.arange(20)
    plan = hr.ItemSampler(seeds, batch_size=4).sample_neighbor(over, [3, 2])
    plan = plan.fetch_feature(features, node=["x"]).fetch_feature(features, node=["z"])
    plan = plan.transform(lambda batch: batch).fetch_feature(features, node=["late"])
    return rewrite(plan, hr.Machine(cores=8, rank=0, world_size=2), {"cooperative": cooperative})


@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize("pairs", [False, True])
def test_every_stage_that_passes_make_has_an_origin(shards, cooperative, pairs):
    made = rewritten(shards=shards, cooperative=cooperative, pairs=pairs)
    stages = [stage for stage in made.final.stages if not stage.threads]
    origins = [name for name, stage in zip(made.origins, made.final.stages, strict=True) if not stage.threads]
    assert all(stage.origin in made.plan.stages for stage in stages)
    assert list(dict.fromkeys(origins)) == list(made.plan.names)
    assert origins == sorted(origins, key=made.plan.names.index)


def test_exchanges_are_of_the_stage_whose_nodes_they_send():
    made = rewritten(shards=False, cooperative=True, pairs=False)
    of = {name: origin for origin, name in zip(made.origins, made.final.names, strict=True)}
    assert of["exchange_ids"] == "item_sampler"
    assert of["exchange_ids#2"] == of["exchange_ids#3"] == "sample_neighbor"
    assert (of["fetch_and_exchange"], of["fetch_and_exchange#2"]) == ("fetch_feature", "fetch_feature#2")
    assert of["fetch_feature"] == "fetch_feature#3"  # the third of the user's is the first of this name that is left


def test_passes_leave_the_stages_of_the_user_as_they_are():
    plan = items().sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"])
    final = rewrite(plan, hr.Machine(cores=2)).final
    assert all(stage.origin is stage for stage in plan.stages)
    fused = final.stages[1]
    assert fused.origin is plan.stages[1]
    assert fused == type(fused)(**fused.parameters())  # where it comes from is no part of what it is
