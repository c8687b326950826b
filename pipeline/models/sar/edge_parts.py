"""The edges of one part as expressions of edges are computed for them, and what these belong to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from headrace.ops.errors import InputError
from headrace.pipeline.models.by_parts.drawing import drawing
from headrace.pipeline.models.by_parts.parts import edge_of_nothing
from headrace.pipeline.models.by_parts.seam import Seam
from headrace.pipeline.models.by_parts.staged import Edges
from headrace.pipeline.models.recomputation import DropoutKeys
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph


@dataclass(eq=False)
class Part:
    """The edges of one part, and the values that have been computed for them.

    Parameters
    ----------
    edges
        The edges.
    tables
        The numbers of tables of sources, by the `id` of the rows of nodes.
    whole
        Values of all edges that have been computed before, by the `id` of their expressions.
    ends: int64[num_edges], optional
        The destinations of all edges, where messages are reduced to edges and `edges` does not have them.
    """

    edges: Edges
    tables: Mapping[int, int]
    whole: Mapping[int, Tensor] = field(default_factory=dict)
    ends: Tensor | None = None
    values: dict[int, Any] = field(default_factory=dict)

    def value(self, value: Any) -> Any:
        """Return the value of an expression for these edges, and anything else as it is."""
        if not isinstance(value, Computed):
            return value
        if id(value) in self.whole:
            return self.edges.of_edges(self.whole[id(value)])
        if id(value) not in self.values:
            computed = value.compute(self)
            self.values[id(value)] = computed if value.has_gradients else tree_map(_detached, computed)
        return self.values[id(value)]

    def of_destinations(self, rows: Tensor) -> Tensor:
        """Return the rows of the destinations of these edges."""
        positions = self.edges.positions
        if self.ends is None or positions is None:
            return self.edges.of_destinations(rows)
        taken = rows.index_select(0, self.ends.index_select(0, positions))
        self.edges.seam.rows_of_edges([taken])
        return taken


class EdgeContext:
    """The graph and the layer that expressions belong to.

    Each operation is computed at once for a single edge that counts for nothing: so its shape is known, and an
    operation that looks at several edges is refused at the line that calls it.

    Parameters
    ----------
    graph
        The graph.

    Attributes
    ----------
    layer
        The name of the class of the layer that runs.
    keys
        The keys of its masks of dropout.
    """

    layer: str
    keys: DropoutKeys

    def __init__(self, graph: ShardedGraph) -> None:
        self.graph = graph
        self._last = edge_of_nothing(graph.num_dst, graph.owned.device)
        self._seam = Seam(_reduce, graph.num_dst, self._last.ids, 0, {})
        self._is_computing = False

    def refusal(self, problem: str) -> InputError:
        """Return the error for what the layer does and a graph in shards cannot answer."""
        return InputError(f"{self.layer}: the layer {problem}, which cannot be computed over shards")

    @property
    def records_gradients(self) -> bool:
        """Whether what is recorded now has gradients; of a function of edges it is asked what that is called in."""
        return self._is_computing or torch.is_grad_enabled()

    def single(
        self, compute: Callable[[Part], Any], rows: Tensor | None = None, states: dict[int, list[Tensor]] | None = None
    ) -> Any:
        """Compute something for one edge, from the first of some rows to the first destination.

        With the same `states` the same random numbers are drawn.
        """
        tables: tuple[Tensor, ...] = ()
        if rows is not None:
            tables = (rows.detach()[:1] if len(rows) else rows.detach().new_zeros(1, *rows.shape[1:]),)
        # Without positions `Edges` looks up the first edge, or a row of zeros where this rank has none.
        edges = Edges(self._last, tables, {}, self._last.destinations, self._seam)
        part = Part(edges, {} if rows is None else {id(rows): 0})
        if self._is_computing:  # a function of edges, which reads rows
            return compute(part)
        self._is_computing = True
        try:
            with torch.no_grad(), drawing({} if states is None else states, 0, restore=True), self._seam:
                return compute(part)
        finally:
            self._is_computing = False
            self._seam.used.clear()  # rows with gradients hold expressions, a cycle that no collector sees


def _reduce(kind: str, _: Tensor) -> tuple[Tensor, bool]:
    raise InputError(f"values of edges: expected a {kind} over them in update_all() or edge_softmax(), got another one")


class Computed(ABC):
    """A computation for the edges of one part at a time.

    Parameters
    ----------
    context
        What it belongs to.
    parents
        What it is computed from.

    Attributes
    ----------
    sources
        Rows of nodes, [num_src, ...], of which it reads those of sources, by `id`.
    has_gradients
        Whether it was recorded where gradients are.
    """

    def __init__(self, context: EdgeContext, parents: Iterable[Computed]) -> None:
        self.context, self.parents = context, tuple(parents)
        self.has_gradients = context.records_gradients
        self.sources: dict[int, Tensor] = {}
        for parent in self.parents:
            self.sources |= parent.sources

    @abstractmethod
    def compute(self, part: Part) -> Any:
        """Return the value for the edges of one part."""

    def check_unchanged(self) -> None:  # noqa: B027 - most cannot change
        """Refuse it where it would be another value by now than when it was recorded."""


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value
