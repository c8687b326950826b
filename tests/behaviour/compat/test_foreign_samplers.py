"""Samplers of the user that keep state: all threads of all loaders call them one after the other."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch_geometric.sampler import BaseSampler, SamplerOutput

from headrace.pyg import LinkNeighborLoader, NeighborLoader


class Stateful(BaseSampler):
    """Notes what it is asked for, and samples a moment later for what it has noted."""

    def __init__(self):
        self.calls = self.running = self.most = 0
        self.node = None

    def __eq__(self, other):
        """Compare, as dataclasses do, and with it cannot be hashed."""
        return self is other

    __hash__ = None

    def sample_from_nodes(self, index, **_):
        return self._sampled(index.node, (index.input_id, index.time))

    def sample_from_edges(self, index, neg_sampling=None):
        rows = torch.arange(2 * len(index.row)).view(2, -1)
        return self._sampled(torch.cat([index.row, index.col]), (index.input_id, rows, index.label, index.time))

    def _sampled(self, node, metadata):
        self.running += 1
        self.most = max(self.most, self.running)
        self.node, calls = node, self.calls
        time.sleep(5e-4)
        self.calls = calls + 1
        self.running -= 1
        own = torch.arange(len(self.node))
        return SamplerOutput(self.node, own, own, edge=None, metadata=metadata)


@pytest.mark.parametrize("kind", ["nodes", "links"])
def test_several_workers_lose_no_seeds(data, kind):
    sampler = Stateful()
    options = {"neighbor_sampler": sampler, "num_workers": 4, "batch_size": 2}
    if kind == "nodes":
        loader = NeighborLoader(data, [2], **options)
        batches = list(loader)
        assert torch.cat([batch.n_id for batch in batches]).tolist() == list(range(120))
    else:
        links = data.edge_index[:, :120]
        loader = LinkNeighborLoader(data, [2], links, **options)
        batches = list(loader)
        assert torch.equal(torch.cat([batch.n_id.view(2, -1) for batch in batches], 1), links)
    assert sampler.calls == len(batches) == 60
    assert sampler.most == 1


def test_loaders_and_threads_that_share_one(data):
    sampler = Stateful()
    loader, other = (NeighborLoader(data, [2], neighbor_sampler=sampler, num_workers=2, batch_size=4) for _ in range(2))
    with ThreadPoolExecutor(4) as pool:
        alone = pool.map(loader, ([i, i + 1] for i in range(30)))
        for one, two in zip(loader, other, strict=True):
            assert torch.equal(one.n_id, one.input_id)
            assert torch.equal(two.n_id, two.input_id)
        assert [batch.n_id.tolist() for batch in alone] == [[i, i + 1] for i in range(30)]
    assert sampler.calls == 90
    assert sampler.most == 1


def test_resume_with_one(data):
    loader = NeighborLoader(data, [2], neighbor_sampler=Stateful(), batch_size=50)
    iteration = iter(loader)
    next(iteration)
    resumed = NeighborLoader(data, [2], neighbor_sampler=Stateful(), batch_size=50, num_workers=2)
    resumed.load_state_dict(loader.state_dict())
    assert [batch.n_id[0].item() for batch in resumed] == [50, 100]
