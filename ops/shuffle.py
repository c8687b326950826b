"""Shuffle without memory: any stretch of a keyed permutation of billions of items, on demand."""

from __future__ import annotations

import torch

from headrace.ops import _native
from headrace.ops._arrays import as_count, as_key
from headrace.ops.errors import ItemsError

MAX_ITEMS = 1 << 62


def shuffled_range(num_items: int, start: int, stop: int, key: int) -> torch.Tensor:
    """Return the items at positions start, ..., stop - 1 of the permutation of range(num_items) that `key` names.

    A Feistel network (Luby and Rackoff, 1988) over the smallest power of two that holds all items, with Philox4x32-10
    as round function, is a permutation of that power of two; walking along its cycles past values that are no items
    restricts it to the items (Black and Rogaway, CT-RSA 2002). Memory is O(1) beyond the result, and the cost of an
    item does not depend on `num_items`.

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
    ItemsError
        If the positions do not lie within the items.
    """
    num_items = as_count(num_items, "num_items", stage="shuffled_range", error=ItemsError)
    if num_items > MAX_ITEMS:
        message = f"shuffled_range: num_items must be at most 2**62, got {num_items}"
        raise ItemsError(message)
    if not 0 <= start <= stop <= num_items:
        message = f"shuffled_range: expected 0 <= start <= stop <= num_items = {num_items}, got [{start}, {stop})"
        raise ItemsError(message)
    return torch.from_numpy(_native.shuffled_range(num_items, start, stop, as_key(key, stage="shuffled_range")))
