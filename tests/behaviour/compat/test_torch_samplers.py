"""Samplers of torch say the order: their own epochs, none that says its length, uneven shares of ranks."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch.utils.data import DistributedSampler
from torch_geometric.sampler import NodeSamplerInput

import headrace as hr
from headrace.pyg import (
    ClusterData,
    ClusterLoader,
    GraphSAINTEdgeSampler,
    GraphSAINTRandomWalkSampler,
    LinkNeighborLoader,
    NeighborLoader,
    Sampler,
    ShaDowKHopSampler,
)


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


def clusters(data, **options):
    return ClusterLoader(ClusterData(data, 6, log=False), seed=3, **options)


def test_clusters_come_as_a_sampler_says(data):
    of_cluster = [batch.x[:, 0].tolist() for batch in clusters(data)]
    named = [batch.x[:, 0].tolist() for batch in clusters(data, sampler=[4, 1, 5], batch_size=2)]
    assert named == [of_cluster[4] + of_cluster[1], of_cluster[5]]
    named = [batch.x[:, 0].tolist() for batch in clusters(data, batch_sampler=[[2], [0, 0, 3]])]
    assert named == [of_cluster[2], of_cluster[0] + of_cluster[3]]


def test_ranks_share_clusters(data):
    shares = [clusters(data, sampler=share(rank, 2, 6), batch_size=2) for rank in (0, 1)]
    for _ in range(2):
        seen = [value for loader in shares for batch in loader for value in batch.x[:, 0].tolist()]
        assert sorted(seen) == data.x[:, 0].tolist()


def test_clusters_resume_in_the_order_of_a_sampler(data):
    loader = clusters(data, sampler=share(size=6))
    next(iteration := iter(loader))
    state = loader.state_dict()
    rest = [batch.x for batch in iteration]
    again = clusters(data, sampler=share(size=6))
    again.load_state_dict(state)
    assert all(torch.equal(*pair) for pair in zip(rest, (batch.x for batch in again), strict=True))


def test_clusters_that_there_are_not_are_refused(data):
    with pytest.raises(ValueError, match=r"name clusters in \[0, 6\), got \[6\]"):
        list(clusters(data, sampler=[0, 6]))


def walks(data, **options):
    return GraphSAINTRandomWalkSampler(data, 10, 2, num_steps=6, seed=3, **options)


def edges(data, **options):
    return GraphSAINTEdgeSampler(data, 10, num_steps=6, seed=3, **options)


@pytest.mark.parametrize("made", [walks, edges])
def test_ranks_share_the_steps_of_an_epoch(data, made):
    whole = made(data)
    shares = [made(data, sampler=DistributedSampler(range(6), 2, rank, shuffle=False)) for rank in (0, 1)]
    assert [len(loader) for loader in shares] == [3, 3]
    for _ in range(2):
        expected = [batch.x[:, 0].tolist() for batch in whole]
        assert expected[::2] == [batch.x[:, 0].tolist() for batch in shares[0]]
        assert expected[1::2] == [batch.x[:, 0].tolist() for batch in shares[1]]


def test_several_steps_in_a_batch_are_refused(data):
    with pytest.raises(ValueError, match="one of 6 steps for each batch"):
        list(edges(data, batch_sampler=[[0, 1]]))


def test_ego_nets_come_as_a_sampler_says(data):
    loader = ShaDowKHopSampler(data, 1, 2, node_idx=torch.arange(30, 60), sampler=[3, 0, 7], batch_size=2)
    assert [batch.x[batch.root_n_id, 0].tolist() for batch in loader] == [[99.0, 90.0], [111.0]]


@pytest.mark.parametrize("named", [[0.5, 1.9], [2**63 + 5, 1], [2**64 - 7], [200], [-121]])
def test_positions_that_are_none_are_refused(data, named):
    with pytest.raises(hr.InputError, match="sampler"):
        list(NeighborLoader(data, [2], batch_sampler=[named]))


def test_later_seeds_are_ids_as_the_first_ones_are(data):
    """A sampler keeps the function of its first call: the next one may have another dtype."""
    sampler = Sampler(data, [2])
    sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0, 1])))
    for seeds in (torch.tensor([0.5, 1.9]), torch.tensor([True, False]), torch.tensor([1 + 0j])):
        with pytest.raises(hr.HeadraceError):
            sampler.sample_from_nodes(NodeSamplerInput(None, seeds))
