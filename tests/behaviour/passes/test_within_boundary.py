"""Layers stay within what a source says belongs to a batch."""

from __future__ import annotations

import pytest
import torch
from bounded import bounded_edges, edges_by_hand
from explained import names
from ranks import assert_same_union, cooperative_batches, partition, run_ranks

import headrace as hr

from plans import NUM_NODES, graph, items, store

CLUSTERS = hr.Partition.hash(NUM_NODES, 6)


def clusters(boundary: int | None = 0, num_hops: int = 2) -> hr.Plan:
    return hr.ClusterSampler(CLUSTERS, 2, boundary=boundary, seed=3).sample_in_subgraph(graph(), num_hops=num_hops)


@pytest.mark.parametrize(
    ("boundary", "stages"),
    [
        (0, ["cluster_sampler", "induce_hop", "compact", "prefetch"]),
        (1, ["cluster_sampler", "sample_fused", "induce_hop", "compact", "prefetch"]),
        (2, ["cluster_sampler", "sample_fused", "prefetch"]),
        (None, ["cluster_sampler", "sample_fused", "prefetch"]),
    ],
)
def test_fires(boundary, stages):
    assert names(clusters(boundary), hr.Machine(cores=2)) == stages


def test_refuses_other_samplers():
    plan = hr.ClusterSampler(CLUSTERS, 2, seed=3)
    by_weight = plan.sample_neighbor(graph(), [-1], weight="weight")  # edges of weight 0 are not drawn
    for sampled in (plan.sample_neighbor(graph(), [3]), plan.sample_ladies(graph(), [5]), by_weight):
        with pytest.raises(hr.PlanError, match="use sample_in_subgraph, with expand='all', or a source without a"):
            sampled.loader()
    with pytest.raises(hr.PlanError, match="expand='all'"):
        plan.sample_in_subgraph(graph(), num_hops=2, expand="new").loader()
    assert "induce_hop" not in names(items().sample_in_subgraph(graph(), num_hops=2), hr.Machine())


@pytest.mark.parametrize("boundary", [0, 1, 2, 3])
def test_same_result(boundary):
    """Every layer has the edges that a search finds."""
    for batch in clusters(boundary, num_hops=3).loader():
        assert edges_by_hand(batch) == bounded_edges(graph(), batch.seeds, boundary, 3)
        assert torch.equal(batch.n_id[: len(batch.seeds)], batch.seeds)
        for block in batch.blocks:
            sources = batch.n_id[block.edge_index[0]]
            found = dict(zip(graph().edge_ids.tolist(), graph().indices.tolist(), strict=True))
            assert sources.tolist() == [found[edge] for edge in block.edge_ids.tolist()]


def test_without_a_boundary_it_is_the_whole_neighborhood():
    batches = list(clusters(None).loader())
    for batch in batches:
        seeds = hr.ItemSampler(batch.seeds, batch_size=NUM_NODES, seed=3)
        (expected,) = seeds.sample_in_subgraph(graph(), num_hops=2).loader()
        assert edges_by_hand(batch) == edges_by_hand(expected)


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("boundary", [0, 1, 2])
def test_ranks_make_the_same_batches_together(boundary, world_size):
    owners = partition("table", world_size)
    shares = cooperative_batches(clusters(boundary), world_size, partition=owners)
    for batch, *mine in zip(clusters(boundary).loader(), *shares, strict=True):
        if world_size > 1:
            assert_same_union(batch, mine, owners)


@pytest.mark.parametrize("boundary", [0, 1])
def test_ranks_find_the_edges_within_once_for_all_layers(boundary):
    owners = partition("table", 3)

    def work(comm):
        plan = clusters(boundary, num_hops=4).fetch_feature(store(), node=["x"])
        with plan.loader(cooperative=True, comm=comm, partition=owners, prefetch=False) as loader:
            batches = list(loader)
            return batches, loader.stats().lowered

    (within,) = cooperative_batches(clusters(boundary, num_hops=boundary + 1), 3, partition=owners)[:1]
    (shares, stats), *_ = run_ranks(3, work)
    assert stats["induce_hop"]["rounds"] == 2 * len(shares)
    exchanged = sum(one["rounds"] for name, one in stats.items() if name.startswith("exchange_ids"))
    assert exchanged == (2 + boundary) * len(shares)  # of seeds, of the hops before, and of what is within
    for batch, expected in zip(shares, within, strict=True):
        layers = 4 - boundary
        assert len(batch.blocks) == len(batch.exchanges) - 1 == 4
        assert all(block is batch.blocks[0] for block in batch.blocks[:layers])
        assert all(exchange is batch.exchanges[0] for exchange in batch.exchanges[:layers])
        # The layers are those that one hop of its own finds.
        for name in ("indptr", "indices", "edge_ids"):
            assert torch.equal(getattr(batch.blocks[0], name), getattr(expected.blocks[0], name))
        assert torch.equal(batch.exchanges[0].send_rows, expected.exchanges[0].send_rows)
        assert len(batch.x) == batch.blocks[0].num_src
        assert batch.num_sampled_nodes[boundary + 2 :] == (0,) * (layers - 1)
        assert batch.num_sampled_edges[boundary:] == (batch.num_sampled_edges[boundary],) * layers
    assert sum(one.get("edges", 0) for one in stats.values()) == sum(sum(one.num_sampled_edges) for one in shares)


def test_shares_of_a_subgraph_are_refused():
    with pytest.raises(hr.PlanError, match=r"a subgraph cannot be cut into shares; let ranks make batches together"):
        clusters().loader(rank=0, world_size=2)


def test_graphs_in_an_order_of_their_own():
    reordered = hr.reorder(graph(), scores=hr.scores.out_degree(graph())).graph
    for plan in (hr.ClusterSampler(CLUSTERS, 2, seed=3), hr.GlobalBatch(graph(), seed=3)):
        for found, expected in zip(
            plan.sample_in_subgraph(reordered, num_hops=2).loader(),
            plan.sample_in_subgraph(graph(), num_hops=2).loader(),
            strict=True,
        ):
            assert torch.equal(found.n_id, expected.n_id)
            assert edges_by_hand(found) == edges_by_hand(expected)
