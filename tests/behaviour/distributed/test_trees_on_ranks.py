"""Trees over ranks: the same elements, whoever finds them; what crosses ranks is (node, slot), and its bounds."""

from __future__ import annotations

import pytest
import torch
from ranks import assert_same_union, cooperative_batches, partition, run_ranks

import headrace as hr
from headrace.ext import BatchSource, SourceStage

from plans import graph, store, timed_graph, timed_items

OPTIONS = [{"time": "time"}, {"time": "time", "window": 20}, {"disjoint": True}, {"time": "time", "strategy": "last"}]
KINDS = pytest.mark.parametrize("kind", ["hash", "table"])
WAYS = pytest.mark.parametrize("options", OPTIONS, ids="-".join)


def trees(batches):
    """Each edge of each tree, with the item that the tree is of."""
    return sorted(
        (int(batch.item_index[slot]), edge)
        for batch in batches
        for block in batch.blocks
        for slot, edge in zip(batch.slot[block.edge_index[1]].tolist(), block.edge_ids.tolist(), strict=True)
    )


@pytest.mark.slow
@WAYS
@KINDS
def test_ranks_that_make_batches_together_find_the_elements_of_one(options, kind):
    plan = timed_items().sample_neighbor(timed_graph(), [4, 3], **options).fetch_feature(store(), node=["x"])
    shares = cooperative_batches(plan, 3, partition=partition(kind, 3))
    for index, whole in enumerate(plan.loader()):
        mine = [batches[index] for batches in shares]
        assert_same_union(whole, mine, partition(kind, 3))
        for share in mine:
            assert torch.equal(share.x, store().node["x"].read(share.n_id).rows)
            assert torch.equal(share.slot, share.exchanges[0].wanted_slot)
        found = [(share.exchanges[0].owned, share.exchanges[0].owned_slot) for share in mine]
        assert sorted(pair for nodes, slots in found for pair in zip(nodes.tolist(), slots.tolist(), strict=True)) == (
            sorted(zip(whole.n_id.tolist(), whole.slot.tolist(), strict=True))
        )


@pytest.mark.slow
@WAYS
@KINDS
def test_shards_have_the_trees_of_the_whole_graph(options, kind):
    owners = partition(kind, 2)

    def plan(over, features, **changes):
        return timed_items(**changes).sample_neighbor(over, [4, 3], **options).fetch_feature(features, node=["x"])

    def work(comm):
        rows = store().node["x"].read(torch.arange(graph().num_nodes)).rows
        features = hr.FeatureStore(node={"x": hr.ShardedFeature.of(rows, owners, comm.rank)})
        with plan(timed_graph().shard(owners, comm.rank), features).loader(comm=comm) as loader:
            return [batch.digest() for batch in loader]

    expected = [
        [b.digest() for b in plan(timed_graph(), store(), partition=owners).loader(rank=rank, world_size=2)]
        for rank in range(2)
    ]
    assert run_ranks(2, work) == expected


@WAYS
def test_shares_of_ranks_have_the_trees_of_one(options):
    plan = timed_items().sample_neighbor(timed_graph(), [4, 3], **options)
    shares = [list(plan.loader(rank=rank, world_size=3)) for rank in range(3)]
    for index, whole in enumerate(plan.loader()):
        assert trees([share[index] for share in shares]) == trees([whole])


def test_a_source_that_knows_nothing_of_other_ranks_gives_them_streams_of_their_own():
    class Drawer(BatchSource):
        num_batches = 1

        def seek(self, epoch, state):
            self.left = 1

        def draw(self):
            if not self.left:
                raise StopIteration
            self.left = 0
            return hr.MiniBatch.of_seeds(torch.tensor([7, 7]), epoch=0, index=0, item_index=torch.arange(2))

    class Source(SourceStage):
        name, seed, shares_by_rank = "two_seeds", 3, True

        def source(self, settings):
            return Drawer()

    plan = Source().sample_neighbor(graph(), [5], disjoint=True)
    picked = [next(iter(plan.loader(rank=rank, world_size=2))) for rank in range(2)]
    sets = {tuple(batch.e_id[5 * slot : 5 * slot + 5].tolist()) for batch in picked for slot in range(2)}
    assert len(sets) == 4


def test_ranks_that_share_edges_grow_no_trees():
    shared = hr.EdgePartition.grid(graph(), 2)
    plan = timed_items().sample_neighbor(graph(), [-1], disjoint=True)
    with pytest.raises(hr.PlanError, match="sample_neighbor grows a tree for each seed, but ranks share edges by"):
        cooperative_batches(plan, 2, partition=shared)


@pytest.mark.slow
@WAYS
@KINDS
def test_slots_and_times_of_the_own_seeds_are_found_as_documented(options, kind):
    """Of trees of all ranks' seeds: `MiniBatch.seed_time` and `slot`."""
    times = timed_items().time
    plan = timed_items().sample_neighbor(timed_graph(), [4, 3], **options)
    for batches in cooperative_batches(plan, 3, partition=partition(kind, 3)):
        for whole, batch in zip(plan.loader(), batches, strict=True):
            own = batch.exchanges[-1].wanted_slot[batch.seed_index]
            assert torch.equal(whole.seeds[own], batch.seeds)
            assert torch.equal(whole.item_index[own], batch.item_index)
            assert batch.seed_slot is None
            if "time" in options:
                assert len(batch.seed_time) == batch.num_global_seeds
                assert torch.equal(batch.seed_time[own], times[batch.item_index])


def test_slots_and_times_of_the_own_pairs_are_found_as_documented():
    pairs = torch.stack([torch.arange(40), torch.arange(40) + 50], 1)
    source = hr.ItemSampler(pairs, time=torch.arange(40) * 20, batch_size=16, seed=1)
    plan = source.sample_uniform_negative(graph(), 1).sample_neighbor(timed_graph(), [3, 2], time="time")
    for batches in cooperative_batches(plan, 2, partition=partition("hash", 2)):
        for batch in batches:
            first, second = batch.exchanges[-1].wanted_slot[batch.seed_index].unbind(1)
            assert torch.equal(first, second)
            num = batch.num_positives
            assert torch.equal(batch.seed_time[first][:num], 20 * batch.item_index[:num])
            assert len(batch.seed_time) == batch.num_global_seeds
