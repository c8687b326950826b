"""What can be seen from outside happens when a batch is due, as with PyG; sampling alone runs ahead."""

from __future__ import annotations

import random
import time
from threading import current_thread

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import BaseSampler, SamplerOutput
from torch_geometric.testing import MyFeatureStore

from headrace.pyg import (
    ClusterData,
    ClusterLoader,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    LinkNeighborLoader,
    NeighborLoader,
    ShaDowKHopSampler,
)


@pytest.fixture(autouse=True)
def _reads_ahead(monkeypatch):
    """Let threads work ahead from the fourth batch on, whatever the machine has to do."""
    monkeypatch.setattr("headrace.pipeline.run.prefetch_node.LEAST_GAIN", -1.0)


LOADERS = {
    "nodes": lambda data, **options: NeighborLoader(data, [2], batch_size=8, **options),
    "links": lambda data, **options: LinkNeighborLoader(data, [2], batch_size=60, **options),
    "shadow": lambda data, **options: ShaDowKHopSampler(data, 1, 2, batch_size=8, **options),
    "saint": lambda data, **options: GraphSAINTNodeSampler(data, 20, num_steps=12, **options),
    "walks": lambda data, **options: GraphSAINTRandomWalkSampler(data, 9, 2, num_steps=12, **options),
    "clusters": lambda data, **options: ClusterLoader(ClusterData(data, 12, log=False), **options),
}


def in_place(data, value):
    data.history.fill_(value)


def another_tensor(data, value):
    data.history = torch.full_like(data.history, value)


def unseen_by_torch(data, value):
    data.history.data.fill_(value)


def through_numpy(data, value):
    data.history.numpy()[:] = value


@pytest.mark.parametrize("write", [in_place, another_tensor, unseen_by_torch, through_numpy])
@pytest.mark.parametrize("kind", LOADERS)
def test_batches_have_what_the_loop_wrote(data, kind, write):
    data.history = torch.zeros(data.num_nodes)
    loader = LOADERS[kind](data)
    written = loader.sliced
    batches = 0
    for number, batch in enumerate(loader):
        assert (batch.history == number).all(), number
        write(written, number + 1)
        batches += 1
        time.sleep(1e-3)
    assert batches > 8


def test_arrays_and_attributes_that_come_later(data):
    data.history = np.zeros(data.num_nodes)
    for number, batch in enumerate(LOADERS["nodes"](data)):
        assert (batch.history == number).all()
        assert number == 0 or (batch.late == number).all()
        data.history[:] = number + 1
        data.late = torch.full((data.num_nodes,), number + 1)
        time.sleep(1e-3)


def test_rows_of_types(hetero):
    hetero["author"].history = torch.zeros(40)
    loader = NeighborLoader(hetero, [2], input_nodes="paper", batch_size=4)
    for number, batch in enumerate(loader):
        assert (batch["author"].history == number).all()
        hetero["author"].history.fill_(number + 1)
        time.sleep(1e-3)


def test_labels_of_links(data):
    """Pseudo-labels: those that the loader was given are written to."""
    labels = torch.zeros(data.num_edges)
    for number, batch in enumerate(LOADERS["links"](data, edge_label=labels)):
        assert (batch.edge_label == number).all()
        labels.fill_(number + 1)
        time.sleep(1e-3)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", ["nodes", "clusters"])
def test_attributes_that_learn(data, kind, num_workers):
    data.x = torch.nn.Parameter(torch.zeros(data.num_nodes, 3)) if kind == "nodes" else data.x
    loader = LOADERS[kind](data, num_workers=num_workers)
    if kind == "clusters":
        loader.sliced.x = torch.nn.Parameter(torch.zeros_like(data.x))
    x = loader.sliced.x
    optimizer = torch.optim.SGD([x], lr=1.0)
    for number, batch in enumerate(loader):
        assert torch.equal(batch.x, x.detach()[batch.n_id] if kind == "nodes" else torch.full_like(batch.x, number))
        optimizer.zero_grad()
        (-x.sum() + 0 * batch.x.sum()).backward()
        assert x.grad is not None
        optimizer.step()
        time.sleep(1e-3)
    assert (x == number + 1).all()


def test_an_attribute_that_learns_from_the_next_epoch_on(data):
    loader = LOADERS["nodes"](data, num_workers=2)
    assert not any(batch.x.requires_grad for batch in loader)
    data.x.zero_().requires_grad_()
    for number, batch in enumerate(loader):
        assert (batch.x == number).all()  # as of the last step, though the epoch before was read ahead
        batch.x.sum().backward()
        assert torch.equal(data.x.grad.sum(1) > 0, torch.isin(torch.arange(120), batch.n_id))
        data.x.grad = None
        data.x.data.fill_(number + 1)
        time.sleep(1e-3)


class Threads(list):
    """Where something was called."""

    def note(self, value=None):
        self.append(current_thread().name)
        return value


def test_stores_and_functions_are_called_in_the_loop(typed_stores):
    threads = Threads()

    class Store(MyFeatureStore):
        def _get_tensor(self, attr):
            return super()._get_tensor(threads.note(attr))

    class Custom(HeteroData):
        def __init__(self):
            super().__init__()
            threads.note()

    old, graph = typed_stores
    store = Store()
    for attr in old.get_all_tensor_attrs():
        value = old.get_tensor(group_name=attr.group_name, attr_name=attr.attr_name, index=None)
        store.put_tensor(value, group_name=attr.group_name, attr_name=attr.attr_name, index=None)
    options = {"transform": threads.note, "transform_sampler_output": threads.note}
    loader = NeighborLoader((store, graph), [2], input_nodes="paper", batch_size=4, **options)
    loader.custom_cls = Custom
    for _ in loader:
        time.sleep(1e-3)
    assert len(threads) >= 4 * len(loader)
    assert set(threads) == {current_thread().name}


class Drawing(BaseSampler):
    """A sampler of the user that draws from torch's generator."""

    edge_permutation = None

    def __init__(self):
        self.threads = Threads()

    def sample_from_nodes(self, index, **_):
        self.threads.note()
        own = torch.randperm(len(index.node))
        return SamplerOutput(index.node, own, own, edge=None, metadata=(index.input_id, index.time))

    def sample_from_edges(self, index, neg_sampling=None):
        raise AssertionError


def test_samplers_of_the_user_draw_in_the_order_of_the_loop(data):
    def run():
        torch.manual_seed(0)
        seen = []
        for batch in LOADERS["nodes"](data, neighbor_sampler=sampler):
            time.sleep(1e-3)
            seen += [*batch.edge_index[0].tolist(), float(torch.rand(()))]
        return seen

    sampler = Drawing()
    assert run() == run()
    assert set(sampler.threads) == {current_thread().name}


def jitter(batch):
    batch.drawn = [float(torch.rand(())), random.random(), float(np.random.rand())]  # noqa: NPY002 - as users draw
    return batch


def renamed(out):
    out.node = out.node[torch.randperm(len(out.node))]
    return out


def drawn(data, num_workers, **options):
    """Return what batches hold, and what the loop draws meanwhile."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    batches, loop = [], []
    for batch in LOADERS["nodes"](data, num_workers=num_workers, seed=3, **options):
        batches.append((getattr(batch, "drawn", None), batch.n_id.tolist()))
        loop.append((float(torch.rand(())), random.random(), float(np.random.rand())))  # noqa: NPY002
    return batches, loop


@pytest.mark.parametrize(
    "options", [{"transform": jitter}, {"transform_sampler_output": renamed}], ids=["batch", "out"]
)
def test_random_transforms(data, options):
    """Runs are equal, workers do not count, each batch has its own draws, and the loop's are as without any."""
    alone = drawn(data, 0)[1]
    assert drawn(data, 0, **options) == drawn(data, 0, **options)
    one, two = drawn(data, 1, **options), drawn(data, 2, **options)
    assert one == two == drawn(data, 2, **options)
    assert one[1] == alone
    assert len({str(batch) for batch in one[0]}) == len(one[0])
    if "transform" in options:
        assert len({tuple(batch[0]) for batch in one[0]}) == len(one[0])


def test_each_epoch_draws_anew_and_resumes(data):
    loader = LOADERS["nodes"](data, num_workers=2, seed=3, transform=jitter)
    first, second = ([batch.drawn for batch in loader] for _ in range(2))
    assert not set(map(tuple, first)) & set(map(tuple, second))
    iteration = iter(LOADERS["nodes"](data, num_workers=2, seed=3, transform=jitter))
    assert [next(iteration).drawn for _ in range(4)] == first[:4]
    resumed = LOADERS["nodes"](data, num_workers=1, seed=3, transform=jitter)
    resumed.load_state_dict({**loader.state_dict(), "epoch": 0, "source": {"batch": 4}})
    assert [batch.drawn for batch in resumed] == first[4:]


def test_where_pyg_joins_in_the_loop_it_draws_from_the_loops_stream(data):
    here = drawn(data, 2, transform=jitter, filter_per_worker=False)
    assert here == drawn(data, 0, transform=jitter)


def test_attributes_are_still_joined_ahead_by_workers(data):
    threads = Threads()

    class Noted(Data):
        def __cat_dim__(self, key, value, *args, **kwargs):
            return super().__cat_dim__(threads.note(key), value, *args, **kwargs)

    noted = Noted(**data.to_dict())
    loader = LOADERS["nodes"](noted, num_workers=2)
    threads.clear()
    for _ in loader:
        pass
    assert current_thread().name not in threads
