"""What layers pass messages over: a block, a block whose edges ranks share, a graph in shards."""

from __future__ import annotations

from typing import Literal, Protocol

from torch import Tensor

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
