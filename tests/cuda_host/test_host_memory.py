"""Kernels read memory of the host where it is pinned, and nothing that the caller may drop before they have run."""

from __future__ import annotations

import pytest
import torch

import headrace as hr
from headrace import ops
from headrace.cuda.backend import stand_in

from cuda_host.host_memory import host_copy
from cuda_host.stand_in import StandIn
from gpu_plans import GPU, copied_first

NUM_NODES, NUM_EDGES = 200, 3_000


@pytest.fixture
def backend():
    """Let the CPU stand in for a GPU."""
    backend = StandIn()
    with stand_in(backend):
        yield backend


def pinned(backend, tensor):
    """Return a copy of a tensor in pinned memory of the host."""
    there = host_copy(tensor)
    backend.host.mark(there)
    backend.host.pin(there)
    return there


def column(backend, values):
    """Return values as a column of pinned pairs: a view that is not contiguous."""
    return pinned(backend, torch.stack([values, values], dim=1))[:, 0]


def csc():
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(NUM_NODES, (2, NUM_EDGES), generator=generator)
    found = ops.coo_to_csc(src, dst, NUM_NODES)
    return torch.as_tensor(found.indptr), torch.as_tensor(found.indices)


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other


def of_batches(ids, weights):
    """Calls of operations with arrays of a batch, or with weights of a graph, by what they are."""
    indptr, indices = csc()
    rows, sums = torch.arange(4.0 * NUM_NODES).view(-1, 4), torch.zeros(NUM_NODES, 4)
    rule, by_weight = ops.NeighborRule(3), {"weights": weights}
    return {
        "ids": lambda: ops.gather_rows(rows, ids),
        "places": lambda: ops.gather_rows(rows, torch.arange(len(ids)), out=sums.clone(), places=ids),
        "targets": lambda: ops.scatter_add_rows(sums.clone(), ids, torch.ones(len(ids), 4)),
        "seeds": lambda: ops.BlockSampler(indptr, indices, device=ids.device).sample(ids, [ops.NeighborRule(3)], [5])[
            0
        ],
        "frontier": lambda: tuple(ops.sample_hop(indptr, indices, ids, rule, 5))[:2],
        "seen": lambda: ops.compact(ids, ids).ids,
        "weights": lambda: tuple(ops.sample_hop(indptr, indices, torch.arange(9), rule, 5, **by_weight))[:2],
    }


CALLS = tuple(of_batches(torch.arange(3), torch.ones(NUM_EDGES)))


@pytest.mark.parametrize("call", CALLS)
def test_views_of_pinned_memory_are_copied(call, backend):
    ids, weights = torch.randperm(NUM_NODES)[:40], torch.rand(NUM_EDGES) + 0.1
    expected = of_batches(ids, weights)[call]()
    with backend.host.inherited():
        result = of_batches(column(backend, ids), column(backend, weights))[call]()
    assert equal(result, expected)


@pytest.mark.parametrize("call", [call for call in CALLS if call != "weights"])
def test_no_kernel_reads_pinned_memory_of_a_batch(call, backend, monkeypatch):
    """Who has passed it may drop it before the kernel runs, and torch gives it to others."""
    ids = pinned(backend, torch.randperm(NUM_NODES)[:40])
    launch = backend.launch

    def on_gpu_alone(file, name, num_items, block_size, words, arguments):
        assert not [one for one in arguments if isinstance(one, torch.Tensor) and backend.is_on_host(one)]
        launch(file, name, num_items, block_size, words, arguments)

    monkeypatch.setattr(backend, "launch", on_gpu_alone)
    of_batches(ids, None)[call]()


def test_memory_that_is_not_pinned_is_refused(backend):
    ids = host_copy(torch.arange(5))
    backend.host.mark(ids)
    with pytest.raises(hr.InputError, match=r"ids to be a 1-d tensor .* or in pinned memory"):
        ops.gather_rows(torch.zeros(9, 4), ids)


def graph_on_host(backend):
    """Return a graph with weights in memory of the host, for a GPU that has no room for it."""
    indptr, indices = csc()
    weights = torch.rand(NUM_EDGES, generator=torch.Generator().manual_seed(1)) + 0.1
    arrays = [host_copy(one) for one in (indptr, indices, weights)]
    backend.host.mark(*arrays)
    backend.free_memory = 0
    return hr.Graph.from_csc(arrays[0], arrays[1], edge_attrs={"weight": arrays[2]}), arrays


@pytest.mark.parametrize("fused", [True, False])
def test_arrays_that_torch_has_moved_are_pinned_anew(fused, backend):
    graph, arrays = graph_on_host(backend)
    plan = copied_first(hr.ItemSampler(50, batch_size=25, seed=3).sample_neighbor(graph, [3, 2], weight="weight"))
    with plan.loader(machine=GPU, fuse_sampling=fused) as loader:
        before = [batch.digest() for batch in loader]
        assert {one.data_ptr() for one in arrays} <= set(backend.host.runtime.pinned)
        for array in arrays:
            array.share_memory_()
        loader.set_epoch(0)
        assert [batch.digest() for batch in loader] == before
        assert {one.data_ptr() for one in arrays} <= set(backend.host.runtime.pinned)
