"""prefetch: fires, refuses, is switched off, gives the same result."""

from __future__ import annotations

import torch
from explained import names
from ranks import cooperative_batches, partition

import headrace as hr

from plans import NUM_NODES, PLANS, graph, items, store

TWO_CORES = hr.Machine(cores=2)


def final_verbs(plan, machine=TWO_CORES, **switches):
    return names(plan, machine, **switches)


def test_fires_at_the_end():
    assert final_verbs(PLANS["neighbor"]())[-1] == "prefetch"


def test_stands_before_the_copy_to_a_device():
    assert final_verbs(PLANS["neighbor"]().copy_to("cuda"))[-2:] == ["prefetch", "copy_to"]


def test_stands_before_the_first_copy_whatever_follows():
    verbs = final_verbs(PLANS["neighbor"]().copy_to("cuda").transform(abs))
    assert verbs[-3:] == ["prefetch", "copy_to", "transform"]


def test_refuses_where_the_user_placed_one():
    plan = items().sample_neighbor(graph(), [2]).prefetch(workers=0).transform(abs)
    assert final_verbs(plan).count("prefetch") == 1


def test_refuses_on_one_core():
    assert "prefetch" not in final_verbs(PLANS["neighbor"](), hr.Machine(cores=1))


def test_refuses_where_there_is_nothing_to_do_ahead():
    assert "prefetch" not in final_verbs(items())
    assert "prefetch" not in final_verbs(items().copy_to("cuda"))


def test_is_switched_off():
    assert "prefetch" not in final_verbs(PLANS["neighbor"](), prefetch=False)


def test_same_result():
    ahead = PLANS["neighbor"]().loader(machine=TWO_CORES)
    inline = PLANS["neighbor"]().loader(machine=TWO_CORES, prefetch=False)
    for left, right in zip(ahead, inline, strict=True):
        assert left.digest() == right.digest()


def test_a_source_alone_still_runs():
    assert len(list(hr.ItemSampler(5, batch_size=2).loader(machine=TWO_CORES))) == 3


def exchanging(world_size: int = 2) -> hr.Machine:
    return hr.Machine(cores=4, world_size=world_size)


def test_samples_while_rows_are_exchanged():
    plan = items().sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"], labels="y")
    expected = ["exchange_ids", "sample_fused", "exchange_ids", "prefetch", "fetch_feature", "fetch_and_exchange"]
    together = final_verbs(plan, exchanging(), cooperative=True)
    assert together == ["item_sampler", *expected, "return_ids", "prefetch"]
    apart = final_verbs(plan, exchanging(), cooperative=True, fuse_exchange=False)
    assert apart == ["item_sampler", *expected[:-1], "fetch_owned", "exchange_rows", "return_ids", "prefetch"]
    shards = hr.FeatureStore(node={"x": hr.ShardedFeature.of(torch.zeros(NUM_NODES, 2), partition("hash", 2), 0)})
    hybrid = final_verbs(items().sample_neighbor(graph(), [2]).fetch_feature(shards, node=["x"]), exchanging())
    fetch = ["prefetch", "exchange_ids", "fetch_and_exchange", "return_ids"]
    assert hybrid == ["item_sampler", "sample_fused", *fetch, "prefetch"]


def test_has_one_thread_where_no_rows_are_exchanged_or_cores_are_few():
    plan = items().sample_neighbor(graph(), [2])
    fetched = plan.fetch_feature(store(), node=["x"])
    for verbs in (
        final_verbs(plan, exchanging(), cooperative=True),
        final_verbs(fetched, exchanging()),
        final_verbs(fetched, hr.Machine(cores=3, world_size=2), cooperative=True),
    ):
        assert verbs.count("prefetch") == 1


def test_same_result_in_two_threads():
    plan = PLANS["neighbor"]().fetch_feature(store(), node=["y"])
    ahead = cooperative_batches(plan, 3, machine=hr.Machine(cores=4))
    inline = cooperative_batches(plan, 3, prefetch=False)
    for mine, other in zip(ahead, inline, strict=True):
        assert [batch.digest() for batch in mine] == [batch.digest() for batch in other]
