"""Philox, streams and bounded integers: the published contract of randomness."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headrace.ops import InputError, _native, reference, stream_key

words32 = st.integers(0, 2**32 - 1)

# Known answers for philox4x32-10 from the kat_vectors file of Random123.
KNOWN_ANSWERS = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS, ids=["zeros", "ones", "pi"])
def test_philox_known_answers(counter, key, expected):
    assert list(_native.philox4x32(counter, key)) == expected
    assert list(reference.philox4x32(counter, key)) == expected


@given(st.lists(words32, min_size=4, max_size=4), st.lists(words32, min_size=2, max_size=2))
def test_philox_equals_reference(counter, key):
    assert tuple(_native.philox4x32(counter, key)) == reference.philox4x32(counter, key)


@given(
    st.integers(0, 2**64 - 1), words32, st.integers(0, 2**64 - 1), st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1)
)
def test_stream_key_equals_reference(seed, epoch, batch, layer, purpose):
    assert stream_key(seed, epoch, batch, layer, purpose) == reference.stream_key(seed, epoch, batch, layer, purpose)


@pytest.mark.parametrize("position", range(5))
def test_stream_key_depends_on_every_coordinate(position):
    base = [7, 1, 2, 3, 1]
    other = [value + (i == position) for i, value in enumerate(base)]
    assert stream_key(*base) != stream_key(*other)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((-1, 0, 0, 0, 0), "seed"),
        ((2**64, 0, 0, 0, 0), "seed"),
        ((0, 2**32, 0, 0, 0), "epoch"),
        ((0, 0, -1, 0, 0), "batch"),
        ((0, 0, 0, 2**16, 0), "layer"),
        ((0, 0, 0, 0, 2**16), "purpose"),
        ((1.5, 0, 0, 0, 0), "seed"),
    ],
)
def test_stream_key_refuses_what_does_not_fit(arguments, name):
    with pytest.raises(InputError, match=f"stream_key: expected {name} to be in"):
        stream_key(*arguments)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 20))
def test_stream_words_equal_reference(key, identifier, count):
    assert _native.stream_words(key, identifier, count).tolist() == list(
        islice(reference.stream_words(key, identifier), count)
    )


# Bounds just above a power of two reject almost every other word; 2**32 and beyond take two words.
BOUNDS = [1, 2, 3, 10, 2**31 - 1, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**32, 2**63 + 1, 2**64 - 1]


@pytest.mark.parametrize("bound", BOUNDS)
def test_bounded_integers_equal_reference(bound):
    for identifier in range(20):
        words = reference.stream_words(5, identifier)
        expected = [reference.bounded(words, bound) for _ in range(10)]
        assert _native.bounded_integers(5, identifier, bound, 10).tolist() == expected


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**64 - 1))
def test_bounded_integers_are_below_the_bound(key, bound):
    assert max(_native.bounded_integers(key, 1, bound, 8)) < bound


@pytest.mark.parametrize("bound", [2, 3, 7, 100])
def test_bounded_integers_are_uniform(bound):
    """Chi-square over 200,000 draws, fixed key; a bias of 2 % of one of 100 values (7 sigma... of 2,000) is seen."""
    counts = np.bincount(_native.bounded_integers(11, 3, bound, 200_000).astype(np.int64), minlength=bound)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_bounded_integers_have_no_modulo_bias():
    """With bound 3 * 2**30 a remainder would favour the lowest third 2 : 1 : 1; thirds must come out equal."""
    values = _native.bounded_integers(11, 4, 3 * 2**30, 100_000)
    counts = np.bincount((values // np.uint64(2**30)).astype(np.int64), minlength=3)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_streams_of_neighbouring_ids_and_keys_are_uncorrelated():
    """Correlation of 20,000 pairs has standard deviation 0.007; 0.035 is five of them."""

    def words(key, first):
        return np.array([_native.stream_words(key, first + i, 1)[0] for i in range(20_000)], dtype=float)

    base = words(1, 0)
    for other in (words(1, 1), words(2, 0), words(1 + 2**32, 0)):
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.035
