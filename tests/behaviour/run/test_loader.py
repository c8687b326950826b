"""The loader: epochs, breaks, arguments, threads that end."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref

import pytest
import torch

import headrace as hr

from contracts import digests
from plans import PLANS, graph, items, store
from workers import wait_for_workers_to_end, worker_threads


def test_an_epoch_has_every_item_once_and_len_tells_the_batches():
    loader = items().loader()
    batches = list(loader)
    assert len(batches) == len(loader) == 6
    assert sorted(torch.cat([batch.seeds for batch in batches]).tolist()) == list(range(0, 200, 2))
    assert [batch.index for batch in batches] == list(range(6))


def test_epochs_differ_and_set_epoch_seeks():
    loader = items().loader()
    first = [batch.digest() for batch in loader]
    second = [batch.digest() for batch in loader]
    assert set(first).isdisjoint(second)
    loader.set_epoch(0)
    assert [batch.digest() for batch in loader] == first
    assert loader.epoch == 1


def test_every_epoch_has_an_order_of_its_own():
    """The seeds themselves: digests of batches differ by the number of the epoch alone."""
    loader = items().loader()
    orders = [tuple(torch.cat([batch.seeds for batch in loader]).tolist()) for _ in range(5)]
    assert len(set(orders)) == 5
    assert {tuple(sorted(order)) for order in orders} == {tuple(range(0, 200, 2))}
    # Not one order that begins elsewhere either: of 100 items, those behind each other differ.
    behind = [dict(itertools.pairwise(order)) for order in orders]
    for number, one in enumerate(behind):
        for other in behind[:number]:
            assert sum(other.get(item) == one[item] for item in one) < 20


@pytest.mark.parametrize("sampler", ["sample_neighbor", "sample_layer_neighbor"])
def test_every_epoch_and_every_batch_has_picks_of_its_own(sampler):
    """The same seeds in every batch of every epoch."""
    plan = getattr(hr.ItemSampler(torch.arange(50).repeat(3), batch_size=50, seed=3), sampler)(graph(), [3, 2])
    loader = plan.loader()
    picks = [tuple(batch.e_id.tolist()) for _ in loader.epochs(3) for batch in loader]
    assert len(picks) == len(set(picks)) == 9


def test_an_iteration_after_a_break_is_the_next_epoch():
    loader = items().loader()
    for batch in loader:
        assert batch.epoch == 0
        break
    assert {batch.epoch for batch in loader} == {1}


def test_epochs_yields_what_is_left():
    loader = items().loader()
    seen = []
    for epoch in loader.epochs(3):
        for batch in loader:
            assert batch.epoch == epoch
            if epoch == 1:
                break
        seen.append(epoch)
    assert seen == [0, 1, 2]
    with pytest.warns(UserWarning, match=r"next epoch is 3, so nothing is left; call loader\.set_epoch\(0\)"):
        assert list(loader.epochs(3)) == []
    loader.set_epoch(0)
    assert list(loader.epochs(3)) == [0, 1, 2]
    done = items().loader()
    done.load_state_dict(loader.state_dict() | {"epoch": 3})
    assert list(done.epochs(3)) == []  # a run that had come to its end when it was resumed


def test_epochs_without_iterating_ends():
    assert list(items().loader().epochs(3)) == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_abandoned_at_any_batch(workers):
    plan = items().sample_neighbor(graph(), [3]).prefetch(workers=workers)
    loader = plan.loader()
    for stop in range(len(loader) + 1):
        for batch in loader:
            if batch.index == stop:
                break
        wait_for_workers_to_end()


def test_a_dropped_loader_leaves_no_thread():
    iterator = iter(items().sample_neighbor(graph(), [3]).prefetch(workers=2).loader())
    next(iterator)
    assert len(worker_threads()) == 2
    del iterator
    wait_for_workers_to_end()


def test_a_dropped_loader_leaves_no_batch():
    """Nor does what waits for its threads at the end of the program."""
    made = []

    def remember(batch):
        made.append(weakref.ref(batch))
        return batch

    iterator = iter(items(batch_size=5).transform(remember).prefetch(workers=2, depth=3).loader())
    next(iterator)
    del iterator
    wait_for_workers_to_end()
    gc.collect()
    assert len(made) > 0
    assert [batch() for batch in made if batch() is not None] == []


def test_with_closes():
    with items().sample_neighbor(graph(), [3]).prefetch(workers=2).loader() as loader:
        iterator = iter(loader)
        next(iterator)
    assert worker_threads() == []
    with pytest.raises(hr.HeadraceError, match="one iteration at a time"):
        next(iterator)
    assert len(list(loader)) == 6


def test_two_iterations_at_once_are_refused():
    loader = items().loader()
    outer = iter(loader)
    next(outer)
    inner = iter(loader)
    assert next(inner).epoch == 1
    with pytest.raises(hr.HeadraceError, match="second loader"):
        next(outer)
    with pytest.raises(hr.HeadraceError, match="second loader"):
        list(zip(loader, loader, strict=True))


def test_two_loaders_of_one_plan_run_side_by_side():
    plan = PLANS["neighbor"]()
    left, right = plan.loader(), plan.loader()
    for one, other in zip(left, right, strict=True):
        assert one.digest() == other.digest()


def test_prefetch_holds_no_more_than_its_depth():
    alive = threading.Semaphore(0)
    made = []

    def remember(batch):
        made.append(batch.index)
        alive.release()
        return batch

    iterator = iter(items(batch_size=5).transform(remember).prefetch(workers=2, depth=3).loader())
    next(iterator)
    for _ in range(4):
        alive.acquire()
    # One was handed out, so three more may be made or waiting; a fifth would need another request.
    assert not alive.acquire(timeout=0.2)
    assert sorted(made) == [0, 1, 2, 3]


def test_shares_of_ranks_make_up_the_batch():
    plan = hr.ItemSampler(torch.arange(100), batch_size=32, shuffle=True)
    whole = list(plan.loader())
    for world_size in (1, 2, 3, 8, 40):
        ranks = [list(plan.loader(rank=rank, world_size=world_size)) for rank in range(world_size)]
        assert {len(batches) for batches in ranks} == {4}
        for index, batch in enumerate(whole):
            assert torch.equal(torch.cat([batches[index].seeds for batches in ranks]), batch.seeds)
            assert all(batches[index].num_global_seeds == len(batch.seeds) for batches in ranks)


@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_peers_19_uneven_links_over_ranks(world_size):
    """Shares of a batch differ by one link at most, and every rank has as many batches, if of none."""
    pairs = torch.stack([torch.arange(47), torch.arange(47) + 50], 1)
    plan = hr.ItemSampler(pairs, batch_size=10, shuffle=True, seed=1)
    plan = plan.sample_uniform_negative(graph(), 1).sample_neighbor(graph(), [2])
    ranks = [list(plan.loader(rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert {len(batches) for batches in ranks} == {5}
    links = [[batch.seeds[: batch.num_positives] for batch in batches] for batches in ranks]
    for shares in zip(*links, strict=True):
        counts = [len(share) for share in shares]
        assert max(counts) - min(counts) <= 1
    assert sorted(torch.cat([one for batches in links for one in batches]).tolist()) == pairs.tolist()


def test_an_empty_share_is_a_batch_like_any_other():
    plan = (
        hr.ItemSampler(3, batch_size=2).sample_neighbor(graph(), [2, 2]).fetch_feature(store(), node=["x"], labels="y")
    )
    last = list(plan.loader(rank=0, world_size=2))[-1]
    assert last.seeds.numel() == 0
    assert [block.num_dst for block in last.blocks] == [0, 0]
    assert last.x.shape == (0, 8)
    assert last.y.shape == (0,)


def test_a_rank_samples_what_one_process_samples():
    plan = PLANS["neighbor"]()
    whole = next(iter(plan.loader()))
    edges = set(whole.e_id.tolist())
    shares = [next(iter(plan.loader(rank=rank, world_size=3))) for rank in range(3)]
    assert {edge for share in shares for edge in share.blocks[-1].edge_ids.tolist()} == set(
        whole.blocks[-1].edge_ids.tolist()
    )
    assert {edge for share in shares for edge in share.e_id.tolist()} == edges


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"rank": 1}, "together"),
        ({"rank": 2, "world_size": 2}, "rank to be"),
        ({"num_threads": 0}, "num_threads"),
        (
            {"fuse": False},
            "fuse_sampling, split_sample, graph_cache, feature_cache, uva_gather, lookahead, prefetch, stream_overlap",
        ),
        (
            {"expand_macros": False},
            "fuse_sampling, split_sample, graph_cache, feature_cache, uva_gather, lookahead, prefetch, stream_overlap",
        ),
    ],
)
def test_bad_arguments(arguments, match):
    with pytest.raises(hr.HeadraceError, match=match):
        items().loader(**arguments)


def test_many_epochs_do_not_grow():
    loader = PLANS["neighbor"]().loader()
    for epoch in range(5):
        assert loader.epoch == epoch
        digests(loader, epoch + 1)


@pytest.mark.parametrize("cooperative", [True, False])
def test_what_is_no_partition_is_refused_on_one_process_too(cooperative):
    plan = hr.ItemSampler(4, seed=0).sample_neighbor(graph(), [2])
    with pytest.raises(hr.HeadraceError, match=r"expected an hr\.Partition or an hr\.EdgePartition, .* got str"):
        plan.loader(partition="metis", cooperative=cooperative)
