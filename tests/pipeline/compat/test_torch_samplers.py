"""Samplers of torch say the order: their own epochs, none that says its length, uneven shares of ranks."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch.utils.data import DistributedSampler

from headrace.pyg import LinkNeighborLoader, NeighborLoader


def share(rank=0, ranks=1, size=120):
    return DistributedSampler(range(size), num_replicas=ranks, rank=rank)


def loader_of(data, sampler, **options):
    return NeighborLoader(data, [2], batch_size=20, sampler=sampler, seed=3, **options)


def seeds(batches):
    return torch.cat([batch.input_id for batch in batches]).tolist()


def order(epoch):
    sampler = share()
    sampler.set_epoch(epoch)
    return list(sampler)


def test_an_epoch_that_the_user_tells_the_sampler_counts(data):
    """As with torch: told before the loader is made, ahead of each iteration, twice the same, and back to 0."""
    sampler = share()
    sampler.set_epoch(7)
    loader = loader_of(data, sampler)
    for epoch in (7, 8, 8, 3, 0):
        sampler.set_epoch(epoch)
        assert seeds(loader) == order(epoch)
        assert sampler.epoch == epoch


def test_without_the_user_every_iteration_is_the_next_epoch(data):
    sampler = share()
    loader = loader_of(data, sampler)
    assert [seeds(loader) for _ in range(3)] == [order(epoch) for epoch in range(3)]
    assert sampler.epoch == 0, "as it came, for other loaders"
    loader.set_epoch(9)
    assert seeds(loader) == order(9)


@pytest.mark.parametrize("told", [None, 7])
@pytest.mark.parametrize("behind", [0, 2, 6])
def test_resume_goes_on_with_the_epoch_of_the_sampler(data, told, behind):
    sampler = share()
    loader = loader_of(data, sampler, num_workers=1)
    if told is not None:
        sampler.set_epoch(told)
    iteration = iter(loader)
    first = [next(iteration).input_id for _ in range(behind)]
    state = pickle.loads(pickle.dumps(loader.state_dict()))  # noqa: S301 - just written
    fresh = share()
    resumed = loader_of(data, fresh)
    if told is not None and behind in (0, 6):  # between epochs a script tells it as it did
        fresh.set_epoch(told + behind // 6)
    resumed.load_state_dict(state)
    rest = [batch.input_id for batch in resumed]
    if behind == 6:
        assert torch.cat(rest).tolist() == order(1 if told is None else 8)
    else:
        assert torch.cat([*first, *rest]).tolist() == order(told or 0)


class Evens:
    """A sampler that does not say how many positions it has."""

    def __iter__(self):
        return iter(range(0, 120, 2))


class Batches:
    def __iter__(self):
        return iter([[0, 1, 2], [5], [7, 9]])


def test_samplers_need_no_length(data):
    loader = loader_of(data, Evens())
    for _ in range(2):
        assert seeds(loader) == list(range(0, 120, 2))
    with pytest.raises(TypeError, match="len"):
        len(loader)
    by_batch = NeighborLoader(data, [2], batch_sampler=Batches())
    assert [batch.input_id.tolist() for batch in by_batch] == [[0, 1, 2], [5], [7, 9]]
    nothing = torch.empty(0, dtype=torch.int64)
    assert list(NeighborLoader(data, [2], nothing, batch_sampler=Batches())) == []


@pytest.mark.parametrize("drop_last", [False, True])
def test_peers_19_uneven_links_over_ranks(data, drop_last):
    """A DistributedSampler fills up or leaves out links, so every rank has the same number of batches."""
    links = data.edge_index[:, :47]
    found = []
    for rank in range(3):
        sampler = DistributedSampler(range(47), num_replicas=3, rank=rank, shuffle=False, drop_last=drop_last)
        found.append(list(LinkNeighborLoader(data, [2], links, sampler=sampler, batch_size=5, seed=1)))
    assert {len(batches) for batches in found} == {3 if drop_last else 4}
    assert {tuple(len(batch.input_id) for batch in batches) for batches in found} == {
        (5, 5, 5) if drop_last else (5, 5, 5, 1)
    }
    every = [item for batches in found for item in seeds(batches)]
    assert set(every) == set(range(45 if drop_last else 47))
    assert len(every) == (45 if drop_last else 48)
