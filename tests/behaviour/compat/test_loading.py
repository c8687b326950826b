"""How the PyG loaders are iterated, resumed and made anew (peers.md, part A, section 5, 26 and 32)."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, SequentialSampler, SubsetRandomSampler
from torch_geometric.loader import ImbalancedSampler, LinkLoader, NodeLoader, PrefetchLoader
from torch_geometric.loader import NeighborLoader as TheirNeighborLoader
from torch_geometric.sampler import BaseSampler, SamplerOutput

import headrace as hr
import headrace.pyg
from headrace.pyg import LinkNeighborLoader, NeighborLoader, Sampler

NUM_EDGES = 700


def nodes_of(batches):
    return [batch.n_id.tolist() for batch in batches]


def made(data, **options):
    return NeighborLoader(data, [3, 2], **{"batch_size": 16, "shuffle": True, "seed": 8, **options})


def test_peers_26_imbalanced_sampler(data):
    data.y = (torch.arange(data.num_nodes) < 6).long()
    sampler = ImbalancedSampler(data)
    torch.manual_seed(0)
    batches = list(NeighborLoader(data, [2], batch_size=40, sampler=sampler))
    assert [batch.batch_size for batch in batches] == [40, 40, 40]
    rare = sum(int(batch.y[: batch.batch_size].sum()) for batch in batches)
    assert 40 < rare < 80
    for batch in batches:
        assert torch.equal(batch.n_id[: batch.batch_size], batch.input_id), "repeats keep their rows"


def test_peers_26_zipped_loaders(data):
    left, right = made(data), made(data, seed=9)
    both = list(zip(left, right, strict=True))
    assert nodes_of(one for one, _ in both) == nodes_of(made(data))
    assert nodes_of(one for _, one in both) == nodes_of(made(data, seed=9))


def test_peers_26_batches_of_different_sizes(data):
    positions = [[0, 1, 2], [5], [7, 9, 3, 4]]
    batches = list(NeighborLoader(data, [2], batch_sampler=positions))
    assert [batch.input_id.tolist() for batch in batches] == positions


def test_peers_26_prefetch_of_pyg(data):
    loader = made(data, shuffle=False)
    assert nodes_of(PrefetchLoader(loader, device="cpu")) == nodes_of(made(data, shuffle=False))


def test_nothing_to_go_through(data):
    empty = NeighborLoader(data, [2], input_nodes=torch.empty(0, dtype=torch.int64))
    assert len(empty) == 0
    assert list(empty) == []
    assert list(made(data, input_nodes=torch.arange(5), drop_last=True)) == []


def test_samplers_of_torch(data):
    subset = SubsetRandomSampler(range(0, 120, 2), generator=torch.Generator().manual_seed(1))
    states = torch.get_rng_state(), subset.generator.get_state()
    loader = NeighborLoader(data, [2], batch_size=20, sampler=subset, seed=3)
    first, second = list(loader), list(loader)
    for epoch in (first, second):
        assert sorted(torch.cat([batch.input_id for batch in epoch]).tolist()) == list(range(0, 120, 2))
    assert nodes_of(first) != nodes_of(second)
    assert nodes_of(NeighborLoader(data, [2], batch_size=20, sampler=subset, seed=3)) == nodes_of(first)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert torch.equal(subset.generator.get_state(), states[1])


def test_samplers_of_ranks(data):
    """As Lightning puts them in: shares are disjoint, and another order in every epoch."""

    def share(rank, epoch):
        sampler = DistributedSampler(range(120), num_replicas=2, rank=rank)
        loader = NeighborLoader(data, [2], batch_size=20, sampler=sampler, seed=3)
        loader.set_epoch(epoch)
        return torch.cat([batch.input_id for batch in loader]).tolist()

    assert sorted(share(0, 0) + share(1, 0)) == list(range(120))
    assert share(0, 0) != share(0, 1)


@pytest.mark.parametrize("sampler", [None, SubsetRandomSampler(range(100))], ids=["shuffle", "sampler"])
@pytest.mark.parametrize("behind", [0, 1, 3, None])
def test_peers_32_resume(data, behind, sampler):
    """Behind any batch, with another number of workers, also at the end of an epoch, and twice in one."""
    options = {} if sampler is None else {"sampler": sampler, "shuffle": False}
    loader = made(data, **options)
    whole = [*loader, *loader, *loader]
    per_epoch = len(loader)
    loader = made(data, **options)
    list(loader)
    iteration = iter(loader)
    behind = per_epoch if behind is None else behind
    for _ in range(behind):
        next(iteration)
    state = pickle.loads(pickle.dumps(loader.state_dict()))  # noqa: S301 - just written
    for num_workers in (0, 2):
        resumed = made(data, num_workers=num_workers, **options)
        resumed.load_state_dict(state)
        rest = [*resumed, *([] if behind == per_epoch else resumed)]
        assert nodes_of(rest) == nodes_of(whole[per_epoch + behind :])
        again = resumed.state_dict()
        resumed.load_state_dict(state)
        assert nodes_of(resumed) == nodes_of(rest[: per_epoch - behind or per_epoch])
        assert again["epoch"] == 3


def test_peers_32_the_state_of_another_loader(data):
    with pytest.raises(hr.StateError, match="sample_neighbor differs"):
        NeighborLoader(data, [4, 2], batch_size=16, shuffle=True, seed=8).load_state_dict(made(data).state_dict())


def with_torch_seed(seed_of_torch, data, **options):
    torch.manual_seed(seed_of_torch)
    return NeighborLoader(data, [4, 2], batch_size=16, shuffle=True, **options)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_state_brings_the_seed_of_torch(data, num_workers):
    """A resumed process has another one; loaders that are given a seed keep it, with the remedy in the error."""
    first = with_torch_seed(3, data)
    iteration = iter(first)
    next(iteration)
    state = pickle.loads(pickle.dumps(first.state_dict()))  # noqa: S301 - just written
    wanted = [*nodes_of(iteration), *nodes_of(first)]
    resumed = with_torch_seed(99, data, num_workers=num_workers)
    next(running := iter(resumed))
    with pytest.raises(hr.StateError, match="another plan"):
        resumed.load_state_dict({**state, "plan": {}})
    assert resumed.settled_seed == 99
    resumed.load_state_dict(state)
    assert resumed.settled_seed == 3
    found = nodes_of(resumed)
    resumed.num_workers = 1  # a new runner, which has that seed as well
    assert [*found, *nodes_of(resumed)] == wanted
    with pytest.raises(hr.HeadraceError, match="ended by a later"):
        next(running)
    for given in ({"seed": 99}, {"generator": torch.Generator().manual_seed(99)}):
        with pytest.raises(hr.StateError, match=r"was 3 and now is 99.*as it was, with seed=3, or start anew"):
            with_torch_seed(3, data, **given).load_state_dict(state)


def rebuilt(loader, **changes):
    """Make a loader anew of its attributes, as Lightning does to put another sampler in."""
    attributes = {name: value for name, value in vars(loader).items() if not name.startswith("_")}
    attributes["multiprocessing_context"] = loader.multiprocessing_context
    parameters = dict(inspect.signature(type(loader).__init__).parameters)
    parameters |= inspect.signature(DataLoader.__init__).parameters
    given = {
        name: attributes[name]
        for name, parameter in parameters.items()
        if name in attributes and parameter.default is not attributes[name]
    }
    lacking = {
        name
        for name, parameter in inspect.signature(type(loader)).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD and name not in given
    }
    assert not lacking
    return type(loader)(**{**given, "shuffle": False, "batch_sampler": None, **changes})


def test_lightning_makes_a_loader_anew(data):
    loader = made(data, input_nodes=data.train_mask, weight_attr="edge_weight", replace=True, num_workers=2)
    twin = rebuilt(loader, sampler=SequentialSampler(loader.dataset))
    assert twin.input_nodes is data.train_mask
    for name in ("num_neighbors", "weight_attr", "replace", "seed", "num_workers", "batch_size", "subgraph_type"):
        assert getattr(twin, name) == getattr(loader, name), name
    seeds = torch.cat([batch.n_id[: batch.batch_size] for batch in twin])
    assert torch.equal(seeds, data.train_mask.nonzero().flatten())
    sampler = DistributedSampler(loader.dataset, num_replicas=4, rank=1, shuffle=False)
    assert len(rebuilt(loader, sampler=sampler)) == 1
    batches = BatchSampler(sampler, 3, drop_last=False)
    twin = rebuilt(loader, sampler=None, batch_sampler=batches, batch_size=1, drop_last=False)
    assert [len(batch.input_id) for batch in twin] == [3, 3, 3, 1]


def test_lightning_changes_attributes_of_samplers(data):
    """To evaluate with other numbers of neighbours it copies the sampler and sets those."""
    sampler = Sampler(data, [1])
    nodes = torch.arange(20)
    (batch,) = NodeLoader(data, sampler, input_nodes=nodes, batch_size=20)
    other = copy.copy(sampler)
    other.num_neighbors = [-1]
    (whole,) = NodeLoader(data, other, input_nodes=nodes, batch_size=20)
    (again,) = NodeLoader(data, sampler, input_nodes=nodes, batch_size=20)
    assert batch.num_edges == again.num_edges < whole.num_edges


class Backwards(BaseSampler):
    """A sampler of a user: the seeds, last first, with an edge from each to itself; edges in an order of its own."""

    edge_permutation = torch.arange(NUM_EDGES).flip(0)

    def sample_from_nodes(self, index, **kwargs):
        node = index.node.flip(0)
        own = torch.arange(len(node))
        return SamplerOutput(node, own, own, edge=own, metadata=(index.input_id, index.time))

    def sample_from_edges(self, index, neg_sampling=None):
        node = torch.cat([index.row, index.col])
        own = torch.arange(len(node))
        rows = own.view(2, -1)
        return SamplerOutput(node, own, own, edge=own, metadata=(index.input_id, rows, index.label, index.time))


def test_samplers_of_the_user(data):
    options = {"input_nodes": data.train_mask, "batch_size": 7}
    ours = NeighborLoader(data, [2], neighbor_sampler=Backwards(), num_workers=2, **options)
    for left, right in zip(ours, NodeLoader(data, Backwards(), **options), strict=True):
        assert set(left.keys()) == set(right.keys())
        for name in left.keys():  # noqa: SIM118 - not a dictionary
            assert torch.equal(torch.as_tensor(left[name]), torch.as_tensor(right[name])), name
    options = {"edge_label_index": data.edge_index[:, :20], "batch_size": 7}
    ours = LinkNeighborLoader(data, [2], neighbor_sampler=Backwards(), **options)
    for left, right in zip(ours, LinkLoader(data, Backwards(), **options), strict=True):
        assert set(left.keys()) == set(right.keys())
        assert torch.equal(left.edge_attr, right.edge_attr)
        assert torch.equal(left.edge_label_index, right.edge_label_index)


def test_loaders_share_a_sampler(data):
    """And with it the graph in the form that is sampled."""
    sampler = Sampler(data, [3, 2])
    loader = NeighborLoader(data, [3, 2], neighbor_sampler=sampler, batch_size=16, shuffle=True, seed=8)
    assert nodes_of(loader) == nodes_of(made(data))
    assert loader.node_sampler is sampler


def test_it_is_a_loader_of_pyg_and_of_torch(data):
    loader = made(data)
    assert isinstance(loader, TheirNeighborLoader)
    assert isinstance(loader, DataLoader)
    ours = list(inspect.signature(NeighborLoader).parameters)
    theirs = list(inspect.signature(TheirNeighborLoader).parameters)
    assert ours[: len(theirs) - 1] == theirs[:-1]


def test_copies_begin_anew(data):
    loader = made(data)
    first = nodes_of(loader)
    assert nodes_of(copy.copy(loader)) == first
    assert nodes_of(pickle.loads(pickle.dumps(loader))) == first  # noqa: S301 - just written


def test_keywords_of_processes(data):
    with pytest.warns(
        UserWarning, match="expected no worker_init_fn, timeout, multiprocessing_context, got it without effect"
    ):
        loader = made(data, num_workers=3, worker_init_fn=print, timeout=5, multiprocessing_context="spawn")
    assert nodes_of(loader) == nodes_of(made(data))


def test_memory_is_pinned_where_there_is_something_to_pin_it_for(data):
    assert nodes_of(made(data, pin_memory=True)) == nodes_of(made(data))


def test_an_error_of_a_transform_comes_to_the_loop(data):
    def fail(batch):
        raise ZeroDivisionError(batch.batch_size)

    with pytest.raises(ZeroDivisionError, match="16"):
        list(made(data, transform=fail, num_workers=2))


def test_stats_and_explain(data):
    loader = made(data)
    list(loader)
    assert loader.runner.stats()["join_attributes"]["batches"] == len(loader)
    assert "sample_neighbor" in loader.runner.explain()


@pytest.mark.thorough
@pytest.mark.slow
def test_import_needs_neither_pyg_lib_nor_torch_sparse():
    program = """
import sys
import headrace
assert "torch_geometric" not in sys.modules
from headrace.pyg import NeighborLoader
assert not {"pyg_lib", "torch_sparse"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
