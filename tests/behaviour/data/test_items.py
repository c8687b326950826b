"""Item sets: everything that can be an item, and everything that cannot."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ranks import cooperative_batches
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

import headrace as hr

from plans import NUM_NODES, graph, store


def fingerprint_of(plan: hr.Plan) -> object:
    """What a checkpoint keeps of a plan, to refuse another one."""
    return plan.loader().state_dict()["plan"]


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


IDS, LABELS = torch.tensor([7, 3, 5, 3]), torch.tensor([0, 2, 1, 9])


class Samples(Dataset):
    """A map-style data set of whatever a function makes of a position."""

    def __init__(self, sample, length=4):
        self.sample, self.length = sample, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.sample(index)


@pytest.mark.parametrize(
    "items",
    [
        (IDS, LABELS),
        [IDS, LABELS],
        [IDS.numpy(), LABELS],
        ([7, 3, 5, 3], [0, 2, 1, 9]),
        TensorDataset(IDS, LABELS),
        Subset(TensorDataset(IDS.repeat(2), LABELS.repeat(2)), range(4)),
        Subset(Subset(TensorDataset(IDS.flip(0), LABELS.flip(0)), [3, 2, 1, 0]), torch.arange(4)),
        Samples(lambda index: (int(IDS[index]), int(LABELS[index]))),
        Samples(lambda index: [IDS[index], LABELS[index]]),
        ConcatDataset([TensorDataset(IDS[:1], LABELS[:1]), TensorDataset(IDS[1:], LABELS[1:])]),
    ],
)
def test_ids_with_labels_are_no_pairs(items):
    batch = first(items)
    assert torch.equal(batch.seeds, IDS)
    assert torch.equal(batch.y, LABELS)
    assert fingerprint_of(hr.ItemSampler(items, seed=0)) == fingerprint_of(hr.ItemSampler((IDS, LABELS), seed=0))


@pytest.mark.parametrize("of", [tuple, lambda both: TensorDataset(*both)])
def test_two_ids_with_labels_are_no_two_pairs(of):
    batch = first(of([IDS[:2], LABELS[:2]]))
    assert torch.equal(batch.seeds, IDS[:2])
    assert torch.equal(batch.y, LABELS[:2])


@pytest.mark.parametrize(
    "items",
    [TensorDataset(IDS), Samples(lambda index: int(IDS[index])), Subset(TensorDataset(IDS), range(4)), list(IDS)],
)
def test_ids_without_labels(items):
    batch = first(items)
    assert torch.equal(batch.seeds, IDS)
    assert batch.y is None


PAIRS = torch.tensor([[5, 6], [7, 8], [6, 5]])


@pytest.mark.parametrize(
    "items", [PAIRS, PAIRS.numpy(), TensorDataset(PAIRS), Samples(lambda index: PAIRS[index], length=3)]
)
def test_pairs_come_with_labels_or_without(items):
    assert torch.equal(first(items).seeds, PAIRS)
    if isinstance(items, (torch.Tensor, np.ndarray)):
        batch = first((items, LABELS[:3]))
        assert torch.equal(batch.seeds, PAIRS)
        assert torch.equal(batch.y, LABELS[:3])
    batch = first(TensorDataset(PAIRS, LABELS[:3]))
    assert torch.equal(batch.seeds, PAIRS)
    assert torch.equal(batch.y, LABELS[:3])


@pytest.mark.parametrize(
    "items",
    [
        [(7, 0), (3, 2), (5, 1)],
        [[7, 0], [3, 2]],
        list(zip(IDS, LABELS, strict=True)),
        [IDS, LABELS, LABELS],
        list(PAIRS),
        list(PAIRS[:2]),
        ([(7, 0), (3, 2)], LABELS[:2]),
        TensorDataset(IDS, IDS, LABELS),
        Samples(lambda index: (index, index, 0)),
        Samples(lambda index: {"id": index}),
        Samples(lambda index: (index, object())),
    ],
)
def test_what_may_be_either_is_refused_with_both_spellings(items):
    with pytest.raises(hr.InputError, match=r"a tuple \(ids, labels\), and pairs .* tensor of shape \[num_pairs, 2\]"):
        hr.ItemSampler(items)


def test_labels_count_in_the_fingerprint():
    plans = [
        hr.ItemSampler(items, seed=0)
        for items in (IDS, (IDS, LABELS), (IDS, LABELS + 1), (IDS, LABELS.float()), (PAIRS, IDS[:3]))
    ]
    assert len({str(fingerprint_of(plan)) for plan in plans}) == len(plans)
    assert plans[1] != plans[2]
    assert plans[1] == hr.ItemSampler(TensorDataset(IDS, LABELS), seed=0)


@pytest.mark.parametrize("by_owner", [False, True])
def test_ranks_share_labels_as_they_share_items(by_owner):
    ids = torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(0))[:50]
    owners = hr.Partition.hash(NUM_NODES, 3) if by_owner else None
    options = {"batch_size": 12, "shuffle": True, "seed": 3}
    whole = list(hr.ItemSampler((ids, ids * 2), **options).loader())
    plan = hr.ItemSampler((ids, ids * 2), **options, partition=owners).sample_neighbor(graph(), [3, 2])
    alone = [list(plan.loader(rank=rank, world_size=3)) for rank in range(3)]
    for shares in (alone, cooperative_batches(plan, 3)):
        for batch, *parts in zip(whole, *shares, strict=True):
            assert all(torch.equal(part.y, part.seeds * 2) for part in parts)
            assert torch.equal(torch.cat([part.y for part in parts]).sort().values, batch.y.sort().values)
        assert sum(len(part.y) for share in shares for part in share) == 50


def test_labels_of_items_and_of_a_feature_are_refused():
    labelled = hr.ItemSampler((IDS, LABELS), seed=0)
    with pytest.raises(hr.PlanError, match="labels='y' would replace labels that the batch has already"):
        labelled.sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"], labels="y").loader()
    batch = next(iter(labelled.sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"]).loader()))
    assert torch.equal(batch.y, LABELS)

    def keep(batch):
        return batch.replace(y=batch.seeds)

    with pytest.raises(hr.PlanError, match="or of a stage before"):
        next(iter(hr.ItemSampler(IDS, seed=0).transform(keep).fetch_feature(store(), labels="y").loader()))


@pytest.mark.parametrize("length", [NUM_NODES - 1, NUM_NODES + 1])
@pytest.mark.parametrize("of", [torch.Tensor.bool, torch.Tensor.numpy, torch.Tensor.tolist, TensorDataset])
def test_a_mask_is_as_long_as_the_graph(length, of):
    mask = torch.arange(length) < 5
    with pytest.raises(hr.InputError, match=f"a mask of items for the graph's 200 nodes, got one of {length}"):
        hr.ItemSampler(of(mask)).sample_neighbor(graph(), [2]).loader()
    with pytest.raises(hr.InputError, match=f"expected a mask for the partition's 200 nodes, got one of {length}"):
        hr.ItemSampler(of(mask), partition=hr.Partition.hash(NUM_NODES, 2))


def test_a_mask_is_the_ids_where_it_is_true():
    mask = torch.arange(NUM_NODES) % 7 == 3
    ids = mask.nonzero().squeeze(1)
    assert hr.ItemSampler(mask, seed=0) == hr.ItemSampler(ids, seed=0)
    batch = next(iter(hr.ItemSampler((mask, ids * 2)).sample_neighbor(graph(), [2]).loader()))
    assert torch.equal(batch.seeds, ids)
    assert torch.equal(batch.y, ids * 2)
    with pytest.raises(hr.InputError, match=r"got shape \[200\]; pass labels\[mask\]"):
        hr.ItemSampler((mask, torch.arange(NUM_NODES)))


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


def test_drop_last_that_drops_everything():
    with pytest.raises(hr.InputError, match="drop_last leaves no batch"):
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


def test_pairs_cannot_be_shared_by_owner():
    with pytest.raises(hr.InputError, match="two owners"):
        hr.ItemSampler(torch.zeros(4, 2, dtype=torch.int64), partition=hr.Partition.hash(5, 2))


NUMBERS = [np.int64(3), np.int8(3), np.array(3), torch.tensor(3), torch.tensor(3, dtype=torch.int32)]


@pytest.mark.parametrize("number", NUMBERS, ids=[f"{type(one).__name__}_{one.dtype}" for one in NUMBERS])
def test_a_number_of_items_is_any_whole_number(number):
    assert hr.ItemSampler(number, seed=0) == hr.ItemSampler(3, seed=0)
    assert len(hr.ItemSampler({"paper": number}).items) == 3
    assert hr.ItemSampler(10, batch_size=number, seed=0) == hr.ItemSampler(10, batch_size=3, seed=0)
    one = hr.Graph.from_coo([0], [1], num_nodes=number, edge_attrs={"t": [1]})
    assert one.num_nodes == 3
    assert hr.Graph.from_coo([0], [1], node_types={"a": number, "b": number}).num_nodes == 6
    plan = hr.ItemSampler([0], time=[1])
    assert plan.sample_neighbor(one, [number], time="t", window=number).stages[1].window == 3
    pairs = hr.ItemSampler(torch.tensor([[0, 1]]), seed=0)
    assert pairs.sample_uniform_negative(one, number) == pairs.sample_uniform_negative(one, 3)


class Computed(hr.FeatureSource):
    """A mask that is no array."""

    dtype, shape = torch.bool, (9,)

    def read(self, ids, *, num_threads=1, to=None):
        return hr.Rows(ids % 4 == 1, {})

    def content_digest(self):
        return "computed"


def test_masks_are_taken_from_features(tmp_path):
    mask = torch.arange(9) % 4 == 1
    np.save(tmp_path / "mask.npy", mask.numpy())
    for given in (
        mask,
        np.load(tmp_path / "mask.npy", mmap_mode="r"),
        Computed(),
        hr.DiskFeature(tmp_path / "mask.npy"),
    ):
        store = hr.FeatureStore(node={"mask": given, "paper": {"mask": given}})
        assert hr.ItemSampler(store.node["mask"], seed=0).items.all_ids().tolist() == [1, 5]
        by_type = hr.ItemSampler({"paper": store.node["paper", "mask"]}, seed=0).items
        assert by_type.all_ids().tolist() == [1, 5]
        with pytest.raises(hr.InputError, match="mask for the partition's 8 nodes, got one of 9"):
            hr.ItemSampler(store.node["mask"], partition=hr.Partition.hash(8, 2))
    graph = hr.Graph.from_coo([0], [1], num_nodes=9)
    sampler = hr.ItemSampler(hr.FeatureStore(node={"mask": mask}).node["mask"], seed=0)
    loader = sampler.sample_neighbor(graph, [1]).loader()
    assert [batch.seeds.tolist() for batch in loader] == [[1, 5]]
    mask[2] = True
    with pytest.raises(hr.InputError, match="mask of items"):
        list(loader)


def test_features_that_are_no_items_are_refused():
    store = hr.FeatureStore(node={"x": torch.rand(3), "y": torch.zeros(4, 2, 2, dtype=torch.int64)})
    for name in store.node:
        with pytest.raises(hr.InputError, match=r"integer ids or a boolean mask|shape"):
            hr.ItemSampler(store.node[name])
