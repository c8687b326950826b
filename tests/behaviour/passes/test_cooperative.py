"""cooperative: fires, refuses, is switched off, gives the same result."""

from __future__ import annotations

import pytest
from explained import names
from ranks import assert_same_union, cooperative_batches, partition

import headrace as hr

from plans import graph, items, pairs, store

TWO_RANKS = hr.Machine(world_size=2)


def plan():
    return items(batch_size=40).sample_neighbor(graph(), [3, 2]).fetch_feature(store(), node=["x"], labels="y")


def final_names(plan, machine=TWO_RANKS, **switches):
    switches = {"prefetch": False, "fuse_sampling": False, "fuse_exchange": False, **switches}
    return names(plan, machine, **switches)


def test_fires_behind_all_that_finds_nodes_and_all_that_fetches():
    hop = ["sample_hop", "compact", "exchange_ids"]
    fetch = ["fetch_feature", "fetch_owned", "exchange_rows", "return_ids"]
    assert final_names(plan(), cooperative=True) == ["item_sampler", "exchange_ids", *hop * 2, *fetch]


def test_fires_on_layerwise_rules_which_ranks_sample_together():
    found = final_names(items().sample_ladies(graph(), [9]), cooperative=True)
    assert found == ["item_sampler", "exchange_ids", "sample_hop", "compact", "exchange_ids", "return_ids"]


def test_fires_on_subgraphs_which_take_the_nodes_of_hops_alone():
    found = final_names(items().sample_shadow(graph(), 2, 3).fetch_feature(store(), node=["x"]), cooperative=True)
    begin = ["item_sampler", "plant_trees_together", "exchange_ids"]
    hop, fetch = ["sample_hop", "compact", "exchange_ids"], ["fetch_owned", "exchange_rows", "return_ids"]
    assert found == [*begin, *hop * 2, "induce_hop", "compact", "exchange_ids", *fetch]


def test_refuses_one_rank():
    assert "exchange_ids" not in final_names(plan(), hr.Machine(), cooperative=True)


def test_refuses_what_depends_on_a_share_of_the_frontier():
    with pytest.raises(hr.PlanError, match="depends on the whole frontier"):
        final_names(items().sample_neighbor(graph(), [3, 2], expand="new"), cooperative=True)


def test_is_switched_off_unless_asked_for():
    assert final_names(plan()) == final_names(plan(), cooperative=False)
    assert "exchange_ids" not in final_names(plan())


def test_same_result_together():
    owners = partition("hash", 3)
    shares = cooperative_batches(plan(), 3, partition=owners)
    for batch, *mine in zip(plan().loader(), *shares, strict=True):
        assert_same_union(batch, mine, owners)


@pytest.mark.parametrize("per", ["batch", "seed"])
@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_links_of_all_ranks_are_those_of_one(mode, per):
    """Negatives change the nodes that ranks begin with; edges of all ranks' pairs are left out."""
    owners = partition("hash", 3)

    def chain():
        chained = pairs().sample_uniform_negative(graph(), 2, mode).exclude_seed_edges(reverse=True, per=per)
        chained = chained.sample_layer_neighbor(graph(), [5, 3], disjoint=per == "seed")
        return chained.fetch_feature(store(), node=["x"])

    shares = cooperative_batches(chain(), 3, partition=owners)
    for index, whole in enumerate(chain().loader(fuse_sampling=False)):
        assert_same_union(whole, [batches[index] for batches in shares], owners)
