"""Item sets: everything that can be an item, and everything that cannot."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr


def first(items, **options):
    return next(iter(hr.ItemSampler(items, **options).loader()))


@pytest.mark.parametrize(
    ("items", "seeds"),
    [
        (4, [0, 1, 2, 3]),
        (range(10, 2, -3), [10, 7, 4]),
        ([3, 1], [3, 1]),
        (np.array([3, 1], dtype=np.int32), [3, 1]),
        (torch.tensor([3, 1], dtype=torch.int16), [3, 1]),
        (torch.arange(10)[::3], [0, 3, 6, 9]),
        (torch.tensor([False, True, True]), [1, 2]),
        (torch.tensor([[5, 6], [7, 8]]), [[5, 6], [7, 8]]),
        (torch.tensor([[5, 7], [6, 8]]).T, [[5, 6], [7, 8]]),
    ],
)
def test_kinds_of_items(items, seeds):
    batch = first(items)
    assert batch.seeds.tolist() == seeds
    assert batch.seeds.dtype == torch.int64


def test_labels_follow_their_items():
    ids, labels = torch.arange(20) * 3, torch.arange(20) * 7.0
    loader = hr.ItemSampler((ids, labels), batch_size=6, shuffle=True).loader()
    for batch in loader:
        assert torch.equal(batch.y, batch.seeds / 3 * 7)
        assert torch.equal(ids[batch.item_index], batch.seeds)


def test_seeds_name_orders():
    orders = {tuple(first(100, batch_size=100, shuffle=True, seed=seed).seeds.tolist()) for seed in (0, 1, 2, 2**40)}
    assert len(orders) == 4


def test_repeated_seeds_share_a_row():
    batch = first([5, 2, 5, 9, 2])
    assert batch.n_id.tolist() == [5, 2, 9]
    assert batch.seed_index.tolist() == [0, 1, 0, 2, 1]
    assert batch.num_sampled_nodes == (3,)


def test_pairs_have_an_index_of_their_shape():
    batch = first(torch.tensor([[5, 2], [2, 9]]))
    assert batch.n_id.tolist() == [5, 2, 9]
    assert batch.seed_index.tolist() == [[0, 1], [1, 2]]


def test_a_memory_map_is_read_in_place(tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(100)[::-1])
    items = np.load(tmp_path / "ids.npy", mmap_mode="r")
    assert first(items, batch_size=3).seeds.tolist() == [99, 98, 97]


def test_billions_of_items_cost_no_memory():
    loader = hr.ItemSampler(5_000_000_000, batch_size=4, shuffle=True, seed=3).loader()
    assert len(loader) == 1_250_000_000
    loader.load_state_dict({**loader.state_dict(), "source": {"batch": 1_000_000_000}})
    seeds = next(iter(loader)).seeds
    assert len(set(seeds.tolist())) == 4
    assert int(seeds.min()) >= 0
    assert int(seeds.max()) < 5_000_000_000


def test_drop_last():
    assert len(hr.ItemSampler(10, batch_size=4).loader()) == 3
    assert [len(batch.seeds) for batch in hr.ItemSampler(10, batch_size=4, drop_last=True).loader()] == [4, 4]


@pytest.mark.parametrize(
    ("items", "match"),
    [
        (0, "at least one item"),
        ([], "at least one item"),
        (torch.zeros(5, dtype=torch.bool), "at least one item"),
        (-3, "negative"),
        ([3, -1], "negative"),
        (range(2, -2, -1), "negative"),
        (torch.tensor([0.5]), "integer"),
        (torch.tensor([0, 1], dtype=torch.uint8), "mask.bool"),
        (1 << 63, "2\\*\\*63"),
        ("abc", "items"),
        (None, "items"),
        (torch.zeros(2, 3, dtype=torch.int64), "shape"),
        (torch.zeros(2, 2, dtype=torch.bool), "mask"),
        (torch.tensor(3), "shape"),
        ((torch.arange(3), torch.arange(4)), "labels"),
        ((torch.arange(3), torch.arange(3), torch.arange(3)), "3 entries"),
        (torch.empty(3, dtype=torch.int64, device="meta"), "CPU"),
    ],
)
def test_bad_items(items, match):
    with pytest.raises(hr.ItemsError, match=match):
        hr.ItemSampler(items)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": -2}, "batch_size"),
        ({"batch_size": 2.0}, "batch_size"),
        ({"batch_size": 2, "batch_size_per_rank": 2}, "not both"),
        ({"batch_size_per_rank": 0}, "batch_size_per_rank"),
        ({"seed": -1}, "seed"),
        ({"shuffle": "no"}, "shuffle"),
        ({"seed": 1 << 64}, "seed"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(hr.ItemsError, match=match):
        hr.ItemSampler(5, **options)


def test_drop_last_that_drops_everything():
    with pytest.raises(hr.ItemsError, match="drop_last leaves no batch"):
        hr.ItemSampler(5, batch_size=6, drop_last=True).loader()


def test_batch_size_per_rank():
    plan = hr.ItemSampler(20, batch_size_per_rank=4)
    shares = [[batch.seeds.tolist() for batch in plan.loader(rank=rank, world_size=2)] for rank in range(2)]
    assert shares[0][0] == [0, 1, 2, 3]
    assert shares[1][0] == [4, 5, 6, 7]
    assert [len(share) for share in shares] == [3, 3]


def test_items_are_scanned_for_the_largest_once(monkeypatch):
    scans = []
    largest = torch.Tensor.max
    monkeypatch.setattr(torch.Tensor, "max", lambda self: scans.append(self) or largest(self))
    items = hr.ItemSampler([3, 9, 1]).items
    assert [items.largest_id, items.largest_id] == [9, 9]
    assert len(scans) == 1
    assert hr.ItemSampler(range(8, 2, -2)).items.largest_id == 8
