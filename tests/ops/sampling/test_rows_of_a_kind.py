"""Weighted picks of a stretch, kind by kind, are those of the other instruction sets and of the reference.

What a row is picked by depends on its degree and on whether a shortcut tells; these graphs are made so that shortcuts
fail.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

from headrace.ops import BlockSampler, GraphError, NeighborRule, _native, reference

from instruction_sets import SETS

pytestmark = pytest.mark.kernel

KEY = 12345


def random_of(num_edges, seed):
    return np.random.default_rng(seed).random(num_edges)


def one_takes_nearly_all(indptr, weights):
    """One edge of each row, for which most draws fall: in 32 draws there are few others."""
    weights = weights.copy()
    starts = indptr[:-1][np.diff(indptr) > 0]
    weights[starts] *= 500
    return weights


WEIGHTS = {
    "equal": lambda indptr, weights: np.ones_like(weights),
    "skewed": lambda indptr, weights: weights**4 + 1e-6,
    "one takes nearly all": one_takes_nearly_all,
    "beyond single precision": lambda indptr, weights: weights * 1e280 + 1e270,
    "below single precision": lambda indptr, weights: weights * 1e-60 + 1e-70,
    "below what shares are made of": lambda indptr, weights: weights * 1e-295 + 1e-300,
    "single and not normal": lambda indptr, weights: (weights * 1e-41 + 1e-43).astype(np.float32),
    "single": lambda indptr, weights: (weights + 0.01).astype(np.float32),
}


@pytest.fixture
def _best_again():
    yield
    assert _native.use_instruction_set(SETS[-1])


@pytest.fixture(scope="module")
def graph():
    """Rows of degrees up to 80, several stretches of them, and a few longer ones."""
    degrees = np.random.default_rng(1).integers(0, 80, 1700)
    degrees[::100] = [200, 255, 256, 257, 300, 500, 1000, 2000, 70, 96, 97, 128, 129, 160, 161, 192, 3000]
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    indices = np.random.default_rng(2).integers(0, len(degrees), indptr[-1])
    return indptr, indices


@pytest.mark.parametrize("fanout", [1, 2, 5, 10, 13, 15, 16, 17])
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.usefixtures("_best_again")
def test_all_sets_pick_alike(graph, kind, fanout):
    indptr, indices = graph
    weights = WEIGHTS[kind](indptr, random_of(len(indices), 3))
    sampler = BlockSampler(indptr, torch.from_numpy(indices).int(), weights=weights)
    seeds = torch.arange(len(indptr) - 1)
    results = []
    for one in SETS:
        assert _native.use_instruction_set(one)
        results.append([sampler.sample(seeds, [NeighborRule(fanout)], [key]).hops[0] for key in range(4)])
    for other in results[1:]:
        for hop, right in zip(other, results[0], strict=True):
            assert torch.equal(hop.indptr, right.indptr)
            assert torch.equal(hop.edge_ids, right.edge_ids)


@pytest.mark.parametrize("kind", ["single", "skewed", "one takes nearly all"])
@pytest.mark.parametrize("fanout", [1, 2, 10, 13, 16])
def test_picks_are_those_of_the_reference(graph, kind, fanout, instructions):
    indptr, indices = graph
    seeds = np.arange(0, 1700, 7)
    weights = WEIGHTS[kind](indptr, random_of(len(indices), 4))
    sampler = BlockSampler(indptr, torch.from_numpy(indices), weights=weights)
    hop = sampler.sample(torch.from_numpy(seeds), [NeighborRule(fanout)], [KEY]).hops[0]
    right = reference.sample_hop(indptr, indices, seeds, NeighborRule(fanout), KEY, weights=weights)
    np.testing.assert_array_equal(hop.indptr, right.indptr)
    np.testing.assert_array_equal(hop.edge_ids, right.positions)


# --- what is picked by kind, by itself --------------------------------------------------------------------------------


def arrivals(vertex, weights):
    """Times at which the edges of a row arrive in its race."""
    variates = islice(reference.stream_variates(KEY, vertex), len(weights))
    logarithms = [reference.negative_log(reference.unit_interval(variate)) for variate in variates]
    return np.array(logarithms) / weights.astype(np.float64)


def winners(vertex, weights, wanted):
    return np.sort(np.argsort(arrivals(vertex, weights), kind="stable")[:wanted])


def picked_by_kind(rows, vertices, fanout, dtype=np.float64):
    """The picks of each row as offsets, or None where it is left."""
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    weights = np.concatenate(rows).astype(dtype)
    positions, left = _native.pick_by_kind(indptr, weights, np.asarray(vertices, np.int64), KEY, fanout)
    counts = np.minimum(np.diff(indptr), fanout)
    picks = np.split(positions, np.cumsum(counts)[:-1])
    found = [one - start for one, start in zip(picks, indptr[:-1], strict=True)]
    for number in left:
        found[number] = None
    return found


needs_vectors = pytest.mark.skipif(SETS[-1].name != "AVX512", reason="rows go by kind with AVX-512 alone")


@needs_vectors
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("wanted", "degree"), [(3, 4), (10, 11), (10, 14), (11, 16), (13, 16), (15, 16)])
def test_a_stretch_of_races(wanted, degree, dtype):
    """Nearly all are told; vertices may have any number."""
    vertices = [*range(500), *(2**62 + i for i in range(12))]
    rows = list(np.random.default_rng(6).random((len(vertices), degree)).astype(dtype) + dtype(0.01))
    found = picked_by_kind(rows, vertices, wanted, dtype)
    assert sum(picks is None for picks in found) < 10
    for vertex, row, picks in zip(vertices, rows, found, strict=True):
        if picks is not None:
            np.testing.assert_array_equal(picks, winners(vertex, row, wanted))


@needs_vectors
@pytest.mark.parametrize("closeness", [1e-2, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 1e-7, 1e-12])
@pytest.mark.parametrize("sign", [1, -1])
def test_races_that_are_nearly_lost(closeness, sign):
    """Of nine clear winners, three clear losers and two that arrive within this of each other: left, or right."""
    random = np.random.default_rng(7)
    vertices = range(500)
    rows = []
    for vertex in vertices:
        times = arrivals(vertex, np.ones(14))
        order = random.permutation(14)
        times[order[:9]] *= 1000
        times[order[9:12]] *= 0.001
        times[order[12]] *= 1 + sign * closeness
        rows.append(times)
    found = picked_by_kind(rows, vertices, 10)
    assert closeness < 1e-3 or sum(picks is None for picks in found) < 50
    for vertex, row, picks in zip(vertices, rows, found, strict=True):
        if picks is not None:
            np.testing.assert_array_equal(picks, winners(vertex, row, 10))


@needs_vectors
@pytest.mark.parametrize("vertex", [100_699, 171_683])
@pytest.mark.parametrize("part", [0.25, 0.5, 0.75])
def test_variates_too_small_for_single_precision(vertex, part):
    """Of these variates the upper 32 bits are a few: the middle of what they may be is far from what they are."""
    times = arrivals(vertex, np.ones(14))
    edge = int(np.argmax(times))  # of the smallest variate
    variate = next(islice(reference.stream_variates(KEY, vertex), edge, None))
    upper = (variate >> 32) + 0.5
    apart = reference.negative_log(upper / 2**32) / times[edge] - 1
    assert upper < 2000
    assert abs(apart) > 1e-5
    others = np.argsort(-times)[1:]
    weights = times.copy()
    weights[others[0]] /= 1 + apart * part
    weights[others[1:10]] *= 1000
    weights[others[10:]] *= 0.001
    (picks,) = picked_by_kind([weights], [vertex], 10)
    assert picks is None


@needs_vectors
@pytest.mark.parametrize(
    ("degree", "fanout"),
    [
        (degree, fanout)
        for degree in (4, 15, 31, 32, 33, 64, 65, 96, 97, 200, 256)
        for fanout in (1, 2, 7, 10, 16)
        if 2 * (degree - fanout) >= fanout  # otherwise taken whole, or a race
    ],
)
def test_a_stretch_of_one_kind(degree, fanout):
    """Whole stretches of rows of a degree, most of which are told."""
    rows = list(np.random.default_rng(8).random((512, degree)) + 0.1)
    found = picked_by_kind(rows, range(512), fanout)
    num_left = sum(picks is None for picks in found)
    if fanout == 16 and degree > 64:
        assert num_left == 512  # sixteen draws would not suffice
    else:
        assert num_left < (300 if degree < 2 * fanout else 60)
    for vertex in range(0, 512, 16):
        if found[vertex] is not None:
            right = reference.pick_weighted(vertex, rows[vertex], fanout, KEY, replace=False)
            assert found[vertex].tolist() == right


@needs_vectors
def test_stretches_that_are_taken_whole_or_left():
    rows = list(np.ones((512, 5)))
    assert all(picks.tolist() == [0, 1, 2, 3, 4] for picks in picked_by_kind(rows, range(512), 5))
    assert all(picks is None for picks in picked_by_kind(list(np.ones((512, 257))), range(512), 10))
    assert picked_by_kind([np.zeros(0)] * 3 + [np.ones(2)], range(4), 5)[3].tolist() == [0, 1]


@pytest.mark.parametrize("degree", [17, 257])
@pytest.mark.parametrize("num_rows", [512, 1024])
def test_full_stretches(degree, num_rows, instructions):
    """Stretches whose rows are all left in the end, by the sampler."""
    weights = np.random.default_rng(9).random(num_rows * degree) ** 8 + 1e-9
    indptr = np.arange(num_rows + 1) * degree
    sampler = BlockSampler(indptr, np.zeros(len(weights), np.int32), weights=weights)
    hop = sampler.sample(torch.arange(num_rows), [NeighborRule(16)], [KEY]).hops[0]
    assert hop.indptr.tolist() == list(range(0, 16 * num_rows + 1, 16))
    for row in (0, 255, 511, num_rows - 1):
        right = reference.pick_weighted(row, weights[row * degree : (row + 1) * degree], 16, KEY, replace=False)
        assert (hop.edge_ids[16 * row : 16 * row + 16] - row * degree).tolist() == right


def test_weights_that_were_changed_are_refused(instructions):
    """A row without weight gives nothing: memory that nobody wrote must not be taken for its picks."""
    degree, weights = 17, np.ones(17 * 40)
    sampler = BlockSampler(np.arange(41) * degree, np.zeros(len(weights), np.int32), weights=weights)
    seeds = torch.arange(40)
    sampler.sample(seeds, [NeighborRule(16)], [KEY])
    weights[:] = 0
    if instructions.name == "AVX512":
        with pytest.raises(GraphError, match="weights must not be changed"):
            sampler.sample(seeds, [NeighborRule(16)], [KEY])
    else:
        assert len(sampler.sample(seeds, [NeighborRule(16)], [KEY]).hops[0].indices) == 0
