"""A hop whose frontier is cut in parts, each solved by a thread of its own: a LayerReducer of plain dictionaries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


class PartReducer:
    """One part's LayerReducer; `calls` names the methods that were called, in order.

    Parameters
    ----------
    number
        Which part.
    barrier, table
        Shared by all parts: where they meet, and what each has brought.
    """

    def __init__(self, number: int, barrier: threading.Barrier, table: list[Any]) -> None:
        self.number = number
        self.calls: list[str] = []
        self._barrier = barrier
        self._table = table

    def begin(self, candidates):
        assert candidates.dtype == np.int64
        self._ids = candidates.tolist()
        assert len(set(self._ids)) == len(self._ids)
        self._all_ids = self._meet("begin", self._ids)

    def counted(self):
        self._meet("counted", None)
        earlier = {t for ids in self._all_ids[: self.number] for t in ids}
        return np.array([t not in earlier for t in self._ids], np.bool_)

    def largest(self, values):
        assert values.dtype == np.float64
        assert values.shape == (len(self._ids),)
        best: dict[int, float] = {}
        for ids, theirs in zip(self._all_ids, self._meet("largest", values), strict=True):
            for t, value in zip(ids, theirs.tolist(), strict=True):
                best[t] = max(best.get(t, 0.0), value)
        return np.array([best[t] for t in self._ids], np.float64)

    def sums(self, values):
        assert values.dtype == np.int64
        assert values.shape[0] == len(self._ids)
        total: dict[int, Any] = {}
        for ids, theirs in zip(self._all_ids, self._meet("sums", values), strict=True):
            for t, row in zip(ids, theirs, strict=True):
                total[t] = total.get(t, 0) + row
        return np.array([total[t] for t in self._ids], np.int64).reshape(values.shape)

    def total(self, values):
        assert values.dtype == np.int64
        return np.sum(self._meet("total", values), axis=0)

    def gather(self, values):
        assert values.dtype == np.int64
        return np.concatenate(self._meet("gather", values))

    def _meet(self, call: str, brought: Any) -> list[Any]:
        self.calls.append(call)
        self._table[self.number] = brought
        self._barrier.wait()
        everything = list(self._table)
        self._barrier.wait()
        return everything


def run_parts(parts: Sequence[Any], work: Callable[[Any, PartReducer], T]) -> tuple[list[T], list[list[str]]]:
    """Run `work(part, reducer)` for all parts at once; return the results and the calls of the reducers."""
    barrier, table = threading.Barrier(len(parts), timeout=30), [None] * len(parts)
    reducers = [PartReducer(number, barrier, table) for number in range(len(parts))]
    results: dict[int, T] = {}
    errors: list[Exception] = []

    def run(number: int) -> None:
        try:
            results[number] = work(parts[number], reducers[number])
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in sorted(errors, key=lambda one: isinstance(one, threading.BrokenBarrierError)):
        raise error
    return [results[number] for number in range(len(parts))], [reducer.calls for reducer in reducers]
