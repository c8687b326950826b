"""Where tensors have rows: known by the memory that they are in, so that a view shows which dimension has them."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Place(NamedTuple):
    """Which dimension of a tensor has rows, how many of its entries in a row belong to one, and the number of rows.

    The space says of what: rows of several spaces do not meet.
    """

    dim: int
    inner: int
    number: int
    mask: int = 0
    space: int = 0


class Rows(NamedTuple):
    """Where the rows are in some memory: their number, the elements from one to the next, and the first element.

    Of rows that a mask has chosen `mask` is its memory, else 0.
    """

    number: int
    stride: int
    offset: int
    mask: int = 0
    space: int = 0

    def place_in(self, value: Tensor) -> Place | None:
        """Return where a tensor in this memory has rows; None if it has not all of them."""
        number, stride, offset, mask, space = self
        if (value.storage_offset() - offset) % (number * stride) >= stride:
            return None
        for dim, (size, step) in enumerate(zip(value.shape, value.stride(), strict=True)):
            if 0 < step <= stride and stride % step == 0 and size * step % (number * stride) == 0:
                return Place(dim, stride // step, number, mask, space)
        return None
