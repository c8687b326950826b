"""What makes a node hot: each score against its formula, and against what a run reads on a directed graph."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from hypothesis import given
from skewed_graphs import NUM_NODES, directed

import headrace as hr

from plans import PLANS, graph
from strategies import edge_lists


def plan(power: float = 0.85) -> hr.Plan:
    items = np.random.default_rng(1).choice(NUM_NODES, NUM_NODES // 10, replace=False)
    sampler = hr.ItemSampler(items, batch_size=2, shuffle=True, seed=3)
    return sampler.sample_neighbor(directed(power=power), [5, 5, 5])


@functools.cache
def accesses(power: float = 0.85) -> torch.Tensor:
    """Accesses of the nodes in a run of the plan: what a placement is judged by."""
    counts = torch.zeros(NUM_NODES, dtype=torch.float64)
    loader = plan(power).loader(num_threads=1)
    for _ in range(3):
        for batch in loader:
            counts[batch.n_id] += 1
    return counts


def hits(scores: torch.Tensor, share: float, power: float = 0.85) -> float:
    """Share of the accesses that go to the nodes of the highest scores, in per cent."""
    hot = hr.scores.ranking(scores)[: int(NUM_NODES * share)]
    return 100 * float(accesses(power)[hot].sum() / accesses(power).sum())


def pagerank(graph: hr.Graph, start: np.ndarray, damping: float, iterations: int, *, reverse: bool) -> np.ndarray:
    """The formula, by dense matrices: rows are sources."""
    num_nodes = graph.num_nodes
    matrix = np.zeros((num_nodes, num_nodes))
    dst = torch.repeat_interleave(torch.arange(num_nodes), graph.in_degrees())
    np.add.at(matrix, (graph.indices.numpy(), dst.numpy()), 1)
    if not reverse:
        matrix = matrix.T
    matrix = matrix / np.maximum(matrix.sum(axis=0), 1)
    scores = start
    for _ in range(iterations):
        scores = (1 - damping) / num_nodes + damping * matrix @ scores
    return scores


@given(edge_lists(min_nodes=1))
def test_scores_are_their_formulas(edges):
    one = hr.Graph.from_coo(edges.src, edges.dst, num_nodes=edges.num_nodes)
    start = np.full(one.num_nodes, 1 / one.num_nodes)
    assert torch.equal(hr.scores.out_degree(one), torch.bincount(edges.src.long(), minlength=one.num_nodes).double())
    found = hr.scores.reverse_pagerank(one, iterations=7, damping=0.7)
    assert np.allclose(found, pagerank(one, start, 0.7, 7, reverse=True), rtol=1e-12)
    labelled = np.unique([0, one.num_nodes // 2])
    start[labelled] *= one.num_nodes / len(labelled)
    found = hr.scores.weighted_reverse_pagerank(one, labelled)
    assert np.allclose(found, pagerank(one, start, 0.85, 5, reverse=True), rtol=1e-12)


def test_items_of_every_spelling():
    one = graph()
    mask = torch.zeros(one.num_nodes, dtype=torch.bool)
    mask[20:40:2] = True
    expected = hr.scores.weighted_reverse_pagerank(one, mask)
    ids = mask.nonzero().squeeze(1)
    for items in (ids, range(20, 40, 2), range(38, 19, -2), (ids, ids), ids.repeat(2), ids.reshape(5, 2)):
        assert torch.equal(hr.scores.weighted_reverse_pagerank(one, items), expected)


def plan_of_labor() -> hr.Plan:
    return hr.ItemSampler(NUM_NODES, batch_size=2, seed=3).sample_layer_neighbor(directed(), [5, 5])


@pytest.mark.slow
def test_the_direction_is_that_of_sampling():
    """Plain PageRank follows messages and is no better than chance; on an undirected graph nobody would notice."""
    one = directed()
    turned = hr.Graph.from_coo(
        torch.repeat_interleave(torch.arange(NUM_NODES), one.in_degrees()), one.indices, num_nodes=NUM_NODES
    )
    plain = hr.scores.reverse_pagerank(turned)
    assert hits(plain, 0.1) < 20
    assert hits(hr.scores.reverse_pagerank(one), 0.1) > 60


def test_the_hottest_nodes_get_the_published_share():
    scores = hr.scores.weighted_reverse_pagerank(directed(), plan().stages[0].items)
    assert hits(scores, 0.1) >= 35
    assert hits(scores, 0.25) >= 56


@pytest.mark.slow
def test_a_tenth_of_the_rows_cuts_the_traffic_of_a_strongly_skewed_graph():
    scores = hr.scores.weighted_reverse_pagerank(directed(power=1.2), plan().stages[0].items)
    assert hits(scores, 0.1, power=1.2) >= 87
    assert hits(hr.scores.inclusion(plan(1.2)), 0.1, power=1.2) >= 87


@pytest.mark.slow
def test_the_samplers_own_law_is_next_to_the_best_there_is():
    """The bound counts the very run that is judged, so chance makes it a little higher than any score can be."""
    own, bound = hr.scores.inclusion(plan()), accesses()
    others = [
        hr.scores.out_degree(directed()),
        hr.scores.reverse_pagerank(directed()),
        hr.scores.weighted_reverse_pagerank(directed(), plan().stages[0].items),
        hr.scores.access_frequency(plan(), num_batches=200),
    ]
    for share in (0.1, 0.25):
        assert hits(bound, share) - hits(own, share) < 2
        assert all(hits(own, share) > hits(other, share) for other in others)


def test_ranking_breaks_ties_by_id():
    assert hr.scores.ranking(torch.tensor([1, 3, 3, 0, 3])).tolist() == [1, 2, 4, 0, 3]
    assert hr.scores.ranking(np.array([np.inf, -np.inf, 0.0])).tolist() == [0, 2, 1]
    assert hr.scores.ranking(torch.ones(100_000)).equal(torch.arange(100_000))


def test_a_profile_is_of_batches_that_are_not_trained_on():
    fetched: list[int] = []

    def noted(batch: hr.MiniBatch) -> hr.MiniBatch:
        fetched.append(batch.epoch)
        return batch

    items = hr.ItemSampler(100, batch_size=10, seed=0)
    whole = (
        items.transform(noted)
        .sample_neighbor(graph(), [2])
        .fetch_feature(hr.FeatureStore(node={"x": torch.zeros(graph().num_nodes, 1)}), node=["x"])
    )
    counts = hr.scores.access_frequency(whole, num_batches=15)
    assert min(fetched) >= 2**32 - 3
    assert counts[:100].min() >= 1
    assert counts.max() <= 15
    assert torch.equal(counts, hr.scores.access_frequency(whole, num_batches=15, num_threads=1))


def test_a_profile_of_items_in_order_is_of_all_of_them():
    one = hr.Graph.from_coo([], [], num_nodes=1_000)
    plan = hr.ItemSampler(1_000, batch_size=10).sample_neighbor(one, [1])
    counts = hr.scores.access_frequency(plan, num_batches=20)
    assert counts[:200].sum() < 100


@pytest.mark.parametrize("name", ["neighbor", "ladies", "pinsage", "saint_node", "saint_walk", "by_hand"])
def test_any_sampler_can_be_profiled(name):
    counts = hr.scores.access_frequency(PLANS[name](), num_batches=3)
    assert counts.shape == (graph().num_nodes,)
    assert 0 < counts.sum() <= 3 * graph().num_nodes
