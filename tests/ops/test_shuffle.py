"""The stateless shuffle is a uniform-looking permutation that can be read anywhere."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headrace.ops import ItemsError, reference, shuffled_range, stream_key

from strategies import keys


@given(st.integers(0, 300), keys)
def test_is_a_permutation(num_items, key):
    assert sorted(shuffled_range(num_items, 0, num_items, key).tolist()) == list(range(num_items))


@pytest.mark.parametrize("num_items", [2**16 - 1, 2**16, 2**16 + 1, 100_003])
def test_is_a_permutation_of_many_items(num_items):
    assert np.array_equal(np.sort(shuffled_range(num_items, 0, num_items, 3).numpy()), np.arange(num_items))


@given(st.integers(1, 2**62), keys, st.data())
def test_equals_reference_anywhere(num_items, key, data):
    start = data.draw(st.integers(0, num_items - 1))
    stop = min(num_items, start + 3)
    expected = reference.shuffled_range(num_items, start, stop, key)
    assert np.array_equal(shuffled_range(num_items, start, stop, key).numpy(), expected)


@pytest.mark.parametrize("num_items", [1, 2, 3, 4, 5, 2**31 - 1, 2**31, 2**31 + 1, 2**40 + 12345, 2**62])
def test_edges_of_the_range(num_items):
    """First and last positions give distinct items in range, at sizes where widths change."""
    count = min(num_items, 50)
    first = shuffled_range(num_items, 0, count, 9)
    last = shuffled_range(num_items, num_items - count, num_items, 9)
    both = {*first.tolist(), *last.tolist()}
    assert min(both) >= 0
    assert max(both) < num_items
    assert len(both) == min(num_items, 2 * count)


@given(st.integers(1, 200), keys, st.data())
def test_a_stretch_is_a_slice_of_the_whole(num_items, key, data):
    start = data.draw(st.integers(0, num_items))
    stop = data.draw(st.integers(start, num_items))
    whole = shuffled_range(num_items, 0, num_items, key)
    assert shuffled_range(num_items, start, stop, key).tolist() == whole[start:stop].tolist()


@pytest.mark.parametrize("num_items", [2, 3, 4, 5])
def test_all_orders_are_equally_likely(num_items):
    """Chi-square over 12,000 keys; 120 orders of 5 items get 100 keys each, so a 40 % excess of one is 4 sigma."""
    orders = {order: i for i, order in enumerate(permutations(range(num_items)))}
    counts = np.zeros(len(orders))
    for epoch in range(12_000):
        counts[orders[tuple(shuffled_range(num_items, 0, num_items, stream_key(1, epoch, 0, 0, 0)).tolist())]] += 1
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("num_items", [8, 16, 100])
def test_each_item_is_equally_likely_at_each_place(num_items):
    """Chi-square of the place-by-item table over 4,000 keys."""
    table = np.zeros((num_items, num_items))
    for epoch in range(4_000):
        items = shuffled_range(num_items, 0, num_items, stream_key(2, epoch, 0, 0, 0)).numpy()
        table[np.arange(num_items), items] += 1
    statistic = ((table - 4_000 / num_items) ** 2 / (4_000 / num_items)).sum()
    # Row and column sums are fixed, which leaves (n - 1) ** 2 degrees of freedom and scales the variances alike.
    assert stats.chi2.sf(statistic * (num_items - 1) / num_items, (num_items - 1) ** 2) > 1e-4


def test_neighbouring_items_are_separated():
    """Serial correlation of 100,000 places has standard deviation 0.003; 0.016 is five of them."""
    items = shuffled_range(100_000, 0, 100_000, 5).numpy().astype(float)
    assert abs(np.corrcoef(items[:-1], items[1:])[0, 1]) < 0.016


def test_epochs_are_independent():
    """Of 10,000 items about one stays in place from epoch to epoch (Poisson of mean 1); orders are uncorrelated."""
    one, two = (shuffled_range(10_000, 0, 10_000, stream_key(3, epoch, 0, 0, 0)).numpy() for epoch in (0, 1))
    assert (one == two).sum() < 10
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 0, 0, 0), "num_items must be an int of at least 0"),
        ((2**62 + 1, 0, 1, 0), "at most 2\\*\\*62"),
        ((10, 5, 11, 0), "expected 0 <= start <= stop <= num_items = 10"),
        ((10, 5, 4, 0), "expected 0 <= start <= stop"),
        ((10, -1, 4, 0), "expected 0 <= start <= stop"),
    ],
)
def test_refuses_bad_ranges(arguments, message):
    with pytest.raises(ItemsError, match=message):
        shuffled_range(*arguments)


def test_refuses_keys_of_more_than_64_bits():
    with pytest.raises(ValueError, match="key must be an int in"):
        shuffled_range(10, 0, 10, 2**64)
