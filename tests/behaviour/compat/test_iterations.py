"""Iterations of one loader that run at the same time have each their own batches, as with PyG."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch.utils.data import RandomSampler
from torch_geometric.loader import ClusterLoader as PygClusterLoader

from headrace.pyg import (
    ClusterData,
    ClusterLoader,
    GraphSAINTNodeSampler,
    LinkNeighborLoader,
    NeighborLoader,
    ShaDowKHopSampler,
)

LOADERS = {
    "nodes": lambda data, **kwargs: NeighborLoader(data, [3, 2], batch_size=30, shuffle=True, **kwargs),
    "a sampler": lambda data, **kwargs: NeighborLoader(
        data, [3, 2], batch_size=30, sampler=RandomSampler(range(data.num_nodes)), **kwargs
    ),
    "links": lambda data, **kwargs: LinkNeighborLoader(data, [3], batch_size=100, shuffle=True, **kwargs),
    "shadow": lambda data, **kwargs: ShaDowKHopSampler(data, 2, 3, batch_size=30, shuffle=True, **kwargs),
    "saint": lambda data, **kwargs: GraphSAINTNodeSampler(data, 30, num_steps=5, **kwargs),
    "clusters": lambda data, **kwargs: ClusterLoader(ClusterData(data, 8, log=False), shuffle=True, **kwargs),
}

each_loader = pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS)
with_workers = pytest.mark.parametrize("num_workers", [0, 2])


def rows_of(batches):
    """Return what is seen of batches: rows of attributes tell which nodes and edges they have."""
    return [(batch.x, batch.edge_index) for batch in batches]


def epochs_of(loader, number):
    return [rows_of(loader) for _ in range(number)]


@pytest.mark.slow
@each_loader
@with_workers
def test_iterations_side_by_side_are_epochs_that_follow(data, make, num_workers):
    wanted = epochs_of(make(data, seed=3, num_workers=num_workers), 3)
    loader = make(data, seed=3, num_workers=num_workers)
    one, other = zip(*zip(loader, loader, strict=True), strict=True)
    torch.testing.assert_close([rows_of(one), rows_of(other), rows_of(loader)], wanted)


@pytest.mark.slow
@each_loader
@with_workers
def test_an_iteration_in_the_middle_of_another(data, make, num_workers):
    wanted = epochs_of(make(data, seed=3, num_workers=num_workers), 3)
    loader = make(data, seed=3, num_workers=num_workers)
    outer = iter(loader)
    first = [next(outer), next(outer)]
    inner = rows_of(loader)
    torch.testing.assert_close(inner, wanted[1])
    torch.testing.assert_close(rows_of([*first, *outer]), wanted[0])
    torch.testing.assert_close(rows_of(loader), wanted[2])


@with_workers
def test_as_many_batches_as_with_pyg(data, num_workers):
    clusters = ClusterData(data, 8, log=False)
    for kind in (PygClusterLoader, ClusterLoader):
        loader = kind(clusters, batch_size=3, num_workers=num_workers)
        nested = [(one.num_nodes, other.num_nodes) for one in loader for other in loader]
        sizes = [one.num_nodes for one in kind(clusters, batch_size=3)]
        assert nested == [(one, other) for one in sizes for other in sizes]


def test_a_changed_transform_counts_from_then_on_in_all_iterations(data):
    """As with PyG, whose loader looks up its transform for each batch."""
    loader = NeighborLoader(data, [2], batch_size=30, transform=lambda batch: "first")
    outer = iter(loader)
    assert next(outer) == "first"
    loader.transform = lambda batch: "second"
    assert set(loader) == {"second"}
    assert set(outer) == {"second"}


def test_an_iteration_that_was_left_is_not_beside_the_next_one(data):
    loader = NeighborLoader(data, [2], batch_size=30)
    runner = loader.runner
    for _ in loader:
        break
    assert len(list(loader)) == 4
    assert loader.runner is runner


def test_state_is_of_the_iteration_that_began_last(data):
    wanted = epochs_of(NeighborLoader(data, [2], batch_size=30, shuffle=True, seed=3), 2)
    loader = NeighborLoader(data, [2], batch_size=30, shuffle=True, seed=3)
    outer = iter(loader)
    next(outer)
    inner = iter(loader)
    next(inner)
    state = loader.state_dict()
    list(outer)
    assert loader.state_dict() == state
    resumed = NeighborLoader(data, [2], batch_size=30, shuffle=True, seed=3)
    resumed.load_state_dict(state)
    torch.testing.assert_close(rows_of(resumed), wanted[1][1:])


def test_what_ran_beside_goes_with_its_iterator(data):
    loader = NeighborLoader(data, [2], batch_size=30, num_workers=2)
    outer = iter(loader)
    next(outer)
    old = weakref.ref(loader.runner)
    list(loader)
    gc.collect()
    assert old() is not None
    del outer
    gc.collect()
    assert old() is None
