"""What the fuzzer knows of an entry point, and the oracle every call is held to."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from headrace.ops import _native
from headrace.ops.errors import HeadraceError

from fuzz.draw import Draw
from instruction_sets import SETS

# Refusing is right, as long as the error is one that says so: of ours, or Python's for arguments of wrong types.
REFUSALS = (HeadraceError, TypeError, ValueError, OverflowError, MemoryError)


@dataclass(frozen=True)
class Entry:
    """A function with a generator of its arguments and a check of its answers.

    Attributes
    ----------
    call
        The function.
    arguments
        Positional arguments that may be right.
    check
        Called with the arguments and the answer; raises AssertionError.
    fixed
        Positions of arguments that are never replaced: addresses, whose truth no function can test.
    aligned
        Whether arrays stay aligned. Kernels are never given others: `headrace.ops` copies them first.
    """

    call: Callable[..., Any]
    arguments: Callable[[Draw], list[Any]]
    check: Callable[[list[Any], Any], None]
    fixed: frozenset[int] = frozenset()
    aligned: bool = False

    def run(self, source: random.Random) -> bool:
        """Make a call with arguments drawn from this source. Returns whether it was answered, not refused."""
        draw = Draw(source)
        # Each call chooses: what it does must not depend on the calls before it.
        _native.use_instruction_set(draw.one_of(*SETS))
        _native.share_all_work(draw.chance(0.5))
        arguments = self.arguments(draw)
        for i in range(len(arguments)):
            if i not in self.fixed and draw.chance(0.5 / len(arguments)):
                arguments[i] = draw.damaged(arguments[i], aligned=self.aligned)
        try:
            answer = self.call(*arguments)
        except REFUSALS:
            return False
        finally:
            _native.use_instruction_set(SETS[-1])
            _native.share_all_work(False)
        self.check(arguments, answer)
        return True


# --- checks -----------------------------------------------------------------------------------------------------------


def values(array: Any) -> np.ndarray:
    """The array as NumPy sees it, without a mask, without a graph of gradients."""
    return np.asarray(array.detach().resolve_neg() if hasattr(array, "detach") else array)


def check_rows(indptr: Any, num_rows: int, num_edges: int) -> None:
    """Assert that indptr bounds `num_rows` rows of altogether `num_edges` edges."""
    starts = values(indptr)
    assert starts.shape == (num_rows + 1,)
    assert starts[0] == 0
    assert starts[-1] == num_edges
    assert (np.diff(starts) >= 0).all()


def are_good(edge_weights: Any) -> bool:
    """Whether check_weights would pass them."""
    if edge_weights is None:
        return True
    given = values(edge_weights).astype(float)
    return bool((given >= 0).all() and given.sum() * len(given) <= np.finfo(float).max)


def check_importance(indptr: Any, weights: Any, edge_weights: Any) -> None:
    """Importance weights average to 1 in every row, where the edge weights they come from were good ones."""
    if not are_good(edge_weights):
        return
    for start, stop in pairwise(values(indptr)):
        if start < stop:
            assert abs(values(weights)[start:stop].mean() - 1) < 1e-4


def check_compact(seen: Any, neighbors: Any, ids: Any, indices: Any) -> None:
    """The seen ids come first, all ids are distinct, and they name the neighbours."""
    found, old = values(ids), values(seen)
    assert np.array_equal(found[: len(old)], old)
    assert len(np.unique(found)) == len(found)
    assert np.array_equal(found[values(indices)], values(neighbors))
