"""Reducers of layer-wise rules for the fuzzer: one that is right for a hop of a single part, one that lies."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.draw import Draw

MOST_CALLS = 20  # lies may go on forever


class Alone:
    """The part is the whole."""

    def begin(self, candidates: np.ndarray) -> None:
        self._num_candidates = len(candidates)

    def counted(self) -> np.ndarray:
        return np.ones(self._num_candidates, np.bool_)

    def largest(self, values: np.ndarray) -> np.ndarray:
        return values

    def sums(self, values: np.ndarray) -> np.ndarray:
        return values

    def total(self, values: np.ndarray) -> np.ndarray:
        return values

    def gather(self, values: np.ndarray) -> np.ndarray:
        return values


class Liar(Alone):
    """Answers with other numbers, other arrays or no arrays, and gives up in the end."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._num_calls = 0

    def counted(self) -> Any:
        return self._lie(super().counted())

    def largest(self, values: np.ndarray) -> Any:
        return self._lie(values)

    def sums(self, values: np.ndarray) -> Any:
        return self._lie(values)

    def total(self, values: np.ndarray) -> Any:
        return self._lie(values)

    def gather(self, values: np.ndarray) -> Any:
        return self._lie(values)

    def _lie(self, truth: np.ndarray) -> Any:
        self._num_calls += 1
        if self._num_calls > MOST_CALLS:
            message = "enough"
            raise ValueError(message)
        if self._draw.chance(0.3):
            return truth
        if self._draw.chance(0.3):
            return self._draw.damaged(truth, aligned=True)
        options: dict[str, list[Any]] = {
            "b": [True, False],
            "i": [0, 1, -1, 1 << 62, -(1 << 63), (1 << 63) - 1, 5],
            "f": [0.0, -1.0, 1.0, 1e300, 5e-324, np.inf, -np.inf, np.nan],
        }
        lies = [self._draw.one_of(*options[truth.dtype.kind]) for _ in range(truth.size)]
        return np.array(lies, truth.dtype).reshape(truth.shape)


def reducer(draw: Draw) -> Any:
    """No reducer, one that is right, or a liar."""
    return draw.one_of(None, None, Alone(), Liar(draw))
