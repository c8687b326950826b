"""What layers pass messages over: a block, a block whose edges ranks share, a graph in shards; degrees and loops."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol, TypeVar

import torch
from torch import Tensor
from typing_extensions import Self

from headrace.pipeline.models.by_parts.parts import Parts

Reduce = Literal["sum", "mean", "max", "min"]


class MessageGraph(Protocol):
    """In-edges of destinations, which are the first of the sources. Layers ask it for all that crosses edges.

    What comes out has gradients to all floating-point arguments. Rows are those that this process has: of nodes that
    it owns, where several share the graph.
    """

    @property
    def num_src(self) -> int:
        """The number of rows of a layer's input."""

    @property
    def num_dst(self) -> int:
        """The number of rows of its output; they belong to the first rows of the input."""

    @property
    def num_edges(self) -> int:
        """The number of edges in this process, and so of entries of weights and scores of edges."""

    def aggregate(self, x: Tensor, *, reduce: Reduce = "sum", weight: Tensor | None = None) -> Tensor:
        """Return the reduced messages ``weight[e] * x[source of e]`` of each destination.

        Parameters
        ----------
        x: [num_src, ...]
            Of float32 or float64.
        reduce
            A mean divides by the number of edges, or by the sum of the weights if given. A destination without edges
            gets 0.
        weight: [num_edges] or [num_edges, heads], optional
            With the dtype of `x`; with heads the rows of `x` are [heads, ...].

        Returns
        -------
        Tensor
            [num_dst, ...].
        """

    def attend(
        self,
        x: Tensor,
        source_scores: Tensor,
        destination_scores: Tensor,
        *,
        edge_scores: Tensor | None = None,
        slope: float = 0.2,
        dropout: float = 0.0,
        key: int = 0,
    ) -> Tensor:
        """Return sums of ``x`` over in-edges, weighted by the softmax of ``leaky_relu(sum of the three scores)`` (GAT).

        Parameters
        ----------
        x: [num_src, heads, ...]
            The values to sum.
        source_scores: [num_src, heads]
        destination_scores: [num_dst, heads]
        edge_scores: [num_edges, heads], optional
        slope
            The slope of ``leaky_relu`` for negative scores.
        dropout
            The probability that the attention of an edge and head is dropped; the masks depend on `key` and the id of
            the edge.

        Returns
        -------
        Tensor
            [num_dst, heads, ...].
        """

    def update_all(
        self,
        message: Callable[..., Tensor],
        x: Tensor,
        *,
        reduce: Reduce = "sum",
        destination: Tensor | None = None,
        edge: Tensor | None = None,
        parameters: Iterable[Tensor] = (),
    ) -> Tensor:
        """Return the reduced messages ``message(source_rows, destination_rows, edge_rows)`` of each destination.

        Parameters
        ----------
        message
            The function, of rows of some edges, [n, ...] or None where there are none; it returns [n, ...]. A message
            depends on the rows of its own edge alone.
        x: [num_src, ...]
            Rows of sources.
        reduce
            As for `aggregate`.
        destination: [num_dst, ...], optional
            Rows of destinations.
        edge: [num_edges, ...], optional
            Rows of edges.
        parameters
            Tensors with gradients that the function uses besides, where they are not parameters of modules.

        Returns
        -------
        Tensor
            [num_dst, ...].
        """


class LoopableGraph(Protocol):
    """Edges with degrees and loops."""

    @property
    @abstractmethod
    def num_dst(self) -> int:
        """Return the number of rows that edges lead to, the first ones."""

    @abstractmethod
    def in_degrees(self) -> Tensor:
        """Return the number of in-edges of each node, on all ranks: int64[num_dst]."""

    @abstractmethod
    def sum_edges(self, values: Tensor) -> Tensor:
        """Return the sums of values of in-edges, on all ranks: [num_edges, ...] to [num_dst, ...]."""

    @abstractmethod
    def with_self_loops(self) -> Self:
        """Return the graph with one loop at each node, in place of any existing loops.

        In arrays of edges the entries of these loops follow all others, in the order of rows.
        """


class GraphShare(LoopableGraph, Protocol):
    """The edges that a rank has of a graph, as adapters of other libraries' layers ask for them."""

    @property
    @abstractmethod
    def num_src(self) -> int:
        """Return the number of rows of nodes that this rank has."""

    @property
    @abstractmethod
    def num_edges(self) -> int:
        """Return the number of entries in arrays of edges of this rank."""

    @property
    @abstractmethod
    def origin(self) -> object:
        """Return the object that a graph has in common with those of other loops, rows or edges made of it."""

    @property
    @abstractmethod
    def parts(self) -> Parts:
        """Return the edges as functions of messages are computed for them."""

    @property
    @abstractmethod
    def destinations(self) -> Tensor:
        """The row of the destination of each edge, int64[num_edges]; -1 if another rank has it."""

    @property
    @abstractmethod
    def self_loops(self) -> Tensor:
        """The positions of edges from a node to itself: int64[n], ascending; the rank with its row has them all."""

    @abstractmethod
    def aggregate(self, x: Tensor, *, reduce: Literal["sum", "mean"] = "sum", weight: Tensor | None = None) -> Tensor:
        """Return the sums or means of messages, as `MessageGraph.aggregate` does: [num_src, ...] to [num_dst, ...]."""

    @abstractmethod
    def over(self, num_dst: int) -> Self:
        """Return the graph with this number of rows that edges may lead to.

        Raises
        ------
        InputError
            If it has others.
        """


Graph = TypeVar("Graph", bound=GraphShare)


class WholeGraph(MessageGraph, GraphShare):
    """A `MessageGraph` over whole neighbourhoods: a rank has all in-edges of the nodes that it owns."""


def with_remaining_loops(graph: Graph, weight: Tensor, fill: float) -> tuple[Graph, Tensor]:
    """Return the graph with one loop at each node, and the weights: those of loops that there were, else `fill`."""
    loops = graph.self_loops
    # The last one of several at a node.
    chosen = loops.new_full((graph.num_dst,), -1).scatter_reduce(0, graph.destinations[loops], loops, "amax")
    of_loops = torch.cat([weight, weight.new_full((1,), fill)])[chosen]  # -1 is the last entry
    return graph.with_self_loops(), torch.cat([weight, of_loops])


def with_loops(graph: Graph, weight: Tensor | None, fill: float) -> tuple[Graph, Tensor | None]:
    """Return the graph with one loop at each node, and weights, if there are some: those of loops, or `fill`."""
    return (graph.with_self_loops(), None) if weight is None else with_remaining_loops(graph, weight, fill)


def factor_of_degrees(graph: GraphShare, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return one over the root of each weighted in-degree, [num_dst]; 0 for 0 (arXiv 1609.02907)."""
    degrees = graph.in_degrees().to(dtype) if weight is None else graph.sum_edges(weight)
    powers = degrees.pow(-0.5)
    return powers.masked_fill(powers == torch.inf, 0.0)


def loop_values(graph: LoopableGraph, values: Tensor, fill: Any) -> Tensor:
    """Return the values of loops at owned nodes: the "mean" or the sum of those of in-edges, or numbers to fill in."""
    if isinstance(fill, str):
        return (means_without_loops if fill == "mean" else sums_without_loops)(graph, values)
    filled = torch.as_tensor(fill, dtype=values.dtype, device=values.device)
    return filled.expand(graph.num_dst, *values.shape[1:])


def sums_without_loops(graph: LoopableGraph, values: Tensor) -> Tensor:
    """Return the sums of values of in-edges that come from other nodes, [num_edges, ...] to [num_dst, ...]."""
    nothing = values.new_zeros(graph.num_dst, *values.shape[1:])
    return graph.with_self_loops().sum_edges(torch.cat([values, nothing]))


def means_without_loops(graph: LoopableGraph, values: Tensor) -> Tensor:
    """Return their means; 0 for a node without such edges."""
    counts = (graph.with_self_loops().in_degrees() - 1).clamp(min=1).to(values.dtype)
    return sums_without_loops(graph, values) * (1 / counts).view(-1, *(1 for _ in values.shape[1:]))
