"""Numbers of destinations sent to sources, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import ops
from headrace.ops import _native, reference
from headrace.ops.errors import InputError

from strategies import csc_graphs, thread_counts


@pytest.fixture(autouse=True)
def _all_threads_at_work():
    _native.share_all_work(True)
    yield
    _native.share_all_work(False)


def arrays(graph):
    return graph.indptr.numpy(), graph.indices.numpy()


@given(csc_graphs(), thread_counts, st.integers(0, 99))
def test_sums(graph, num_threads, seed):
    values = np.random.default_rng(seed).random(graph.num_nodes)
    found = ops.sum_to_sources(graph.indptr, graph.indices, values, num_threads=num_threads)
    assert found.tolist() == reference.spread.sum_to_sources(*arrays(graph), values).tolist()


@given(csc_graphs(), thread_counts, st.sampled_from(["by row", "by edge", "together"]), st.integers(0, 99))
def test_reaching(graph, num_threads, how, seed):
    random = np.random.default_rng(seed)
    frontier = random.random(graph.num_nodes) * (random.random(graph.num_nodes) < 0.7)
    row_picks = random.choice([0, 0.25, 0.7, 1.0], graph.num_nodes)
    edge_picks = random.random(graph.num_edges, np.float32) if how == "by edge" else None
    order = np.argsort(-row_picks, kind="stable") if how == "together" else None
    found = ops.reach_sources(
        graph.indptr,
        graph.indices,
        frontier,
        row_picks,
        edge_picks=edge_picks,
        together=how == "together",
        num_threads=num_threads,
    )
    expected = reference.spread.reach_sources(*arrays(graph), frontier, row_picks, edge_picks, order)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_many_edges_on_many_threads(dtype):
    random = np.random.default_rng(0)
    num_nodes, num_edges = 1_000, 20_000
    indptr = np.sort(random.integers(0, num_edges, num_nodes + 1))
    indptr[[0, -1]] = 0, num_edges
    indices = random.integers(0, num_nodes, num_edges).astype(dtype)
    values = random.random(num_nodes)
    expected = reference.spread.sum_to_sources(indptr, indices, values)
    for num_threads in (1, 2, 3, 8):
        found = ops.sum_to_sources(indptr, indices, values, num_threads=num_threads)
        assert found.tolist() == expected.tolist()


def test_chances_are_those_of_drawn_frontiers():
    """Two destinations of one source: independent ones add up, together the better one counts."""
    indptr, indices = np.array([0, 0, 1, 2]), np.array([0, 0])  # 0 -> 1, 0 -> 2
    frontier, picks = np.array([0, 0.5, 0.8]), np.array([0.0, 0.2, 0.6])
    apart = ops.reach_sources(indptr, indices, frontier, picks)
    assert apart[0] == pytest.approx(1 - (1 - 0.5 * 0.2) * (1 - 0.8 * 0.6))
    together = ops.reach_sources(indptr, indices, frontier, picks, together=True)
    assert together[0] == pytest.approx(0.8 * 0.6 + 0.2 * 0.5 * 0.2)


def test_small_chances_keep_their_digits():
    indptr, indices = np.array([0, 0, 1]), np.array([0])
    for together in (False, True):
        reached = ops.reach_sources(indptr, indices, np.array([0, 1e-12]), np.array([0, 1e-12]), together=together)
        assert reached[0] == pytest.approx(1e-24)


def test_refusals():
    indptr, indices, ones = np.array([0, 1, 2]), np.array([0, 1]), np.ones(2)
    with pytest.raises(InputError, match=r"values to have one entry per node \(2\), got 3"):
        ops.sum_to_sources(indptr, indices, np.ones(3))
    with pytest.raises(InputError, match="values to be a 1-d"):
        ops.sum_to_sources(indptr, indices, np.ones(2, np.float32))
    with pytest.raises(InputError, match=r"indices\[1\] = 2 is not a node id"):
        ops.sum_to_sources(indptr, np.array([0, 2]), ones)
    with pytest.raises(InputError, match=r"indices\[0\] = -1 is not a node id"):
        ops.reach_sources(indptr, np.array([-1, 0]), ones, ones)
    with pytest.raises(InputError, match="check_csc"):
        ops.sum_to_sources(np.array([0, 3, 2]), indices, ones)
    with pytest.raises(InputError, match=r"frontier to be probabilities in \[0, 1\], got 1.0 to 1.5"):
        ops.reach_sources(indptr, indices, np.array([1, 1.5]), ones)
    with pytest.raises(InputError, match=r"row_picks to be probabilities in \[0, 1\], got nan"):
        ops.reach_sources(indptr, indices, ones, np.array([1, np.nan]))
    with pytest.raises(InputError, match="pass one of them"):
        ops.reach_sources(indptr, indices, ones, ones, edge_picks=torch.ones(2), together=True)
    with pytest.raises(InputError, match=r"edge_picks to have one entry per edge \(2\), got 1"):
        ops.reach_sources(indptr, indices, ones, ones, edge_picks=torch.ones(1))
    with pytest.raises(InputError, match=r"order\[1\] = 2 is not a node id"):
        _native.reach_sources(indptr, indices, ones, ones, None, np.array([0, 2]), 1)
