"""Entries for rows of features, and for what is known of single ids: owners and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.ops import _native, reference

from fuzz.draw import Draw
from fuzz.entry import Entry, values


def _use_huge_pages(array: np.ndarray, num_bytes: Any) -> int:
    """The address is an array's; any size that does not reach beyond it."""
    if isinstance(num_bytes, int):
        num_bytes = min(num_bytes, array.nbytes)
    return _native.use_huge_pages(array.ctypes.data, num_bytes)


def _huge_arguments(draw: Draw) -> list[Any]:
    return [np.zeros(draw.one_of(0, 1, 100, 1 << 23), np.uint8), draw.one_of(0, 1, 1 << 21, 1 << 23)]


def _gather(source: np.ndarray, out: np.ndarray, ids: Any, num_threads: Any, places: Any) -> Any:
    """Addresses, strides and sizes come from arrays that live as long as the call; ids and places are anything."""
    stride, width = source.strides[0], source.shape[1]
    addresses = (source.ctypes.data, len(source), stride, width, ids, out.ctypes.data)
    _native.gather_rows(*addresses, num_threads, places, len(out))
    return out


def _gather_arguments(draw: Draw) -> list[Any]:
    rows, width, count = draw.integer(0, 20), draw.one_of(0, 1, 3, 16, 64, 100), draw.integer(0, 40)
    source = np.arange(rows * (width + 5), dtype=np.uint8).reshape(rows, width + 5)[:, 2 : 2 + width]
    # Twice the room, as damaged ids may be up to twice as many and one more.
    room = 2 * count + 10
    places = np.random.default_rng(draw.integer(0, 99)).permutation(room)[:count] if draw.chance(0.5) else None
    return [
        source[:: draw.one_of(1, -1)],
        np.zeros((room, width), np.uint8),
        draw.ids(count, rows, draw.one_of(np.int32, np.int64)),
        draw.threads(),
        places,
    ]


def _check_gather(arguments: list[Any], answer: Any) -> None:
    source, out, ids, _, places = arguments
    written = np.arange(len(ids)) if places is None else values(places)
    if len(np.unique(written)) == len(written):  # else who came last is anyone's guess
        assert np.array_equal(out[written], source[values(ids)])
    left = np.ones(len(out), bool)
    left[written] = False
    assert not out[left].any()


_NUMBERS = {"float16": np.float16, "float32": np.float32, "float64": np.float64, "int8": np.int8, "uint8": np.uint8}


def _decode(
    source: np.ndarray, out: np.ndarray, ids: Any, scale: Any, zero_point: Any, dtypes: Any, num_threads: Any
) -> Any:
    """Addresses and sizes come from arrays that live as long as the call; the rest is anything."""
    _native.decode_rows(
        source.ctypes.data,
        len(source),
        source.strides[0],
        source.shape[1],
        dtypes[0],
        scale,
        zero_point,
        ids,
        out.ctypes.data,
        dtypes[1],
        num_threads,
    )
    return out


def _decode_arguments(draw: Draw) -> list[Any]:
    rows, width, count = draw.integer(0, 20), draw.one_of(0, 1, 3, 16, 100), draw.integer(0, 40)
    dtypes = (draw.one_of(*_NUMBERS), draw.one_of("float16", "float32", "float64", "int8", "bfloat", 3))
    source = np.arange(rows * (width + 5)).reshape(rows, width + 5).astype(_NUMBERS[dtypes[0]])[:, 2 : 2 + width]
    scale = np.full(width, 0.5, np.float32) if draw.chance(0.5) else None
    zero_point = None if scale is None else np.full(width, 3, np.float32)
    ids = draw.ids(count, rows, draw.one_of(np.int32, np.int64)) if draw.chance(0.7) else None
    room = max(2 * count + 10, rows)
    out = np.zeros((room, width), _NUMBERS.get(dtypes[1], np.float64))
    return [source, out, ids, scale, zero_point, dtypes, draw.threads()]


def _check_decode(arguments: list[Any], answer: Any) -> None:
    source, out, ids, scale, zero_point, dtypes, _ = arguments
    rows = source if ids is None else source[values(ids)]
    how = (None, None) if scale is None else (values(scale), values(zero_point))
    expected = reference.decode_rows(rows, dtypes[1], *how)
    assert np.array_equal(answer[: len(rows)].astype(np.float64), expected, equal_nan=True)
    assert not out[len(rows) :].any()


def _parts(draw: Draw) -> int:
    """A number of parts, rarely one that is none: 2**30 of them would be honest work."""
    return draw.one_of(0, -1, 1 << 31, 1 << 63) if draw.chance(0.05) else draw.integer(1, 9)


def hash_arguments(draw: Draw) -> list[Any]:
    return [draw.ids(draw.integer(0, 40), 1 << 62, np.int64), _parts(draw)]


def check_hash(arguments: list[Any], answer: Any) -> None:
    ids, num_parts = arguments
    assert np.array_equal(answer, reference.hash_owners(values(ids), int(num_parts)))


def owners_arguments(draw: Draw) -> list[Any]:
    num_parts = _parts(draw)
    return [draw.ids(draw.integer(0, 40), max(1, min(num_parts, 9)), np.int32), num_parts]


def group_arguments(draw: Draw) -> list[Any]:
    owners, num_parts = owners_arguments(draw)
    num_ids = len(owners) + draw.one_of(0, 0, 0, 0, 1)
    return [draw.ids(num_ids, 1 << 62, np.int64), owners, num_parts, draw.integer(0, max(0, min(num_parts, 9) - 1))]


def check_group(arguments: list[Any], answer: Any) -> None:
    ids, owners, num_parts, first = arguments
    grouped, places, counts = answer
    grouped_ids = np.zeros(len(values(owners)), np.int64) if ids is None else values(ids)  # none: places alone
    expected = reference.group_by_owner(grouped_ids, values(owners), int(num_parts), int(first))
    for found, array in zip((grouped, places, counts), expected, strict=True):
        assert np.array_equal(found, array) or (ids is None and found is grouped)


def dropout_arguments(draw: Draw) -> list[Any]:
    width = draw.one_of(0, 1, 2, 5, 33)
    return [
        draw.key(),
        draw.ids(draw.integer(0, 20), 1 << 62, np.int64),
        width,
        draw.integer(0, 1 << 32),
        draw.threads(),
    ]


def check_dropout(arguments: list[Any], answer: Any) -> None:
    key, ids, width, threshold, _ = arguments
    expected = reference.dropout_mask(int(key), values(ids), int(width), int(threshold))
    assert np.array_equal(values(answer).reshape(expected.shape), expected)


def _num_ids(draw: Draw) -> Any:
    """How many ids there may be: a few blocks of 384, rarely no such number. 2**32 of them would be honest work."""
    return draw.one_of(1 << 61, 1 << 63, 1 << 64, -1, 1.5) if draw.chance(0.05) else draw.integer(0, 1_000)


def _set(draw: Draw, num_ids: Any) -> np.ndarray:
    """Ids of a set, ascending but for one that is none."""
    below = num_ids if isinstance(num_ids, int) and 0 <= num_ids < 1 << 20 else 1_000
    return np.unique(draw.ids(draw.integer(0, 400), below, np.int64))


def _rank_arguments(draw: Draw) -> list[Any]:
    num_ids = _num_ids(draw)
    return [_set(draw, num_ids), num_ids]


def _check_ranks(arguments: list[Any], answer: Any) -> None:
    """Each id of the set is where it is in the set; others are not in it."""
    ids, num_ids = values(arguments[0]), int(arguments[1])
    expected = np.full(num_ids, -1, np.int64)
    expected[ids] = np.arange(len(ids))
    assert np.array_equal(_native.find_rows(answer, num_ids, np.arange(num_ids)), expected)


def _find(ids: np.ndarray, cut: int, num_ids: Any, asked: Any) -> Any:
    """The blocks are right, as no function can test them, but for their number."""
    blocks = _native.rank_rows(ids, 1_000)
    return _native.find_rows(blocks[: len(blocks) - cut], num_ids, asked)


def _find_arguments(draw: Draw) -> list[Any]:
    ids = np.unique(np.random.default_rng(draw.key()).integers(0, 1_000, draw.integer(0, 400)))
    num_ids = draw.one_of(0, 384, 1_152, 1_153, 1 << 62, -1) if draw.chance(0.1) else 1_000
    return [ids, draw.one_of(0, 0, 0, 0, 0, 1, 8), num_ids, draw.ids(draw.integer(0, 40), 1_000, np.int64)]


def _check_find(arguments: list[Any], answer: Any) -> None:
    ids, _, _, asked = arguments
    expected = np.full(1_152, -1, np.int64)  # those of whole blocks
    expected[ids] = np.arange(len(ids))
    assert np.array_equal(answer, expected[values(asked)])


ENTRIES = {
    "rank_rows": Entry(_native.rank_rows, _rank_arguments, _check_ranks, frozenset({1}), aligned=True),
    "find_rows": Entry(_find, _find_arguments, _check_find, frozenset({0, 1, 2}), aligned=True),
    "hash_owners": Entry(_native.hash_owners, hash_arguments, check_hash, aligned=True),
    "group_by_owner": Entry(_native.group_by_owner, group_arguments, check_group, aligned=True),
    "dropout_mask": Entry(_native.dropout_mask, dropout_arguments, check_dropout, frozenset({2}), aligned=True),
    "trim_pool": Entry(_native.trim_pool, lambda draw: [], lambda given, answer: None),
    "use_huge_pages": Entry(_use_huge_pages, _huge_arguments, lambda given, answer: None, frozenset({0})),
    "decode_rows": Entry(_decode, _decode_arguments, _check_decode, frozenset({0, 1, 5}), aligned=True),
    "gather_rows": Entry(_gather, _gather_arguments, _check_gather, frozenset({0, 1, 3}), aligned=True),
}
