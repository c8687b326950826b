"""The order of shuffled items: the published contract of every shuffle that headrace makes.

An order of ``num_items`` items is named by a 64-bit stream key, one for each epoch: ``stream_key(seed, epoch, 0, 0,
SHUFFLE)``. Words, streams, blocks and bounded integers are those of `headrace.ops.random.rng`.

*Up to 2**20 items* it is listed by Fisher and Yates: begin with 0, ..., num_items - 1, and for i = num_items - 1, ...,
1 let place i change items with place j, where j is a bounded integer below i + 1, of consecutive words of the stream of
id 0. Bounded integers have no bias, so each of the num_items! orders is as likely as any other.

*Beyond* it is a Feistel network on a grid, which needs no memory. ``columns`` is the smallest even number whose square
is at least num_items, ``rows`` the smallest even number with rows * columns >= num_items. Position p begins in row
p // columns and column p % columns. Round i = 0, ..., 9 adds ``F * rows >> 64`` to the row, modulo rows, if i is even,
and ``F * columns >> 64`` to the column, modulo columns, if i is odd, where ``F = word 4 * i << 32 | word 4 * i + 1`` of
the stream whose id is the coordinate that stays. The item is row * columns + column; while that is no item, the ten
rounds are run on it again (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
"""

from __future__ import annotations

from typing import Final

import torch

from headrace.ops import _native
from headrace.ops._arrays import as_count, as_key
from headrace.ops.errors import InputError

MAX_ITEMS: Final = 1 << 62
MOST_LISTED: Final = 1 << 20
"""Items up to which an order is listed: whoever reads several chunks of one keeps all of it, 8 MB at most."""


def shuffled_range(num_items: int, start: int, stop: int, key: int) -> torch.Tensor:
    """Return the items at positions start, ..., stop - 1 of the order of range(num_items) given by `key`.

    Up to 2**20 items every order is equally likely, and any chunk takes the time of the whole order, about 4 ns per
    item: for several chunks, compute the whole order once. With more items a chunk takes about 130 ns for each of
    its own items, and no memory beyond the result. `headrace.ops.random.shuffle` defines the order of a key.

    Parameters
    ----------
    num_items : int
        In [0, 2**62].
    start, stop : int
        Positions, 0 <= start <= stop <= num_items.
    key : int
        Stream key, one per epoch: ``stream_key(seed, epoch, 0, 0, SHUFFLE)``.

    Returns
    -------
    torch.Tensor
        int64[stop - start].

    Raises
    ------
    InputError
        If the positions are not within the items.
    """
    num_items = as_count(num_items, "num_items", stage="shuffled_range")
    if num_items > MAX_ITEMS:
        message = f"shuffled_range: expected num_items to be at most 2**62, got {num_items}"
        raise InputError(message)
    if not 0 <= start <= stop <= num_items:
        message = f"shuffled_range: expected 0 <= start <= stop <= num_items = {num_items}, got [{start}, {stop})"
        raise InputError(message)
    return torch.from_numpy(_native.shuffled_range(num_items, start, stop, as_key(key, stage="shuffled_range")))
