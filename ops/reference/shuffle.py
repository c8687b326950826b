"""Slow, obvious version of `headrace.ops.random.shuffle`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from headrace.ops.reference.random import MASK32, bounded, philox4x32, stream_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def shuffled_range(num_items: int, start: int, stop: int, key: int) -> IntArray:
    """Fisher and Yates up to 2**20 items, beyond that the Feistel network."""
    return fisher_yates(num_items, key)[start:stop] if num_items <= 1 << 20 else feistel(num_items, start, stop, key)


def fisher_yates(num_items: int, key: int) -> IntArray:
    """From the last place to the second: change items with a random place that does not come later."""
    order, words = np.arange(num_items), stream_words(key, 0)
    for i in range(num_items - 1, 0, -1):
        j = bounded(words, i + 1)
        order[[i, j]] = order[[j, i]]
    return order


def feistel(num_items: int, start: int, stop: int, key: int) -> IntArray:
    """Feistel network of ten rounds on an even grid, with cycle walking."""
    root = math.isqrt(max(num_items, 1) - 1) + 1
    columns = root + root % 2
    least = -(-num_items // columns)
    rows = least + least % 2

    def addend(number: int, other: int, size: int) -> int:
        high, low, *_ = philox4x32((other & MASK32, other >> 32, number, 0), (key & MASK32, key >> 32))
        return (high << 32 | low) * size >> 64

    def permute(value: int) -> int:
        row, column = divmod(value, columns)
        for number in range(0, 10, 2):
            row = (row + addend(number, column, rows)) % rows
            column = (column + addend(number + 1, row, columns)) % columns
        return row * columns + column

    def walk(position: int) -> int:
        item = permute(position)
        while item >= num_items:
            item = permute(item)
        return item

    return np.array([walk(position) for position in range(start, stop)], dtype=np.int64)
