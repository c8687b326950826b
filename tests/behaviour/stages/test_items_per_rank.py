"""Every rank brings its own items: each comes once, in as many batches on all ranks."""

from __future__ import annotations

import json

import pytest
import torch
from ranks import run_ranks

import headrace as hr

from plans import NUM_NODES, graph, store


def own(rank: int, **options: object) -> hr.ItemSampler:
    items = [torch.arange(0, 90), torch.arange(90, 100), torch.arange(100, 100)][rank]
    return hr.ItemSampler(items, **{"batch_size": 16, "seed": 5, "items_per_rank": True, **options})


def on_ranks(world_size, make, **options):
    def work(comm):
        with make(comm.rank).loader(comm=comm, **options) as loader:
            return list(loader)

    return run_ranks(world_size, work)


@pytest.mark.filterwarnings("ignore:rank")
def test_ranks_that_make_batches_together_bring_their_own():
    """The batch of one process whose seeds are those of all ranks, in their order."""

    def plan(rank):
        source = own(rank, shuffle=True)
        return source.sample_neighbor(graph(), [3, 3]).fetch_feature(store(), node=["x"])

    shares = on_ranks(3, plan, cooperative=True)
    alone = on_ranks(3, plan)
    assert len({len(batches) for batches in shares}) == 1
    for index, parts in enumerate(zip(*shares, strict=True)):
        seeds = torch.cat([part.seeds for part in parts])
        assert [part.num_global_seeds for part in parts] == [len(seeds)] * 3
        assert torch.equal(seeds, torch.cat([batches[index].seeds for batches in alone]))
        whole = hr.ItemSampler(seeds, batch_size=len(seeds), seed=5).sample_neighbor(graph(), [3, 3])
        # Of the seeds' own hop: picks go by the batch's number, so that of batch 0 alone can be compared.
        if index == 0:
            [expected] = whole.loader()
            assert sum(part.num_sampled_nodes[2] for part in parts) == expected.num_sampled_nodes[2]
            assert sum(part.num_sampled_edges[1] for part in parts) == expected.num_sampled_edges[1]
    everyone = torch.cat([part.seeds for batches in shares for part in batches])
    assert torch.equal(everyone.sort().values, torch.arange(100))


def test_a_rank_shuffles_its_own_items_in_an_order_of_its_own():
    same = on_ranks(2, lambda _: hr.ItemSampler(60, batch_size=20, shuffle=True, seed=5, items_per_rank=True))
    first, second = (torch.cat([batch.seeds for batch in batches]) for batches in same)
    assert not torch.equal(first, second)
    whole = hr.ItemSampler(60, batch_size=20, shuffle=True, seed=5)
    assert torch.equal(first, torch.cat([batch.seeds for batch in whole.loader()]))


def test_one_process_is_a_rank_that_brings_all():
    options = {"batch_size": 16, "shuffle": True, "seed": 5}
    one = list(hr.ItemSampler(100, items_per_rank=True, **options).loader())
    other = list(hr.ItemSampler(100, **options).loader())
    assert [batch.digest() for batch in one] == [batch.digest() for batch in other]


def test_seeds_have_slots_of_their_own():
    for parts in zip(*on_ranks(2, own), strict=True):
        slots = torch.cat([part.seed_slot for part in parts])
        assert torch.equal(slots, torch.arange(parts[0].num_global_seeds))


@pytest.mark.filterwarnings("ignore:rank")
def test_a_checkpoint_belongs_to_the_items_and_the_number_of_ranks():
    def state_of(comm):
        with own(comm.rank).loader(comm=comm) as loader:
            next(iter(loader))
            return json.loads(json.dumps(loader.state_dict()))

    def resumed_by(state, make=own):
        def work(comm):
            with make(comm.rank).loader(comm=comm) as loader:
                loader.load_state_dict(state)
                return [batch.index for batch in loader]

        return work

    states = run_ranks(2, state_of)
    assert states[0] == states[1]  # the state of rank 0 serves all
    assert run_ranks(2, resumed_by(states[0])) == [[1, 2, 3, 4, 5, 6]] * 2
    with pytest.raises(hr.StateError, match="expected a state of 3 ranks with items of their own, got one of 2 ranks"):
        run_ranks(3, resumed_by(states[0]))
    with pytest.raises(hr.StateError, match="expected a state of ranks with the same items, got one of 2 ranks with"):
        hr.ItemSampler(100, batch_size=16, seed=5).loader().load_state_dict(states[0])
    with pytest.raises(hr.StateError, match="stage item_sampler differs"):
        run_ranks(2, resumed_by(states[0], lambda rank: own(1 - rank)))


def test_place_by_hand_is_refused():
    with pytest.raises(hr.PlanError, match=r"items_per_rank=True expected ranks that tell each other .* comm="):
        own(0).loader(rank=0, world_size=2)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"items_per_rank": 1}, "items_per_rank to be True or False"),
        ({"cost": torch.ones(90, dtype=torch.int64), "budget": 5, "batch_size": None}, "without budget=, got both"),
        ({"partition": hr.Partition.hash(NUM_NODES, 2)}, "without partition=, got both"),
    ],
)
def test_what_cannot_be_is_refused(options, match):
    with pytest.raises(hr.InputError, match=match):
        own(0, **options)


def test_ranks_of_other_kinds_of_items_are_refused():
    def plan(rank):
        return hr.ItemSampler(torch.arange(8).view(4, 2) if rank else 4, items_per_rank=True)

    with pytest.raises(hr.PlanError, match="expected the same items on all ranks, got 'items of 1 nodes"):
        on_ranks(2, plan)
    with pytest.raises(hr.InputError, match="at least one item on some rank"):
        on_ranks(2, lambda _: hr.ItemSampler([], items_per_rank=True))


def test_pairs_leave_out_the_edges_of_their_rank():
    pairs = torch.stack([graph().indices.long(), torch.arange(NUM_NODES).repeat_interleave(graph().indptr.diff())], 1)

    def plan(rank):
        mine = pairs[:100] if rank else pairs[100:130]
        source = hr.ItemSampler(mine, batch_size=40, seed=0, items_per_rank=True)
        return source.sample_uniform_negative(graph(), 1).exclude_seed_edges().sample_neighbor(graph(), [-1])

    for batches in on_ranks(2, plan):
        for batch in batches:
            block = batch.blocks[0]
            edges = set(map(tuple, batch.n_id[block.edge_index].t().tolist()))
            assert not edges & set(map(tuple, batch.seeds[: batch.num_positives].tolist()))
    with pytest.raises(hr.PlanError, match=r"exclude_seed_edges: expected .* to know the pairs of all ranks"):
        on_ranks(2, plan, cooperative=True)


@pytest.mark.parametrize("per", ["batch", "seed"])
def test_ranks_leave_out_the_edges_that_their_own_items_are(per):
    """By their ids: repeats of them stay."""
    ends = torch.arange(graph().num_nodes).repeat_interleave(graph().indptr.diff())
    pairs = torch.stack([graph().indices.long(), ends], 1)
    numbers = graph().edge_ids.long()
    shares = (slice(300, 330), slice(400, 500))

    def plan(rank):
        options = {"edge_ids": numbers[shares[rank]], "batch_size": 40, "shuffle": True, "seed": 0}
        source = hr.ItemSampler(pairs[shares[rank]], items_per_rank=True, **options)
        source = source.sample_uniform_negative(graph(), 1).exclude_seed_edges(by="edge_id", per=per)
        return source.sample_neighbor(graph(), [-1], disjoint=per == "seed")

    for rank, batches in enumerate(on_ranks(2, plan)):
        for batch in batches:
            gone = numbers[shares[rank]][batch.item_index[: batch.num_positives]]
            block = batch.blocks[0]
            if per == "batch":
                wanted = torch.isin(ends[numbers.argsort()], batch.seeds.unique()).sum() - len(gone)
                assert not torch.isin(block.edge_ids, gone).any()
                assert len(block.edge_ids) == wanted
                continue
            slots = batch.slot[block.edge_index[1]]
            for tree, edge in enumerate(gone):
                assert edge not in block.edge_ids[slots == tree]


@pytest.mark.filterwarnings("default:rank")
def test_a_share_that_may_be_empty_is_told_once():
    with pytest.warns(UserWarning, match=r"rank 0 gets a share without seeds .* batch\.num_global_seeds") as caught:
        sizes = [len(batch.seeds) for batch in hr.ItemSampler(10, batch_size=9).loader(rank=0, world_size=2)]
    assert sizes == [4, 0]
    assert len(caught) == 1


@pytest.mark.filterwarnings("error:rank")
def test_no_share_is_empty_where_batches_are_large_enough():
    list(hr.ItemSampler(10, batch_size=9).loader(rank=1, world_size=2))
    list(hr.ItemSampler(10, batch_size=9, drop_last=True).loader(rank=0, world_size=2))
    list(hr.ItemSampler(1).loader(rank=0, world_size=1))


@pytest.mark.filterwarnings("default:rank")
def test_an_empty_share_that_shows_late_is_told_at_the_first_batch():
    owners = hr.Partition.of(torch.zeros(NUM_NODES, dtype=torch.int64), 2)
    loader = hr.ItemSampler(100, batch_size=50, partition=owners).loader(rank=1, world_size=2)
    with pytest.warns(UserWarning, match="rank 1 got a share without seeds of batch 0") as caught:
        list(loader)
    assert len(caught) == 1
