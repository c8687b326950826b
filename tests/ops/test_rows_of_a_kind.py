"""Weighted picks of a stretch, kind by kind, are those of the other instruction sets and of the reference.

What a row is picked by depends on its degree and on whether a shortcut tells; these graphs are made so that shortcuts
fail.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

from headrace.ops import BlockSampler, NeighborRule, _native, reference

SETS = [one for one in _native.InstructionSet if _native.has(one)]
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
    """Three stretches and some rows of degrees up to 80, and a few longer rows."""
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


def test_picks_are_those_of_the_reference(graph, instructions):
    indptr, indices = graph
    seeds = np.arange(600)
    weights = random_of(len(indices), 4).astype(np.float32) + np.float32(0.01)
    sampler = BlockSampler(indptr, torch.from_numpy(indices), weights=weights)
    hop = sampler.sample(torch.from_numpy(seeds), [NeighborRule(10)], [KEY]).hops[0]
    right = reference.sample_hop(indptr, indices, seeds, NeighborRule(10), KEY, weights=weights)
    np.testing.assert_array_equal(hop.indptr, right.indptr)
    np.testing.assert_array_equal(hop.edge_ids, right.positions)


@pytest.mark.parametrize("closeness", [1e-3, 1e-5, 1e-6, 1e-7, 1e-9, 1e-12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_races_that_are_nearly_lost(dtype, closeness, instructions):
    """All edges of a row arrive within this of each other, so that no rounding of the times may decide."""
    num_rows, degree, wanted = 400, 14, 10
    random = np.random.default_rng(5)
    times = np.array(
        [
            [reference.negative_log(reference.unit_interval(variate)) for variate in islice(variates, degree)]
            for variates in (reference.stream_variates(KEY, row) for row in range(num_rows))
        ]
    )
    weights = (times * (1 + closeness * random.random(times.shape))).astype(dtype)
    indptr = np.arange(num_rows + 1) * degree
    sampler = BlockSampler(indptr, np.zeros(indptr[-1], np.int32), weights=weights.ravel())
    hop = sampler.sample(torch.arange(num_rows), [NeighborRule(wanted)], [KEY]).hops[0]
    arrivals = times / weights.astype(np.float64)
    right = np.sort(np.argsort(arrivals, axis=1, kind="stable")[:, :wanted], axis=1) + indptr[:-1, None]
    np.testing.assert_array_equal(hop.edge_ids, right.ravel())
