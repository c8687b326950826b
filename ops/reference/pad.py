"""Slow, obvious version of `headrace.ops.sampling.pad`: the oracle of its tests."""

from __future__ import annotations

from collections.abc import Sequence


def pad_rows(values: Sequence[object], counts: Sequence[int], sizes: Sequence[int], fill: object) -> list[object]:
    """Return the rows of each hop, and behind them as many of `fill` as its size leaves room for."""
    given, out = list(values), []
    for count, size in zip(counts, sizes, strict=True):
        out += given[:count] + [fill] * (size - count)
        given = given[count:]
    return out


def real_edges(
    indptr: Sequence[int], indices: Sequence[int], counts: Sequence[int], sizes: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the source and the destination of each edge, as padded rows."""
    places = [place for place, row in enumerate(pad_rows(range(sum(counts)), counts, sizes, None)) if row is not None]
    rows = range(len(indptr) - 1)
    return [(places[indices[edge]], places[row]) for row in rows for edge in range(indptr[row], indptr[row + 1])]
