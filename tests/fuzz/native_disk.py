"""Entries for rows of files."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from headrace.ops import _native

from fuzz.draw import Draw
from fuzz.entry import Entry, values

START, NUM_ROWS, WIDTH = 16, 30, 100
ROWS = np.random.default_rng(0).integers(0, 256, (NUM_ROWS, WIDTH), np.uint8)

_FILE = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as the process runs
_FILE.write(bytes(START) + ROWS.tobytes())
_FILE.flush()


def _options(draw: Draw) -> list[Any]:
    """The layout of the rows; then how they are read."""
    engine = _native.has_io_uring() and draw.chance(0.5)
    depth, gap = draw.one_of(1, 2, 64), draw.one_of(0, 1, 250, 1 << 40)
    return [_FILE.fileno(), "rows", START, NUM_ROWS, WIDTH, engine, depth, gap, draw.chance(0.3)]


def _read_arguments(draw: Draw) -> list[Any]:
    count = draw.integer(0, 40)
    room = 2 * count + 10  # damaged ids may be up to twice as many and one more
    places = np.random.default_rng(draw.integer(0, 99)).permutation(room)[:count] if draw.chance(0.5) else None
    out = np.zeros((room, WIDTH), np.uint8)
    return [*_options(draw), draw.ids(count, NUM_ROWS, draw.one_of(np.int32, np.int64)), out, places]


def _read(*arguments: Any) -> Any:
    *options, ids, out, places = arguments
    return _native.DiskReader(*options).read(ids, out.ctypes.data, len(out), places)


def _check_read(arguments: list[Any], answer: Any) -> None:
    ids, out, places = arguments[-3:]
    written = np.arange(len(ids)) if places is None else values(places)
    if len(np.unique(written)) == len(written):  # else who came last is anyone's guess
        assert np.array_equal(out[written], ROWS[values(ids)])
    left = np.ones(len(out), bool)
    left[written] = False
    assert not out[left].any()
    assert answer[0] <= len(np.unique(values(ids)))


def _nothing(given: list[Any], answer: Any) -> None:
    pass


# Of the arguments of a reader those are fixed that say where the rows are and how long: no function can test them.
ENTRIES = {
    "has_io_uring": Entry(_native.has_io_uring, lambda draw: [], _nothing),
    "DiskReader.__init__": Entry(_native.DiskReader, _options, _nothing, frozenset({0})),
    "DiskReader.is_direct": Entry(
        lambda *given: _native.DiskReader(*given).is_direct(), _options, _nothing, frozenset({0})
    ),
    "DiskReader.set_gap_bytes": Entry(
        lambda *given: _native.DiskReader(*given[:-1]).set_gap_bytes(given[-1]),
        lambda draw: [*_options(draw), draw.one_of(0, 1, 1 << 40)],
        _nothing,
        frozenset({0}),
    ),
    "DiskReader.read": Entry(_read, _read_arguments, _check_read, frozenset({0, 2, 3, 4, 10}), aligned=True),
}
