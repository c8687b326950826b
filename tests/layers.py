"""A small layer for statistical tests: a few destinations of very different in-degrees over shared, skewed sources."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from headrace.ops import Hop, LaborImportance, LaborImportanceRule, Rule, labor_importance, sample_hop, stream_key

NUM_DST, NUM_NODES = 12, 160
DEGREES = (2, 3, 5, 8, 13, 20, 30, 30, 45, 60, 80, 100)


@dataclass(frozen=True)
class Layer:
    """Destinations 0, ..., NUM_DST - 1, whose in-neighbours are distinct and include some destinations."""

    indptr: torch.Tensor
    indices: torch.Tensor
    weights: torch.Tensor | None
    frontier: torch.Tensor

    def hop(self, rule: Rule, draw: int) -> Hop:
        """One of many independent hops."""
        key = stream_key(3, 0, draw, 0, 1)
        return sample_hop(self.indptr, self.indices, self.frontier, rule, key, weights=self.weights)

    @property
    def shares(self) -> np.ndarray:
        """P_ts of every edge."""
        values = np.ones(len(self.indices)) if self.weights is None else self.weights.double().numpy()
        sums = np.add.reduceat(values, self.indptr[:NUM_DST].numpy())
        return values / np.repeat(sums, DEGREES)

    @property
    def rows(self) -> np.ndarray:
        """The destination of every edge."""
        return np.repeat(np.arange(NUM_DST), DEGREES)


def layer(*, weighted: bool) -> Layer:
    """Half of the probability of a source lies on a tenth of the sources."""
    random = np.random.default_rng(4)
    popularity = 1.0 / (1.0 + np.arange(NUM_NODES)) ** 0.7
    popularity = random.permutation(popularity / popularity.sum())
    rows = [np.sort(random.choice(NUM_NODES, degree, replace=False, p=popularity)) for degree in DEGREES]
    indices = np.concatenate(rows)
    indptr = np.zeros(NUM_NODES + 1, np.int64)
    indptr[1:] = np.cumsum([*DEGREES, *[0] * (NUM_NODES - NUM_DST)])
    weights = torch.from_numpy(random.random(len(indices)) + 0.05) if weighted else None
    return Layer(torch.from_numpy(indptr), torch.from_numpy(indices), weights, torch.arange(NUM_DST))


def weights_of(hop: Hop) -> torch.Tensor:
    """float64[num_edges], the weights that a layer-wise hop always has."""
    assert hop.weights is not None
    return hop.weights.double()


def kept_edges(one: Layer, rule: Rule, num_draws: int) -> np.ndarray:
    """bool[num_draws, num_edges]: which edges each of the hops kept."""
    kept = np.zeros((num_draws, len(one.indices)), bool)
    for draw in range(num_draws):
        kept[draw, one.hop(rule, draw).positions.numpy()] = True
    return kept


def assert_frequencies(hits: np.ndarray, probabilities: np.ndarray) -> None:
    """bool[num_draws, n] hits come with the probabilities: each to 5 sigma, and those of 0 or 1 exactly."""
    num_draws = len(hits)
    deviation = np.sqrt(probabilities * (1 - probabilities) / num_draws)
    assert (np.abs(hits.mean(axis=0) - probabilities) <= 5 * deviation + 1e-12).all()


def assert_mean(samples: np.ndarray, expected: float, *, rare: float = 0.0) -> None:
    """The mean of independent samples is as expected to five of its standard errors.

    `rare` is how far an event may move a sample that is too rare to be among them: up to a probability of 15 / n, an
    event fails to happen in n samples about as seldom as five standard deviations.
    """
    error = 5 * samples.std(ddof=1) / np.sqrt(len(samples)) + 15 * rare / len(samples)
    assert abs(samples.mean() - expected) <= error + 1e-12


def assert_variance(samples: np.ndarray, expected: float, *, slack: float = 0.0) -> None:
    """The variance of independent samples is as expected, to five of its standard errors and a relative slack."""
    centred = samples - samples.mean()
    variance = (centred**2).mean()
    error = np.sqrt(max((centred**4).mean() - variance**2, 0.0) / len(samples))
    assert abs(variance - expected) <= 5 * error + slack * expected + 1e-12


def solve(one: Layer, rule: LaborImportanceRule) -> LaborImportance:
    """The probabilities that LABOR-i draws by."""
    return labor_importance(one.indptr, one.indices, one.frontier, rule, weights=one.weights)


def edge_probabilities(one: Layer, rule: LaborImportanceRule) -> np.ndarray:
    """min(1, c_s pi_t) of every edge."""
    solution = solve(one, rule)
    pi = dict(zip(solution.candidates.tolist(), solution.probabilities.tolist(), strict=True))
    pi_of_edges = np.array([pi[t] for t in one.indices.tolist()])
    return np.minimum(1.0, solution.scales.numpy()[one.rows] * pi_of_edges)
