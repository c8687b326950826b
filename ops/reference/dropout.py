"""Slow, obvious version of `headrace.ops.random.dropout`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.ops.reference.random import MASK64, stream_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def dropout_mask(key: int, ids: IntArray, width: int, threshold: int) -> NDArray[np.bool_]:
    """Keep element j of a row iff word j of the stream of its id is at least the threshold."""
    kept = np.zeros((len(ids), width), dtype=bool)
    for i, identifier in enumerate(ids.tolist()):
        words = stream_words(key, identifier & MASK64)
        for j in range(width):
            kept[i, j] = next(words) >= threshold
    return kept
