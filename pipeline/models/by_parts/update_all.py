"""Reduced messages of a function of rows of both ends and of the edge, where edges come by parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

from headrace.ops.aggregate.precision import widened
from headrace.ops.errors import InputError
from headrace.pipeline.data import is_one_of
from headrace.pipeline.models.by_parts.parts import Parts
from headrace.pipeline.models.by_parts.staged import Edges, Staged

#: A function of the rows of sources, of destinations and of edges, each [n, ...] or None, that returns [n, ...].
Message: TypeAlias = Callable[..., Tensor]


def update_all(
    parts: Parts, message: Message, x: Tensor, reduce: str, destination: Tensor | None, edge: Tensor | None, key: int
) -> Tensor:
    """Return the reduced messages, [num_dst, ...].

    Parameters
    ----------
    parts
        The edges.
    message
        The function.
    x: [num_src, ...]
    reduce
        "sum", "mean", "max" or "min"; 0 for a destination without edges.
    destination: [num_dst, ...], optional
    edge: [num_edges, ...], optional
    key
        Of masks of dropout.
    """
    if not is_one_of(reduce, ("sum", "mean", "max", "min")):
        raise InputError(f'update_all: expected reduce to be "sum", "mean", "max" or "min", got {reduce!r}')
    x = widened(x)

    def body(edges: Edges) -> Tensor:
        at_edges = None if destination is None else edges.of_destinations(destination)
        of_edges = None if edge is None else edges.of_edges(edge)
        messages = message(edges.of_sources(0), at_edges, of_edges)
        if not isinstance(messages, Tensor) or messages.shape[:1] != edges.index.shape:
            got = list(messages.shape) if isinstance(messages, Tensor) else type(messages).__name__
            raise InputError(f"update_all: expected messages of [{len(edges.index)}, ...], one per edge, got {got}")
        return edges.reduce(widened(messages), reduce)

    targets = () if destination is None else (destination,)
    return Staged(body, (x,), parts, False, key, f"messages, reduced to the {reduce}", targets)()
