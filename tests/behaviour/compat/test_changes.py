"""Attributes of a loader that are changed between epochs take effect in the next one, as with PyG's loaders."""

from __future__ import annotations

import copy
import pickle
from threading import current_thread

import pytest
import torch
from torch_geometric.sampler import NegativeSampling

import headrace as hr
from headrace.pyg import LinkNeighborLoader, NeighborLoader, Sampler, ShaDowKHopSampler


def made(data, num_neighbors=(2,), **options):
    return NeighborLoader(data, list(num_neighbors), **{"batch_size": 16, "shuffle": True, "seed": 8, **options})


def bits_of(batches):
    return [torch.cat([batch.n_id, batch.input_id, batch.e_id]).tolist() for batch in batches]


def marked(batch):
    batch.mark = batch.num_nodes
    return batch


@pytest.mark.parametrize("num_workers", [0, 2])
def test_numbers_of_neighbours(data, num_workers):
    """The epochs go on as of a loader that had them from the start; the same ones make no other loader."""
    few, all_of_them = made(data), made(data, [-1])
    wanted = [bits_of(few), bits_of(few)], [bits_of(all_of_them), bits_of(all_of_them)]
    loader = made(data, num_workers=num_workers)
    assert bits_of(loader) == wanted[0][0]
    runner = loader.runner
    loader.node_sampler.num_neighbors = [-1]
    assert bits_of(loader) == wanted[1][1]
    assert loader.runner is not runner
    runner = loader.runner
    loader.node_sampler.num_neighbors = [-1]
    bits_of(loader)
    assert loader.runner is runner


def test_threads_and_batches_ahead(data):
    """The batches stay; the plan of the next epoch has the threads."""
    loader = made(data)
    wanted = [bits_of(loader), bits_of(loader), bits_of(loader)]
    loader = made(data)
    assert bits_of(loader) == wanted[0]
    loader.num_workers = 3
    assert bits_of(loader) == wanted[1]
    assert "prefetch(3, " in loader.runner.explain()
    loader.prefetch_factor = 7
    assert bits_of(loader) == wanted[2]
    assert "prefetch(3, 21" in loader.runner.explain()


def test_other_parameters_of_the_sampler(data):
    loader = made(data, input_nodes=torch.arange(16), shuffle=False)
    (batch,) = loader
    for name, value, check in (
        ("disjoint", True, lambda new: "batch" in new),
        ("disjoint", False, lambda new: "batch" not in new),
        ("subgraph_type", "induced", lambda new: "num_sampled_edges" not in new),
        ("subgraph_type", "directional", lambda new: "num_sampled_edges" in new),
        ("replace", True, lambda new: max(torch.bincount(new.e_id)) > 1),
    ):
        setattr(loader.node_sampler, name, value)
        (new,) = loader
        assert check(new), name
    loader.node_sampler = Sampler(data, [-1])
    (new,) = loader
    assert new.num_edges > batch.num_edges


@pytest.mark.parametrize("num_workers", [0, 2])
def test_transforms(data, num_workers):
    loader = made(data, num_workers=num_workers)
    first = bits_of(loader)
    loader.transform = marked
    second = list(loader)
    assert all(batch.mark == batch.num_nodes for batch in second)
    loader.transform = None
    assert not any("mark" in batch for batch in loader)

    def renamed(out):
        out.metadata = (out.metadata[0] + 1000, *out.metadata[1:])
        return out

    loader.transform_sampler_output = renamed
    assert all((batch.input_id >= 1000).all() for batch in loader)
    plain = made(data)
    assert [first, bits_of(second)] == [bits_of(plain), bits_of(plain)], "epochs follow each other"


def test_methods_that_are_set_again_are_no_change(data):
    class Transform:
        def __call__(self, batch):
            return marked(batch)

        def other(self, batch):
            return batch

    one = Transform()
    loader = made(data, transform=one.other)
    runner = loader.runner
    loader.transform = one.other
    assert "mark" not in next(iter(loader))
    assert loader.runner is runner
    loader.transform = one
    assert "mark" in next(iter(loader))


def test_ego_nets(data):
    loader = ShaDowKHopSampler(data, 1, 2, batch_size=120)
    (near,) = loader
    loader.depth, loader.num_neighbors = 2, -1
    (far,) = loader
    assert far.num_nodes > near.num_nodes


def test_where_attributes_are_joined(data):
    """By workers, and transforms in the training loop, as threads share the generators that they may draw from."""
    threads = []

    def noted(batch):
        threads.append(current_thread().name)
        return batch

    loader = made(data, num_workers=1, transform=noted)
    for filter_per_worker in (True, False):
        loader.filter_per_worker = filter_per_worker
        explained = loader.plan.names
        joined_ahead = explained.index("join_attributes") < explained.index("prefetch")
        assert joined_ahead == filter_per_worker
        list(loader)
        assert set(threads) == {current_thread().name}


def test_negatives_and_exclusion(undirected):
    loader = LinkNeighborLoader(undirected, [-1], batch_size=50, seed=1)
    assert all("edge_label" not in batch for batch in loader)
    loader.neg_sampling = NegativeSampling("binary", 1)
    assert next(iter(loader)).edge_label_index.shape == (2, 100)
    loader.neg_sampling.amount = 2
    assert next(iter(loader)).edge_label_index.shape == (2, 150)
    loader.exclude_seed_edges = True
    batch = next(iter(loader))
    links, edges = batch.n_id[batch.edge_label_index[:, :50]], batch.n_id[batch.edge_index]
    assert not set(map(tuple, links.t().tolist())) & set(map(tuple, edges.t().tolist()))


def test_the_place_is_kept(data):
    """After an epoch that was left, behind a batch whose state was loaded, and at an epoch that was set."""
    plain = made(data, transform=marked)
    epochs = [bits_of(plain) for _ in range(4)]
    loader = made(data)
    next(iter(loader))
    loader.transform = marked
    iteration = iter(loader)
    assert bits_of([next(iteration), next(iteration)]) == epochs[1][:2]
    state = loader.state_dict()

    resumed = made(data)
    resumed.load_state_dict(state)
    resumed.transform = marked
    rest = list(resumed)
    assert bits_of(rest) == epochs[1][2:]
    assert "mark" in rest[0]
    assert bits_of(resumed) == epochs[2]

    resumed = made(data)
    resumed.set_epoch(3)
    resumed.transform = marked
    assert bits_of(resumed) == epochs[3]


def test_states_of_the_settings_as_they_are(data):
    loader, other = made(data), made(data, [-1])
    iteration = iter(other)
    next(iteration)
    with pytest.raises(hr.StateError, match="sample_neighbor differs"):
        loader.load_state_dict(other.state_dict())
    loader.node_sampler.num_neighbors = [-1]
    loader.load_state_dict(other.state_dict())
    assert bits_of(loader) == bits_of(iteration)


def test_what_is_running_stays_as_it_is(data):
    loader = made(data)
    iteration = iter(loader)
    first = next(iteration)
    loader.node_sampler.num_neighbors = [-1]
    assert loader.state_dict()["source"]["batch"] == 1
    assert bits_of([first, *iteration]) == bits_of(made(data))


def test_settings_that_are_none(data):
    """They are refused by name, and the loader goes on where they are mended."""
    loader = made(data)
    loader.node_sampler.num_neighbors = ["two"]
    with pytest.raises(hr.InputError):
        iter(loader)
    loader.node_sampler.num_neighbors = [2]
    assert bits_of(loader) == bits_of(made(data))


def test_copies_of_a_loader_with_changes(data):
    loader = made(data, [2])
    loader.transform = marked
    for twin in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):  # noqa: S301 - just written
        assert "mark" in next(iter(twin))
