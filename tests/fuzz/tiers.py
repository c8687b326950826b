"""Entries for rows that lie in several tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from headrace import ops
from headrace.ops import _native, reference

from fuzz.draw import Draw
from fuzz.entry import Entry, values


def _locate_arguments(draw: Draw) -> list[Any]:
    num_rows, num_devices = draw.integer(0, 40), draw.integer(0, 5)
    rank = np.array(draw.random.sample(range(num_rows), num_rows), draw.one_of(np.int32, np.int64))
    ids = draw.ids(draw.integer(0, 40), num_rows, draw.one_of(np.int32, np.int64))
    sizes = [draw.integer(0, 20) * (num_devices > 0), draw.integer(0, 20) * (num_devices > 0)]
    return [
        rank,
        ids,
        *sizes,
        num_devices,
        draw.integer(0, 20),
        draw.integer(0, max(num_devices - 1, 0)),
        draw.threads(),
    ]


def _check_located(arguments: list[Any], answer: Any) -> None:
    rank, ids, replicated, interleaved, num_devices, host, here, _ = arguments
    sizes = map(int, (replicated, interleaved, num_devices, host, here))
    table, row = reference.locate_rows(values(rank), values(ids), *sizes)
    assert values(answer[0]).tolist() == table
    assert values(answer[1]).tolist() == row


def _locate(
    rank: Any, ids: Any, replicated: Any, interleaved: Any, num_devices: Any, host: Any, here: Any, threads: Any
) -> Any:
    sizes = ops.TierSizes(replicated, interleaved, host, num_devices)
    return ops.locate_rows(rank, ids, sizes, here=here, num_threads=threads)


def _gather_arguments(draw: Draw) -> list[Any]:
    lengths = [draw.integer(0, 9) for _ in range(draw.integer(1, 4))]
    width, there = draw.one_of(0, 1, 3, 70), [(t, row) for t, length in enumerate(lengths) for row in range(length)]
    chosen = [draw.one_of(*there) for _ in range(draw.integer(0, 30))] if there else []
    # Twice the room, as damaged rows may be up to twice as many and one more.
    room = 2 * len(chosen) + 10
    places = np.random.default_rng(draw.integer(0, 99)).permutation(room)[: len(chosen)]
    return [
        [np.random.default_rng(length).integers(0, 99, (length, width), np.uint8) for length in lengths],
        np.array([table for table, _ in chosen], np.int32),
        np.array([row for _, row in chosen], np.int64),
        np.zeros((room, width), np.uint8),
        draw.threads(),
        places,
    ]


def _gather(tables: Any, table: Any, row: Any, out: np.ndarray, num_threads: Any, places: Any) -> Any:
    """Addresses and sizes come from arrays that live as long as the call; the rest is anything."""
    addresses = [(one.ctypes.data, len(one)) for one in tables]
    _native.gather_tables(addresses, out.shape[1], table, row, out.ctypes.data, num_threads, places, len(out))
    return out


def _public_gather(tables: Any, table: Any, row: Any, out: np.ndarray, num_threads: Any, places: Any) -> Any:
    return ops.gather_tables(
        [torch.from_numpy(one) for one in tables],
        table,
        row,
        torch.from_numpy(out),
        places=places,
        num_threads=num_threads,
    )


def _check_gathered(arguments: list[Any], answer: Any) -> None:
    tables, table, row, _, _, places = arguments
    out, written = values(answer), np.arange(len(values(row))) if places is None else values(places)
    if len(np.unique(written)) == len(written):  # else who came last is anyone's guess
        for place, one, at in zip(written, values(table), values(row), strict=True):
            assert np.array_equal(out[place], tables[one][at])
    left = np.ones(len(out), bool)
    left[written] = False
    assert not out[left].any()


NATIVE_ENTRIES = {
    "locate_rows": Entry(_native.locate_rows, _locate_arguments, _check_located, aligned=True),
    "gather_tables": Entry(_gather, _gather_arguments, _check_gathered, frozenset({0, 3}), aligned=True),
}
PUBLIC_ENTRIES = {
    "TierSizes": Entry(ops.TierSizes, lambda draw: [draw.integer(-1, 9) for _ in range(4)], lambda given, answer: None),
    "locate_rows": Entry(_locate, _locate_arguments, _check_located),
    "gather_tables": Entry(_public_gather, _gather_arguments, _check_gathered, frozenset({0, 3})),
}
