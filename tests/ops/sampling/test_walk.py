"""Random walks and PinSAGE neighbours: equal to the reference, bit for bit, and steps of the law they claim."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headrace.ops import (
    InputError,
    WeightSums,
    _native,
    pinsage_neighbors,
    random_walk,
    reference,
    weight_sums,
)

from strategies import csc_graphs, edge_weights, keys, nodes_of, thread_counts

WALKS = 40_000
restarts = st.sampled_from([0.0, 0.3, 0.5, 2.0**-33, 1 - 2.0**-40])


def sums_of(data, graph):
    """Nothing, or the sums of random weights, and the reference's."""
    weights = data.draw(st.one_of(st.none(), edge_weights(graph)))
    if weights is None:
        return None, None
    return weight_sums(graph.indptr, weights), reference.walk.weight_sums(graph.indptr.numpy(), weights.numpy())


def kept_sums(indptr, sums):
    """Those before every fourth edge; 0 where a row begins."""
    kept = np.zeros(len(sums) // 4 + 1)
    for position in range(4, len(sums), 4):
        kept[position // 4] = 0 if position in indptr else sums[position - 1]
    return kept


@pytest.fixture(scope="module")
def skewed():
    """3,000 nodes, 60,000 edges, in-degrees up to some thousands, a third of the nodes without in-edges."""
    random = np.random.default_rng(1)
    dst = (2_000 * random.random(60_000) ** 6).astype(np.int64)
    indptr, indices, _ = reference.coo_to_csc(random.integers(0, 3_000, 60_000), dst, 3_000)
    return torch.from_numpy(indptr), torch.from_numpy(indices).int()


# --- equality ---------------------------------------------------------------------------------------------------------


@given(csc_graphs(), st.integers(0, 7), restarts, keys, thread_counts, st.data())
def test_walks_equal_the_reference(graph, length, restart, key, num_threads, data):
    starts = data.draw(nodes_of(graph, unique=False))
    ids = data.draw(st.one_of(st.none(), st.just(torch.arange(len(starts)) * 7 + 2**40)))
    sums, oracle_sums = sums_of(data, graph)
    if sums is not None:
        assert np.array_equal(sums.sums.numpy(), kept_sums(graph.indptr.numpy(), oracle_sums))
    arguments: dict[str, Any] = {"restart": restart, "key": key}
    got = random_walk(
        graph.indptr, graph.indices, starts, length, ids=ids, weights=sums, num_threads=num_threads, **arguments
    )
    oracle = reference.walk.random_walk(
        graph.indptr.numpy(),
        graph.indices.numpy(),
        starts.numpy(),
        length,
        ids=None if ids is None else ids.numpy(),
        sums=oracle_sums,
        **arguments,
    )
    assert got.dtype == torch.int64
    assert np.array_equal(got.numpy(), oracle)


@given(csc_graphs(), st.integers(0, 4), st.integers(0, 5), st.integers(0, 4), restarts, keys, thread_counts, st.data())
def test_pinsage_equals_the_reference(graph, num_neighbors, num_walks, length, restart, key, num_threads, data):
    frontier = data.draw(nodes_of(graph, unique=False))
    sums, oracle_sums = sums_of(data, graph)
    arguments: dict[str, Any] = {"num_walks": num_walks, "walk_length": length, "restart": restart, "key": key}
    visits = pinsage_neighbors(
        graph.indptr, graph.indices, frontier, num_neighbors, weights=sums, num_threads=num_threads, **arguments
    )
    oracle = reference.walk.pinsage_neighbors(
        graph.indptr.numpy(), graph.indices.numpy(), frontier.numpy(), num_neighbors, sums=oracle_sums, **arguments
    )
    for got, expected in zip((visits.indptr, visits.neighbors, visits.counts), oracle, strict=True):
        assert np.array_equal(got.numpy(), expected)
    assert visits.neighbors.dtype == graph.indices.dtype
    for row in visits.importance().split(visits.indptr.diff().tolist()):
        assert len(row) == 0 or row.mean().item() == pytest.approx(1)


@given(csc_graphs(min_nodes=1), restarts, keys, st.data())
def test_steps_follow_edges(graph, restart, key, data):
    starts = data.draw(nodes_of(graph, unique=False))
    in_neighbors = [set(part.tolist()) for part in graph.indices.split(graph.indptr.diff().tolist())]
    for walk in random_walk(graph.indptr, graph.indices, starts, 6, restart=restart, key=key).tolist():
        for node, following in pairwise(walk):
            if following == -1:
                assert node == -1 or not in_neighbors[node]
            else:
                assert following in in_neighbors[node] or (restart > 0 and following == walk[0])


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
def test_threads_do_not_change_a_bit(skewed, weighted):
    indptr, indices = skewed
    starts = torch.arange(3_000)
    sums = weight_sums(indptr, torch.rand(len(indices), generator=torch.Generator().manual_seed(1)))
    weights = sums if weighted else None

    def walk(num_threads):
        return random_walk(indptr, indices, starts, 9, restart=0.2, key=5, weights=weights, num_threads=num_threads)

    def neighbors(num_threads):
        return pinsage_neighbors(
            indptr, indices, starts, 5, num_walks=10, walk_length=4, key=5, weights=weights, num_threads=num_threads
        )

    one, visits = walk(1), neighbors(1)
    for num_threads in (2, 3, 8):
        assert torch.equal(walk(num_threads), one)
        again = neighbors(num_threads)
        assert torch.equal(again.neighbors, visits.neighbors)
        assert torch.equal(again.counts, visits.counts)


def test_a_walk_is_a_function_of_its_id_alone(skewed):
    """Neither the other walks nor the length matter: shares of a batch give the walks of the batch."""
    indptr, indices = skewed
    starts, ids = torch.arange(3_000), torch.arange(3_000) + 17
    whole = random_walk(indptr, indices, starts, 8, key=3, ids=ids)
    picked = torch.randperm(3_000)[:500]
    assert torch.equal(random_walk(indptr, indices, starts[picked], 8, key=3, ids=ids[picked]), whole[picked])
    assert torch.equal(random_walk(indptr, indices, starts, 3, key=3, ids=ids), whole[:, :4])
    whole_visits = pinsage_neighbors(indptr, indices, starts, 3, num_walks=5, walk_length=3, key=3)
    visits = pinsage_neighbors(indptr, indices, picked, 3, num_walks=5, walk_length=3, key=3)
    rows = whole_visits.neighbors.split(whole_visits.indptr.diff().tolist())
    for place, row in zip(picked.tolist(), visits.neighbors.split(visits.indptr.diff().tolist()), strict=True):
        assert torch.equal(row, rows[place])


# --- laws -------------------------------------------------------------------------------------------------------------

# Node 0 has in-neighbours 1 (twice), 2, 3 and 4; 1 has 0 and 2; 2 has 0; 3 has 4; 4 has none.
SRC = torch.tensor([1, 1, 2, 3, 4, 0, 2, 0, 4])
DST = torch.tensor([0, 0, 0, 0, 0, 1, 1, 2, 3])
WEIGHTS = np.array([1.0, 2.0, 0.0, 3.0, 4.0, 1.0, 5.0, 1.0, 0.5])


def small_graph():
    indptr, indices, order = reference.coo_to_csc(SRC.numpy(), DST.numpy(), 5)
    return torch.from_numpy(indptr), torch.from_numpy(indices), WEIGHTS[order]


def step_law(weighted, restart, start):
    """Transition probabilities; column 5 is "nowhere"."""
    law = np.zeros((6, 6))
    for source, destination, weight in zip(SRC.tolist(), DST.tolist(), WEIGHTS, strict=True):
        law[destination, source] += weight if weighted else 1.0
    law[law.sum(axis=1) == 0, 5] = 1.0
    law /= law.sum(axis=1, keepdims=True)
    law[:5] *= 1 - restart
    law[:5, start] += restart
    return law


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
@pytest.mark.parametrize("restart", [0.0, 0.25])
def test_law_of_one_and_of_two_steps(weighted, restart):
    """Chi-square over where 40,000 walks are after one step and over the pairs after two.

    Power: a place of probability 0.1 that is off by 10 % adds 40 to the statistic, of at most 35 degrees of freedom,
    where 75 is p = 1e-4; a dead end taken for a restart, or a restart drawn after the step, is off by far more.
    """
    indptr, indices, weights = small_graph()
    sums = weight_sums(indptr, torch.from_numpy(weights)) if weighted else None
    for start in (0, 1):
        starts = torch.full((WALKS,), start)
        walks = random_walk(indptr, indices, starts, 2, restart=restart, key=start, weights=sums).numpy() % 6
        law = step_law(weighted, restart, start)
        pairs = law[start][:, None] * law
        for counts, expected in (
            (np.bincount(walks[:, 1], minlength=6), law[start]),
            (np.bincount(walks[:, 1] * 6 + walks[:, 2], minlength=36), pairs.ravel()),
        ):
            possible = expected > 0
            assert counts[~possible].sum() == 0
            if possible.sum() > 1:
                assert stats.chisquare(counts[possible], expected[possible] * WALKS).pvalue > 1e-4


def test_hub_steps_are_uniform():
    """40,000 steps over 1,000 in-edges: z-scores of the counts (40 each) below 5.5 and of mean square near 1."""
    indptr = torch.tensor([0] + [1_000] * 1_000)
    walks = random_walk(indptr, torch.arange(1_000), torch.zeros(WALKS, dtype=torch.int64), 1, key=9)
    z = (np.bincount(walks[:, 1].numpy(), minlength=1_000) - 40) / np.sqrt(40 * 0.999)
    assert np.abs(z).max() < 5.5
    assert abs((z**2).mean() - 1) < 5 * np.sqrt(2 / 1_000)


def test_pinsage_visits_have_the_expected_numbers():
    """Mean visits of each neighbour over 4,000 destinations alike, within 5 sigma of those of the transition law."""
    indptr, indices, _ = small_graph()
    copies, num_walks, length, restart = 4_000, 4, 3, 0.5
    block = indptr[1:]
    many_indptr = torch.cat([indptr[:1], *(block + copy * len(indices) for copy in range(copies))])
    many_indices = torch.cat([indices + 5 * copy for copy in range(copies)])
    visits = pinsage_neighbors(
        many_indptr,
        many_indices,
        torch.arange(copies) * 5,
        5,
        num_walks=num_walks,
        walk_length=length,
        restart=restart,
        key=1,
    )
    counts = np.zeros((copies, 5))
    rows = torch.repeat_interleave(torch.arange(copies), visits.indptr.diff()).numpy()
    counts[rows, visits.neighbors.numpy() % 5] = visits.counts.numpy()
    law, place, expected = step_law(weighted=False, restart=restart, start=0), np.eye(6)[0], np.zeros(6)
    for _ in range(length):
        place = place @ law
        expected += num_walks * place
    error = counts[:, 1:].std(axis=0) / np.sqrt(copies)
    assert (np.abs(counts[:, 1:].mean(axis=0) - expected[1:5]) < 5 * error).all()
    assert (counts[:, 0] == 0).all(), "a destination is not its own neighbour"


def test_ties_go_to_the_first_visited():
    """From the hub, one-step walks visit distinct nodes: neighbours are the first ones in the order of the walks."""
    indptr, indices = torch.tensor([0] + [50] * 51), torch.arange(1, 51)
    visits = pinsage_neighbors(indptr, indices, torch.tensor([0]), 4, num_walks=5, walk_length=1, restart=0.0, key=21)
    words = reference.stream_words(21, 0)
    drawn = [1 + reference.bounded(words, 50) for _ in range(5)]
    assert len(set(drawn)) == 5
    assert visits.neighbors.tolist() == drawn[:4]
    assert visits.counts.tolist() == [1] * 4


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [-0.1, 1.0, float("nan"), "0.5", True])
def test_bad_restart(skewed, restart):
    indptr, indices = skewed
    with pytest.raises(InputError, match="restart to be a probability"):
        random_walk(indptr, indices, torch.arange(3), 2, restart=restart, key=0)


def test_bad_input(skewed):
    indptr, indices = skewed
    with pytest.raises(InputError, match="length to be an int of at least 0"):
        random_walk(indptr, indices, torch.arange(3), -1, key=0)
    with pytest.raises(InputError, match="below 2"):
        random_walk(indptr, indices, torch.arange(3), 2**40, key=0)
    with pytest.raises(InputError, match=r"starts\[1\] = 3000"):
        random_walk(indptr, indices, torch.tensor([0, 3_000]), 1, key=0)
    with pytest.raises(InputError, match="one number of at least 0 per start"):
        random_walk(indptr, indices, torch.arange(3), 1, key=0, ids=torch.tensor([1, -1, 2]))
    with pytest.raises(InputError, match=r"frontier\[0\] = -1"):
        pinsage_neighbors(indptr, indices, torch.tensor([-1]), 1, num_walks=1, walk_length=1, key=0)
    with pytest.raises(InputError, match="weight_sums"):
        random_walk(indptr, indices, torch.arange(3), 1, key=0, weights=cast("WeightSums", torch.ones(60_000)))
    with pytest.raises(InputError, match="of this graph"):
        other = weight_sums(torch.tensor([0, 1]), torch.ones(1))
        random_walk(indptr, indices, torch.arange(3), 1, key=0, weights=other)
    with pytest.raises(InputError, match="run check_csc"):
        random_walk(indptr, indices[:-1], torch.arange(3), 1, key=0)
    with pytest.raises(InputError, match="expected finite weights"):
        weight_sums(indptr, torch.full((60_000,), -1.0))


def test_damaged_graphs_are_noticed():
    with pytest.raises(InputError, match="not a node id"):
        random_walk(torch.tensor([0, 1]), torch.tensor([7]), torch.tensor([0]), 2, key=0)
    with pytest.raises(InputError, match="do not bound a row"):
        random_walk(torch.tensor([0, 9, 1]), torch.tensor([0]), torch.tensor([0]), 2, key=0)


def test_the_compiled_module_checks_what_it_is_given():
    indptr, indices, starts = np.array([0, 1, 2]), np.array([1, 0]), np.zeros(2, np.int64)
    for length in ((1 << 63) - 1, (1 << 64) - 1):  # times the starts they wrap around
        with pytest.raises(MemoryError):
            _native.random_walk(indptr, indices, None, None, starts, None, length, 0, 0, 1)
    with pytest.raises(InputError, match=r"weights to have one entry per edge \(2\), got 1"):
        _native.random_walk(indptr, indices, np.ones(1), np.ones(1), starts, None, 1, 0, 0, 1)
    with pytest.raises(InputError, match=r"sums to have num_edges // 4 \+ 1 = 1 entries, got 2"):
        _native.random_walk(indptr, indices, np.ones(2), np.ones(2), starts, None, 1, 0, 0, 1)
    with pytest.raises(InputError, match=r"ids to have one entry per start \(2\), got 1"):
        _native.random_walk(indptr, indices, None, None, starts, starts[:1], 1, 0, 0, 1)
    with pytest.raises(TypeError, match="weights with their sums, or neither"):
        _native.random_walk(indptr, indices, None, np.ones(1), starts, None, 1, 0, 0, 1)
    with pytest.raises(TypeError, match="weights with their sums, or neither"):
        _native.random_walk(indptr, indices, np.ones(2), None, starts, None, 1, 0, 0, 1)
    with pytest.raises(InputError, match=r"weights to have one entry per edge \(2\), got 0"):
        _native.random_walk(indptr, indices, np.ones(0), np.ones(1), starts, None, 1, 0, 0, 1)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _native.random_walk(indptr, indices, np.ones(2), cast("Any", np.ones(1, np.float32)), starts, None, 1, 0, 0, 1)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _native.random_walk(indptr, indices, None, None, starts, cast("Any", starts * 0.5), 1, 0, 0, 1)
    with pytest.raises(InputError, match="to run from 0 to the number of edges, 2, got 1 to 2"):
        _native.sum_rows(np.array([1, 2]), np.ones(2), 1)


def test_sums_of_what_is_no_graph():
    with pytest.raises(InputError, match="got none"):
        weight_sums(torch.empty(0, dtype=torch.int64), torch.ones(1), trust_weights=True)
    with pytest.raises(InputError, match="expected finite weights"):
        weight_sums(torch.tensor([0, 1]), torch.tensor([-1.0]), trust_weights=cast("bool", "no"))
