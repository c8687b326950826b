"""Checks of arguments that the scores share, and their progress bars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TypeVar

from headrace.ops.errors import InputError
from headrace.pipeline.data import Graph, check_switches
from headrace.pipeline.storage.terminal import progress_bar

T = TypeVar("T")


def check_whole_graph(score: str, graph: object) -> None:
    """Refuse what is no whole graph: scores of a part would miss the other parts' edges."""
    if not isinstance(graph, Graph):
        raise InputError(f"scores.{score}: expected a whole hr.Graph, got {type(graph).__name__}")


def check_damping(score: str, damping: float) -> float:
    """Return the damping as a float of [0, 1), or refuse it."""
    if isinstance(damping, bool) or not isinstance(damping, (int, float)) or not 0 <= damping < 1:
        raise InputError(f"scores.{score}: expected a damping in [0, 1), such as 0.85, got {damping!r}")
    if math.isnan(damping):
        raise InputError(f"scores.{score}: expected a damping in [0, 1), got nan")
    return float(damping)


def shown(steps: Iterable[T], total: int, what: str, unit: str, *, progress: bool) -> Iterator[T]:
    """Yield the steps, behind a progress bar where one is asked for and somebody watches."""
    check_switches(f"scores.{what}", progress=progress)
    yield from progress_bar(steps, shown=progress, total=total, desc=what, unit=unit)
