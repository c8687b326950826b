"""Edge attributes that a graph is sampled by: checked, converted where kernels need it, and watched for changes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headrace.ops import InputError, check_weights
from headrace.ops.borrowed import check_memory
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.graph_machinery import destinations_of
from headrace.pipeline.data.seen import Seen, note, of_weight

if TYPE_CHECKING:
    from headrace.pipeline.data.graph_view import GraphView

#: What float32 holds exactly; other integers become float64.
_NARROW = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16)

#: As in ops/native/weighted/weights.cpp: below it quotients of logarithms overflow.
_SMALLEST = 64.0 / sys.float_info.max


@dataclass(frozen=True)
class EdgeWeights:
    """One edge attribute as samplers take it.

    Samplers keep tables made of the weights, so weights that change later would be sampled by half: some picks by the
    old ones, some by the new. They are refused (`headrace.pipeline.data.seen`).

    Parameters
    ----------
    attribute: [num_edges]
        What the graph holds.
    values: float32[num_edges] or float64[num_edges]
        The same numbers; the attribute itself where it has one of these dtypes.
    seen
        The attribute when it was checked.
    """

    attribute: Tensor
    values: Tensor
    seen: Seen

    @staticmethod
    def of(graph: GraphView, name: str) -> EdgeWeights:
        """Check an edge attribute of a graph, in CSC order.

        Raises
        ------
        InputError
            If it is not one real number per edge, or one is negative, infinite or undefined: the message names the
            edge in the order in which the edges were given.
        """
        attribute = graph.edge_attrs_csc[name]
        if attribute.ndim != 1 or attribute.is_complex():
            raise InputError(
                f"Graph: expected edge attribute {name!r} to be one real number per edge to sample by it, got "
                f"{describe(attribute)}; pass one of its columns as an edge attribute of its own"
            )
        check_memory(attribute, f"edge attribute {name!r}", "Graph")
        seen = Seen(  # before the values are read, so that a change in between is seen
            attribute,
            f"edge attribute {name!r}",
            f"Graph: expected edge attribute {name!r} to stay as it was when a plan first sampled by it",
            "make a new graph with the new weights",
        )
        values = attribute
        if attribute.dtype not in (torch.float32, torch.float64):
            values = attribute.to(torch.float32 if attribute.dtype in _NARROW else torch.float64)
        try:
            check_weights(graph.indptr, values)
        except InputError as error:
            problem = _wrong_edge(graph, name, values)
            if problem is None:
                raise
            raise InputError(problem) from error
        note(graph, of_weight(name), [seen])
        return EdgeWeights(attribute, values, seen)


def _wrong_edge(graph: GraphView, name: str, values: Tensor) -> str | None:
    """Return which edge has a weight that cannot be, the first in the user's order; None where it is a sum."""
    cannot_be = ~((values >= 0) & (values <= sys.float_info.max))  # NaN too
    too_small = (values > 0) & (values < _SMALLEST)
    positions = (cannot_be | too_small).nonzero().reshape(-1)
    if len(positions) == 0:
        return None
    edges = graph.original_edge_ids(positions)
    first = int(edges.argmin())
    position, edge = positions[first], int(edges[first])
    source = int(graph.indices[position])
    destination = int(destinations_of(graph, position))
    more = "" if len(positions) == 1 else f" (and {len(positions) - 1} more edges have such weights)"
    return (
        f"Graph: expected edge attribute {name!r} to hold finite weights that are 0 or at least {_SMALLEST:.2g}, got "
        f"{values[position].item()} for edge {edge}, from node {source} to node {destination}{more}; give edges that "
        "are not to be drawn the weight 0"
    )
