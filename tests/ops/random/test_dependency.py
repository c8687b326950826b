"""Variates of batches that depend on each other: their law, by themselves and together, and their keys."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from headrace.ops import BlendedKey, InputError, _native, dependent_key, reference, rng, stream_key

NODES = np.arange(400_000)
NUMBERS = np.zeros(len(NODES), np.uint32)


def variates(key):
    """Real variates of nodes."""
    if isinstance(key, BlendedKey):
        key = _native.VariateKeys(key.key, key.next_key, key.step, key.num_steps)
    return (_native.labor_variates(key, NODES, NUMBERS) >> np.uint64(12)).astype(float) * 2.0**-52


def of_batch(batch, kappa):
    return variates(dependent_key(5, 0, batch, 0, kappa))


# --- the normal distribution ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_quantiles_are_those_of_the_normal_distribution():
    """To 2e-15 of SciPy's, which are as exact; all ends included."""
    random = np.random.default_rng(0)
    words = [0, 2**64 - 1, 2**63, 2**63 - 1, *(int(v) >> int(s) for v, s in zip(
        random.integers(0, 2**64, 20_000, np.uint64), random.integers(0, 52, 20_000), strict=True))]  # fmt: skip
    for word in words:
        u = reference.unit_interval(word)
        exact = special.ndtri(u) if u < 0.5 else -special.ndtri(1 - u)
        assert reference.normal_quantile(u) == pytest.approx(exact, rel=4e-15, abs=1e-17)
        assert reference.normal_quantile(1 - u) == -reference.normal_quantile(u)


def test_variates_of_normal_numbers_are_their_distribution():
    """To 5e-16, and never falling by more; of the negative number comes the complement."""
    for z in np.concatenate([np.linspace(-12, 12, 20_001), np.random.default_rng(1).normal(size=20_000)]).tolist():
        variate = reference.normal_variate(z)
        assert abs(variate - int(special.ndtr(z) * 2.0**64)) <= 5e-16 * 2**64
        assert variate + reference.normal_variate(-z) == 2**64 - 1 or z == 0


@pytest.mark.parametrize("kappa", [2, 3, 256, 2**31 - 1, 2**53])
def test_turns_are_cosine_and_sine(kappa):
    for step in {0, 1, kappa // 3, kappa // 2, kappa - 1}:
        cosine, sine = reference.turn(step / kappa)
        assert cosine == pytest.approx(math.cos(step / kappa * math.pi / 2), rel=0, abs=4e-16)
        assert sine == pytest.approx(math.sin(step / kappa * math.pi / 2), rel=0, abs=4e-16)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("steps", [(1, 4), (2, 4), (3, 4), (1, 256), (255, 256), (3, 7), (1, 2**31 - 1)], ids=str)
def test_kernels_blend_as_the_reference(instructions, dtype, steps):
    random = np.random.default_rng(3)
    for count in [*range(20), 127, 128, 129, 300]:
        sources = random.integers(0, np.iinfo(dtype).max, count, dtype, endpoint=True)
        numbers = random.integers(0, 3, count, np.uint32)
        key = BlendedKey(*(int(one) for one in random.integers(0, 2**64, 2, np.uint64)), *steps)
        right = [reference.labor_variate(key, int(t), int(j)) for t, j in zip(sources, numbers, strict=True)]
        keys = _native.VariateKeys(key.key, key.next_key, key.step, key.num_steps)
        assert _native.labor_variates(keys, sources, numbers).tolist() == right


# --- the law of a batch by itself -------------------------------------------------------------------------------------


def passes(sample):
    """Kolmogorov-Smirnov at 1e-4: of 400,000 variates a distribution function that is off by 0.0036 fails."""
    return stats.kstest(sample, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("step", range(4))
def test_a_batch_by_itself_is_uniform(step):
    assert passes(of_batch(step, 4))


def test_other_blends_are_not_uniform():
    """Linear in the variates, or in normal ones: what would come of a blend without a quarter turn."""
    one, other = of_batch(0, 4), of_batch(4, 4)
    assert not passes((one + other) / 2)
    assert not passes(special.ndtr((special.ndtri(one) + special.ndtri(other)) / 2))
    assert passes(special.ndtr((special.ndtri(one) + special.ndtri(other)) * 0.5**0.5))


def test_nodes_are_independent():
    r = special.ndtri(of_batch(2, 4))
    for distance in (1, 2, 4, 8, 64):
        assert abs(np.corrcoef(r[:-distance], r[distance:])[0, 1]) < 5 / len(r) ** 0.5


# --- of several batches -----------------------------------------------------------------------------------------------

TABLE = {
    1: (0.020, 0.050, 0.100, 0.200, 0.500),
    2: (0.321, 0.399, 0.474, 0.570, 0.750),
    4: (0.631, 0.683, 0.728, 0.782, 0.875),
    16: (0.905, 0.919, 0.931, 0.945, 0.969),
    64: (0.976, 0.980, 0.983, 0.986, 0.992),
    256: (0.994, 0.995, 0.996, 0.997, 0.998),
}


@pytest.mark.parametrize("kappa", TABLE)
@pytest.mark.parametrize("from_end", [2, 1], ids=["within a window", "across windows"])
def test_what_is_kept_stays_as_often_as_the_law_says(kappa, from_end):
    """P(r <= p in the next batch, given that in this one), of two normal variates: exact, and rounded as published."""
    batch = 3 * kappa - from_end
    this, following = of_batch(batch, kappa), of_batch(batch + 1, kappa)
    rho = 0.0 if kappa == 1 else math.cos(math.pi / (2 * kappa))
    for p, rounded in zip((0.02, 0.05, 0.1, 0.2, 0.5), TABLE[kappa], strict=True):
        limit = special.ndtri(p)
        # P(both) = p - the integral of the rest, by the angle between the two: Owen's T.
        exact = 1 - 2 * special.owens_t(limit, ((1 - rho) / (1 + rho)) ** 0.5) / p
        assert exact == pytest.approx(rounded, abs=6e-4)
        stays = following[this <= p] <= p
        assert abs(stays.mean() - exact) < 5 * (exact * (1 - exact) / len(stays)) ** 0.5


def correlation(one, other, kappa):
    return np.corrcoef(*(special.ndtri(of_batch(batch, kappa)) for batch in (one, other)))[0, 1]


@pytest.mark.parametrize("batch", range(5, 12))
def test_consecutive_batches_have_one_correlation(batch):
    """At the end of a window of 4 too, where those that are blended change places."""
    assert correlation(batch, batch + 1, 4) == pytest.approx(math.cos(math.pi / 8), abs=5 / len(NODES) ** 0.5)


@pytest.mark.parametrize("batch", [4, 5, 6, 7])
def test_batches_a_window_apart(batch):
    expected = 0.5 * math.sin(math.pi * (batch % 4) / 4)
    assert correlation(batch, batch + 4, 4) == pytest.approx(expected, abs=5 / len(NODES) ** 0.5)


@pytest.mark.parametrize(("one", "other"), [(4, 12), (5, 13), (7, 16), (6, 40), (4, 8)])
def test_batches_two_windows_apart_are_independent(one, other):
    """And those at the beginnings of windows."""
    assert abs(correlation(one, other, 4)) < 5 / len(NODES) ** 0.5


def test_epochs_and_layers_are_independent():
    one = special.ndtri(of_batch(6, 4))
    for key in (dependent_key(5, 1, 6, 0, 4), dependent_key(5, 0, 6, 1, 4), stream_key(5, 0, 6, 0, rng.NEIGHBOR)):
        assert abs(np.corrcoef(one, special.ndtri(variates(key)))[0, 1]) < 5 / len(NODES) ** 0.5


# --- keys -------------------------------------------------------------------------------------------------------------


def test_keys_are_those_of_windows():
    assert dependent_key(5, 2, 9, 3, 1) == stream_key(5, 2, 9, 3, rng.NEIGHBOR)
    windows = [stream_key(5, 2, window, 3, rng.WINDOW) for window in range(4)]
    assert dependent_key(5, 2, 8, 3, 4) == windows[2]
    assert dependent_key(5, 2, 9, 3, 4) == BlendedKey(windows[2], windows[3], 1, 4)
    assert dependent_key(5, 2, 11, 3, 4) == BlendedKey(windows[2], windows[3], 3, 4)
    assert len({dependent_key(5, epoch, batch, 3, math.inf) for epoch in range(3) for batch in range(3)}) == 1


@pytest.mark.parametrize("kappa", [0, -1, -math.inf, math.nan, 1.5, 4.0, True, "4", None, 2**53 + 1])
def test_what_is_no_dependency_is_refused(kappa):
    with pytest.raises(InputError, match=r"batch_dependency to be an int of at least 1, or math\.inf"):
        dependent_key(0, 0, 0, 0, kappa)


@pytest.mark.parametrize("arguments", [(0, 1, 4, 4), (0, 1, -1, 4), (0, 1, 0.5, 4), (0, 1, 0, 2**54)])
def test_steps_beyond_a_window_are_refused(arguments):
    with pytest.raises(InputError, match="expected 0 <= step < num_steps"):
        BlendedKey(*arguments)


@pytest.mark.parametrize("arguments", [(-1, 1, 0, 4), (0, 2**64, 0, 4), (0, None, 0, 4)])
def test_what_is_no_key_is_refused(arguments):
    with pytest.raises(InputError, match="BlendedKey: expected key to be an int"):
        BlendedKey(*arguments)
