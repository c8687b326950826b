"""Checks of stage parameters, made when a plan is written."""

from __future__ import annotations

from headrace.ops.errors import InputError
from headrace.pipeline.graph import Graph


def check_graph(stage: str, graph: object) -> None:
    """Refuse a subject that is not a graph."""
    if not isinstance(graph, Graph):
        raise InputError(f"{stage}: the first argument must be an hr.Graph; {type(graph).__name__} came")


def check_positive(stage: str, name: str, value: object) -> None:
    """Refuse what is no whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 1 << 31:
        raise InputError(f"{stage}: {name} must be an integer of at least 1, below 2**31; {value!r} came")


def check_probability(stage: str, name: str, value: object) -> None:
    """Refuse what is no probability below 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise InputError(f"{stage}: {name} must be a probability in [0, 1); {value!r} came")
