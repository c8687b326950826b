"""GraphSAINT's draws, subgraphs and norms: equal to the reference, and unbiased."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from headrace.ops import (
    EdgeLaw,
    InputError,
    NodeLaw,
    _native,
    draw_edges,
    draw_nodes,
    edge_law,
    inclusion_probability,
    induced_subgraph,
    node_law,
    reference,
    subgraph_weights,
    unique_and_inverse,
)

from strategies import csc_graphs, keys, nodes_of, thread_counts

NUM_SUBGRAPHS = 4_000


@pytest.fixture(scope="module")
def skewed():
    """3,000 nodes, 60,000 edges, in-degrees up to some thousands."""
    random = np.random.default_rng(1)
    dst = (3_000 * random.random(60_000) ** 6).astype(np.int64)
    indptr, indices, _ = reference.coo_to_csc(random.integers(0, 3_000, 60_000), dst, 3_000)
    return torch.from_numpy(indptr), torch.from_numpy(indices).int()


@pytest.fixture(scope="module")
def small():
    """30 nodes and 140 edges, some of them repeated, reversed or self-loops; every node has in- and out-edges."""
    random = np.random.default_rng(5)
    src, dst = random.integers(0, 30, (2, 60))
    ring = np.arange(30)
    src, dst = np.concatenate([src, dst[:20], src[:5], ring]), np.concatenate([dst, src[:20], dst[:5], (ring + 1) % 30])
    indptr, indices, _ = reference.coo_to_csc(src, dst, 30)
    return torch.from_numpy(indptr), torch.from_numpy(indices)


def drawn_by(graph, law, num_draws, key, num_threads=1):
    """Distinct nodes that some draws bring, in order of first occurrence."""
    if isinstance(law, EdgeLaw):
        drawn = draw_edges(graph[0], graph[1], law, num_draws, key=key, num_threads=num_threads).reshape(-1)
    else:
        drawn = draw_nodes(law, num_draws, key=key, num_threads=num_threads)
    return unique_and_inverse(drawn)[0]


# --- equality ---------------------------------------------------------------------------------------------------------


@given(csc_graphs(), thread_counts, st.data())
def test_subgraph_equals_the_reference(graph, num_threads, data):
    nodes = data.draw(nodes_of(graph, max_size=40))
    subgraph = induced_subgraph(graph.indptr, graph.indices, nodes, num_threads=num_threads)
    oracle = reference.saint.induced_subgraph(graph.indptr.numpy(), graph.indices.numpy(), nodes.numpy())
    for got, expected in zip((subgraph.indptr, subgraph.indices, subgraph.positions), oracle, strict=True):
        assert np.array_equal(got.numpy(), expected)
    assert subgraph.indices.dtype == graph.indices.dtype


@given(csc_graphs(), keys, st.integers(0, 40), thread_counts)
def test_draws_equal_the_reference(graph, key, num_draws, num_threads):
    assume(graph.num_edges > 0)
    law = node_law(graph.indptr, graph.indices)
    assert draw_nodes(law, num_draws, key=key, num_threads=num_threads).tolist() == reference.saint.draw_nodes(
        law.sums.numpy(), num_draws, key
    )
    edges = draw_edges(
        graph.indptr,
        graph.indices,
        edge_law(graph.indptr, graph.indices),
        num_draws,
        key=key,
        num_threads=num_threads,
    )
    assert [tuple(pair) for pair in edges.tolist()] == reference.saint.draw_edges(
        graph.indptr.numpy(), graph.indices.numpy(), num_draws, key
    )


@given(csc_graphs(max_nodes=15, max_edges=60))
def test_laws_equal_exact_fractions(graph):
    assume(graph.num_edges > 0)
    indptr, indices = graph.indptr.numpy(), graph.indices.numpy()
    expected = reference.saint.node_probabilities(indptr, indices)
    assert np.allclose(node_law(graph.indptr, graph.indices).probability.numpy(), np.array(expected, float), rtol=1e-9)
    touch = np.zeros(graph.num_nodes)
    edges = reference.saint.edges_of(indptr, indices)
    for ends, probability in zip(edges, reference.saint.edge_probabilities(indptr, indices), strict=True):
        for node in set(ends):
            touch[node] += float(probability)
    assert np.allclose(edge_law(graph.indptr, graph.indices).probability.numpy(), touch, rtol=1e-9)


@settings(max_examples=40)
@given(csc_graphs(max_nodes=10, max_edges=25), keys, st.integers(1, 9), st.booleans(), thread_counts)
def test_weights_equal_exact_fractions(graph, key, num_draws, by_edge, num_threads):
    """The closed form against fractions summed over all outcomes of a draw, to single precision."""
    assume(graph.num_edges > 0)
    indptr, indices = graph.indptr, graph.indices
    law: NodeLaw | EdgeLaw = edge_law(indptr, indices) if by_edge else node_law(indptr, indices)
    nodes = drawn_by((indptr, indices), law, num_draws, key)
    subgraph = induced_subgraph(indptr, indices, nodes)
    weights = subgraph_weights(subgraph, law, nodes, indptr.diff()[nodes], num_draws, num_threads=num_threads)
    expected = reference.saint.subgraph_weights(
        indptr.numpy(), indices.numpy(), nodes.numpy(), num_draws, by_edge=by_edge
    )
    assert np.allclose(weights.numpy(), expected, rtol=1e-6)


@given(st.floats(1e-18, 1), st.integers(1, 10**6))
def test_inclusion_probability(probability, num_draws):
    got = inclusion_probability(torch.tensor([probability], dtype=torch.float64), num_draws).item()
    assert got == pytest.approx(-np.expm1(num_draws * np.log1p(-min(probability, 1 - 1e-16))), rel=1e-9)


def test_rare_pairs_keep_their_digits():
    """Two nodes of probability 1e-12, 1,000 draws: 1 - P(not u) - P(not v) + P(neither) would be noise."""
    touch = torch.tensor([1e-12, 1e-12, 1 - 2e-12], dtype=torch.float64)
    subgraph = induced_subgraph(torch.tensor([0, 0, 1]), torch.tensor([0]), torch.tensor([0, 1]))
    law = node_law(torch.tensor([0, 0, 1]), torch.tensor([0]))
    weights = subgraph_weights(
        subgraph, type(law)(touch, touch.cumsum(0)), torch.tensor([0, 1]), torch.tensor([0, 1]), 1_000
    )
    assert weights.item() == pytest.approx(1_000e-12 / (1_000 * 999 * 1e-24), rel=1e-6)


def test_threads_do_not_change_a_bit(skewed):
    indptr, indices = skewed
    laws: list[NodeLaw | EdgeLaw] = [node_law(indptr, indices), edge_law(indptr, indices)]

    def everything(num_threads):
        results = []
        for law in laws:
            nodes = drawn_by(skewed, law, 5_000, 1, num_threads)
            subgraph = induced_subgraph(indptr, indices, nodes, num_threads=num_threads)
            weights = subgraph_weights(subgraph, law, nodes, indptr.diff()[nodes], 5_000, num_threads=num_threads)
            results += [nodes, subgraph.indptr, subgraph.indices, subgraph.positions, weights]
        return results

    one = everything(1)
    for num_threads in (2, 3, 8):
        assert all(torch.equal(a, b) for a, b in zip(everything(num_threads), one, strict=True))


# --- laws -------------------------------------------------------------------------------------------------------------


def test_draws_follow_the_law(small):
    """Chi-square of 60,000 draws over 30 nodes and over the edges.

    Power: a node of probability 1/30 that is off by 5 % adds 5 to a statistic of standard deviation 7.6, and 10 %, the
    weight of one edge of ten, adds 20; a law by out-degree alone is refused with certainty.
    """
    indptr, indices = small
    law = node_law(indptr, indices)
    counts = np.bincount(draw_nodes(law, 60_000, key=8).numpy(), minlength=30)
    assert stats.chisquare(counts, law.probability.numpy() * 60_000).pvalue > 1e-4
    pairs = draw_edges(indptr, indices, edge_law(indptr, indices), 60_000, key=8).numpy()
    expected = np.zeros(900)
    probabilities = reference.saint.edge_probabilities(indptr.numpy(), indices.numpy())
    for (u, v), p in zip(reference.saint.edges_of(indptr.numpy(), indices.numpy()), probabilities, strict=True):
        expected[u * 30 + v] += float(p) * 60_000
    counts = np.bincount(pairs[:, 0] * 30 + pairs[:, 1], minlength=900)
    assert counts[expected == 0].sum() == 0
    assert stats.chisquare(counts[expected > 0], expected[expected > 0]).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.law
@pytest.mark.parametrize("by_edge", [False, True], ids=["node", "edge"])
def test_estimates_are_unbiased(small, by_edge):
    """The norms make sums over 4,000 subgraphs of 5 draws average to the full graph's, within 5 standard errors.

    The message of a node grows with its chance to be drawn, so that without the norms the mean over nodes is off
    by more than 10 standard errors, and so is the mean over in-neighbours for at least one node.
    """
    indptr, indices = small
    degrees, num_draws = indptr.diff(), 5
    law: NodeLaw | EdgeLaw = edge_law(indptr, indices) if by_edge else node_law(indptr, indices)
    inclusion = inclusion_probability(law.probability, num_draws)
    message = 10 * inclusion + torch.linspace(0, 1, 30, dtype=torch.float64)
    estimates, plain = [], []
    pooled: list[list[float]] = [[] for _ in range(30)]
    pooled_plain: list[list[float]] = [[] for _ in range(30)]
    for key in range(NUM_SUBGRAPHS):
        nodes = drawn_by(small, law, num_draws, key)
        estimates.append((message[nodes] / (30 * inclusion[nodes])).sum().item())
        plain.append(message[nodes].mean().item())
        subgraph = induced_subgraph(indptr, indices, nodes)
        weights = subgraph_weights(subgraph, law, nodes, degrees[nodes], num_draws)
        values = message[nodes][subgraph.indices.long()]
        parts = subgraph.indptr.diff().tolist()
        for node, row, bare in zip(nodes.tolist(), (values * weights).split(parts), values.split(parts), strict=True):
            pooled[node].append(row.mean().item() if len(row) else 0.0)
            pooled_plain[node].append(bare.mean().item() if len(bare) else 0.0)

    def off(samples, truth):
        return abs(np.mean(samples) - truth) / (np.std(samples) / np.sqrt(len(samples)))

    assert off(estimates, message.mean().item()) < 5
    assert off(plain, message.mean().item()) > 10
    truth = [message[row].mean().item() for row in indices.split(degrees.tolist())]
    assert max(map(off, pooled, truth)) < 5
    assert max(map(off, pooled_plain, truth)) > 10


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_bad_input(small):
    indptr, indices = small
    with pytest.raises(InputError, match=r"nodes\[1\] and nodes\[3\] are both 4"):
        induced_subgraph(indptr, indices, torch.tensor([3, 4, 5, 4]))
    with pytest.raises(InputError, match=r"nodes\[0\] = 30 is not"):
        induced_subgraph(indptr, indices, torch.tensor([30]))
    for law in (node_law, edge_law):
        with pytest.raises(InputError, match="no edges"):
            law(torch.zeros(3, dtype=torch.int64), torch.empty(0, dtype=torch.int64))
    with pytest.raises(InputError, match="in-edges of every destination"):
        draw_edges(torch.tensor([0] * 30 + [1]), torch.tensor([0]), edge_law(indptr, indices), 50, key=0)
    subgraph = induced_subgraph(indptr, indices, torch.arange(3))
    with pytest.raises(InputError, match="one entry per node"):
        subgraph_weights(subgraph, node_law(indptr, indices), torch.arange(3), torch.ones(2, dtype=torch.int64), 5)
    with pytest.raises(InputError, match="not a node id"):
        node_law(torch.tensor([0, 1]), torch.tensor([1]))


def test_nothing_to_draw_from():
    nothing, none = torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.int64)
    graph = torch.tensor([0, 1]), torch.tensor([0])
    for draw in (
        lambda count: draw_nodes(NodeLaw(nothing, nothing), count, key=0),
        lambda count: draw_edges(*graph, EdgeLaw(none, nothing), count, key=0),
    ):
        assert draw(0).numel() == 0
        with pytest.raises(InputError, match="nothing to draw from"):
            draw(1)


def test_laws_and_subgraphs_of_other_kinds(small):
    indptr, indices = small
    law, subgraph = node_law(indptr, indices), induced_subgraph(indptr, indices, torch.arange(3))
    degrees = indptr.diff()[:3]
    wrong: Any = law.probability
    for call in (
        lambda: draw_nodes(wrong, 1, key=0),
        lambda: draw_edges(indptr, indices, wrong, 1, key=0),
        lambda: subgraph_weights(wrong, law, torch.arange(3), degrees, 1),
        lambda: subgraph_weights(subgraph, wrong, torch.arange(3), degrees, 1),
        lambda: inclusion_probability(law.probability.float(), 1),
        lambda: inclusion_probability(law.probability, -1),
    ):
        with pytest.raises(InputError, match="expected "):
            call()
    with pytest.raises(InputError, match=r"below num_nodes = 30, got -1 to 30"):
        subgraph_weights(subgraph, law, torch.tensor([-1, 0, 30]), degrees, 1)


def test_the_compiled_module_checks_what_it_is_given():
    """Lengths that kernels take for granted, damaged rows ahead of the loop, and numbers of draws of 64 bits."""
    indptr, indices = np.array([0, 1, 2]), np.array([1, 0])
    touch, degrees = np.full(2, 0.5), np.ones(2, np.int64)
    for short in ((indptr, touch[:1], degrees), (indptr, touch, degrees[:1]), (indptr - 1, touch, degrees)):
        with pytest.raises(InputError, match="expected "):
            _native.saint_weights(short[0], indices, *short[1:], 5, 0, 1)
    with pytest.raises(MemoryError):  # twice as many numbers wrap around
        _native.draw_edges(indptr, indices, np.zeros(1, np.int64), 1 << 63, 0, 1)
    weights = _native.saint_weights(indptr, indices, touch, degrees, (1 << 64) - 1, 0, 1)
    assert np.array_equal(weights, np.ones(2, np.float32))  # who is drawn that often is there
    far = np.array([0, *[1 << 62] * 40])
    with pytest.raises(InputError, match="do not bound a row"):
        _native.induced_subgraph(far, indices, np.arange(40), 1)
    with pytest.raises(InputError, match="not a node id"):
        _native.sum_inverse_degrees(np.array([0, 40]), np.full(40, 1 << 62), 1, skip_loops=False)
    with pytest.raises(InputError, match="got none"):
        _native.sum_inverse_degrees(np.empty(0, np.int64), indices, 1, skip_loops=False)
