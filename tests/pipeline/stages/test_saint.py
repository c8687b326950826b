"""Norms of GraphSAINT's walks, which are counts of subgraphs drawn ahead, and are kept with the graph."""

from __future__ import annotations

import warnings

import pytest
import torch
from saint_graphs import NUM_NODES, bound, ring

import headrace as hr
from headrace.pipeline.data.graph_machinery import kept
from headrace.pipeline.stages.saint import LOSS_WEIGHT

pytestmark = pytest.mark.slow


def roots(**changes):
    return hr.ItemSampler(NUM_NODES, **{"batch_size": 6, "shuffle": True, "seed": 4, **changes})


def test_walk_norms_are_frequencies():
    """Counts of 3,000 subgraphs drawn ahead against those of 2,000 batches, node by node and edge by edge."""
    _, _, subject = ring()
    plan = roots().sample_saint(subject, "walk", walk_length=2, num_samples=3_000)
    nodes, edges = torch.zeros(NUM_NODES), torch.zeros(subject.num_edges)
    for _ in (loader := plan.loader(prefetch=False)).epochs(200):
        for batch in loader:
            nodes[batch.n_id] += 1
            edges[batch.e_id] += 1
    ((ahead_nodes, ahead_edges, num_samples),) = kept(subject).tables.values()
    assert num_samples == 3_000
    ahead = torch.zeros(subject.num_edges)
    ahead[subject.edge_ids] = ahead_edges.float()
    for seen, before in ((nodes, ahead_nodes.float()), (edges, ahead)):
        probability = (seen + before) / 5_000
        error = (probability * (1 - probability) * (1 / 2_000 + 1 / 3_000)).sqrt()
        assert ((seen / 2_000 - before / 3_000).abs() <= 5 * error).all()


def test_norms_are_kept_with_the_graph():
    _, _, subject = ring()
    plan = roots().sample_saint(subject, "walk", walk_length=2)
    plan.loader()
    ((counts, _, num_samples),) = kept(subject).tables.values()
    assert num_samples == -(-50 * NUM_NODES // (6 * 3))
    roots().sample_saint(subject, "walk", walk_length=2).prefetch().loader()
    (known,) = kept(subject).tables.values()
    assert known[0] is counts
    roots(seed=5).sample_saint(subject, "walk", walk_length=2).loader()
    assert len(kept(subject).tables) == 2


def test_nodes_that_are_in_no_subgraph_drawn_ahead_are_reported_once():
    """They count as if they were in one; with more subgraphs, the warning goes."""
    subject = bound(loops=False)
    plan = hr.ItemSampler(50, batch_size=6, shuffle=True, seed=4).sample_saint(
        subject, "walk", walk_length=2, num_samples=3
    )
    with pytest.warns(UserWarning, match=r"sample_saint: \d+ of 50 .* none of the 3 .* num_samples= above 3") as caught:
        loader = plan.loader()
    assert len(caught) == 1
    ((node_counts, _, _),) = kept(subject).tables.values()
    left_out = int((node_counts == 0).sum())
    assert 0 < left_out < 50
    assert f": {left_out} of 50 nodes" in str(caught[0].message)
    weights = torch.cat([torch.stack([batch.n_id, batch.node[LOSS_WEIGHT]], 1) for batch in loader])
    expected = (3 / (node_counts.clamp(min=1).double() * 50)).float()
    assert torch.equal(weights[:, 1], expected[weights[:, 0].long()])
    assert bool((node_counts[weights[:, 0].long()] == 0).any())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan.loader()
        hr.ItemSampler(50, batch_size=6, shuffle=True, seed=4).sample_saint(subject, "walk", walk_length=2).loader()
