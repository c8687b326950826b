"""Counts: none at all, and those that come as numbers of NumPy or of torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.sampler import NegativeSampling

from headrace.pyg import (
    ClusterData,
    ClusterLoader,
    GraphSAINTEdgeSampler,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    LinkNeighborLoader,
    NeighborLoader,
    ShaDowKHopSampler,
)

SEEDS = torch.tensor([7, 3, 3, 9])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_neighbors": ()},
        {"disjoint": True},
        {"replace": True},
        {"weight_attr": "edge_weight"},
        {"subgraph_type": "bidirectional"},
    ],
)
def test_without_hops_a_batch_has_its_seeds_and_no_edge(data, options):
    (batch,) = NeighborLoader(data, **{"num_neighbors": [], **options}, input_nodes=SEEDS, batch_size=4)
    assert torch.equal(batch.x, data.x[SEEDS])
    assert torch.equal(batch.n_id, SEEDS)
    assert batch.edge_index.shape == (2, 0)
    assert batch.edge_attr.shape == (0, 2)
    if "subgraph_type" not in options:
        assert batch.num_sampled_nodes == [4]
        assert batch.num_sampled_edges == []


def test_without_hops_an_induced_batch_has_the_edges_among_its_seeds(data):
    nodes = torch.arange(60)
    (batch,) = NeighborLoader(data, [], input_nodes=nodes, batch_size=60, subgraph_type="induced")
    assert len(batch.x) == 60
    among = (data.edge_index < 60).all(0).nonzero().squeeze(1)
    assert batch.e_id.sort().values.tolist() == among.tolist()


def test_without_hops_links_have_their_ends(data):
    links = data.edge_index[:, :6]
    (batch,) = LinkNeighborLoader(data, [], edge_label_index=links, batch_size=6, neg_sampling="binary")
    assert batch.edge_index.shape == (2, 0)
    assert torch.equal(batch.n_id[batch.edge_label_index[:, :6]], links)


@pytest.mark.parametrize("of_types", [False, True])
def test_without_hops_each_type_has_its_seeds(hetero, of_types):
    counts = {name: [] for name in hetero.edge_types} if of_types else []
    batch = next(iter(NeighborLoader(hetero, counts, input_nodes="paper", batch_size=5)))
    assert torch.equal(batch["paper"].x, hetero["paper"].x[:5])
    assert len(batch["author"].x) == 0
    assert batch["paper"].num_sampled_nodes == [5]
    assert batch.num_edges == 0
    assert all(batch[name].num_sampled_edges == [] for name in hetero.edge_types)


def test_ego_nets_of_no_hop_are_their_roots(data):
    batch = next(iter(ShaDowKHopSampler(data, 0, 5, node_idx=[9, 8], batch_size=2)))
    assert torch.equal(batch.x, data.x[[9, 8]])
    assert batch.batch.tolist() == [0, 1]


ONE, TWO, FIVE = np.int64(1), np.int32(2), np.int64(5)


@pytest.mark.parametrize(
    ("numbers", "same"),
    [
        (lambda data: NeighborLoader(data, [TWO, ONE], batch_size=FIVE), None),
        (lambda data: NeighborLoader(data, np.array([2, 1]), batch_size=5), None),
        (lambda data: NeighborLoader(data, torch.tensor([2, 1]), batch_size=torch.tensor(5).item()), None),
        (lambda data: NeighborLoader(data, [2, 1], batch_size=FIVE, num_workers=ONE, prefetch_factor=TWO), None),
        (lambda data: NeighborLoader(data, [2, 1], batch_size=FIVE, num_threads=ONE, prefetch=TWO), None),
        (lambda data: NeighborLoader(data, [2, 1], batch_size=5, input_nodes=np.arange(120)), None),
        (
            lambda data: ShaDowKHopSampler(data, TWO, TWO, node_idx=np.arange(20), batch_size=FIVE),
            lambda data: ShaDowKHopSampler(data, 2, 2, node_idx=torch.arange(20), batch_size=5),
        ),
        (
            lambda data: GraphSAINTNodeSampler(data, FIVE, TWO, TWO),
            lambda data: GraphSAINTNodeSampler(data, 5, 2, 2),
        ),
        (
            lambda data: GraphSAINTEdgeSampler(data, FIVE, num_steps=TWO),
            lambda data: GraphSAINTEdgeSampler(data, 5, num_steps=2),
        ),
        (
            lambda data: GraphSAINTRandomWalkSampler(data, FIVE, TWO, TWO),
            lambda data: GraphSAINTRandomWalkSampler(data, 5, 2, 2),
        ),
        (
            lambda data: ClusterLoader(ClusterData(data, FIVE, log=False), batch_size=TWO),
            lambda data: ClusterLoader(ClusterData(data, 5, log=False), batch_size=2),
        ),
        (
            lambda data: LinkNeighborLoader(
                data, [TWO], batch_size=FIVE, neg_sampling=NegativeSampling("triplet", TWO)
            ),
            lambda data: LinkNeighborLoader(data, [2], batch_size=5, neg_sampling=NegativeSampling("triplet", 2)),
        ),
    ],
)
def test_numbers_of_numpy_are_numbers(data, numbers, same):
    torch.manual_seed(0)
    given = next(iter(numbers(data)))
    expected = next(iter((same or (lambda one: NeighborLoader(one, [2, 1], batch_size=5)))(data)))
    assert torch.equal(given.x, expected.x)
    assert torch.equal(given.edge_index, expected.edge_index)
