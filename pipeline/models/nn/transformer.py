"""The layer of graph transformers on every kind of message graph."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from headrace.ops.aggregate.precision import as_narrow_as, widened
from headrace.pipeline.data import check_switches
from headrace.pipeline.models.nn.aggregate import Edges, check_dtype, columns
from headrace.pipeline.models.nn.attention_keys import AttentionKeys, dropout_probability
from headrace.pipeline.models.nn.messages import (
    MessageEdges,
    both_ends,
    by_head,
    columns_of_ends,
    each_end,
    edge_rows,
    graph_of,
    pass_messages,
)


class TransformerConv(nn.Module):
    """Attention of graph transformers (arXiv 2009.03509): ``lin_skip(own row) + attention * lin_value(row)``.

    PyG's ``TransformerConv(in_channels, out_channels, heads, ...)`` with the same parameters, those of ``lin_key``,
    ``lin_query``, ``lin_value`` and ``lin_skip``, ``lin_edge.weight`` and ``lin_beta.weight``, computes the same if
    blocks have no weights. With weights, each edge counts in the softmax in proportion to its weight. Dropout of
    attention draws other numbers than PyG's, as in `GATConv`. On a block of one process, messages are written: an array
    of edges times heads times columns.

    Parameters
    ----------
    in_channels
        Columns; a pair for those of sources and of destinations.
    out_channels
        Columns of each head.
    heads
        Heads.
    concat
        Whether the output concatenates the heads (True) or is their mean.
    beta
        Whether own rows and attention are mixed by a gate, `lin_beta`, in the place of a sum.
    dropout
        Probability that an attention is dropped in training, in [0, 1).
    edge_dim
        Columns of edge features, if any. They are added to keys and values.
    bias
        Whether keys, queries, values and own rows have a bias.
    root_weight
        Whether the node's own row is added, through `lin_skip`; there is no gate without it.

    Raises
    ------
    InputError
        For a probability outside [0, 1), and sizes below 1; when called, for wrong shapes and dtypes.
    """

    lin_edge: nn.Linear | None
    lin_beta: nn.Linear | None

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        beta: bool = False,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        bias: bool = True,
        root_weight: bool = True,
    ) -> None:
        super().__init__()
        self.dropout = dropout_probability("TransformerConv", dropout)
        self.in_channels = columns_of_ends("TransformerConv", in_channels)
        self.out_channels = columns("TransformerConv", "out_channels", out_channels)
        self.heads = columns("TransformerConv", "heads", heads)
        self.edge_dim = None if edge_dim is None else columns("TransformerConv", "edge_dim", edge_dim)
        check_switches("TransformerConv", concat=concat, beta=beta, bias=bias, root_weight=root_weight)
        self.concat, self.root_weight = concat, root_weight
        self.beta = beta and root_weight
        of_sources, of_destinations = each_end(self.in_channels)
        width = self.heads * self.out_channels
        self.lin_key = nn.Linear(of_sources, width, bias=bias)
        self.lin_query = nn.Linear(of_destinations, width, bias=bias)
        self.lin_value = nn.Linear(of_sources, width, bias=bias)
        self.lin_edge = None if self.edge_dim is None else nn.Linear(self.edge_dim, width, bias=False)
        num_columns = width if concat else self.out_channels
        self.lin_skip = nn.Linear(of_destinations, num_columns, bias=bias)
        self.lin_beta = nn.Linear(3 * num_columns, 1, bias=False) if self.beta else None
        self.attention_keys = AttentionKeys()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        for linear in self.children():
            if isinstance(linear, nn.Linear):
                linear.reset_parameters()

    def forward(self, x: Tensor | tuple[Tensor, Tensor], block: Edges, edge_attr: Tensor | None = None) -> Tensor:
        """Return [num_dst, heads * out_channels], or [num_dst, out_channels].

        Parameters
        ----------
        x: [num_src, in_channels], or a pair of [num_src, in_channels[0]] and [num_dst, in_channels[1]]
            The rows of sources, and of destinations if they are not the first sources.
        block
            The edges.
        edge_attr: [num_edges, edge_dim], optional
            The features of the block's edges.
        """
        x, own = both_ends("TransformerConv", x, block, self.in_channels)
        check_dtype("TransformerConv", x, self.lin_key)
        attr = edge_rows("TransformerConv", edge_attr, block, self.edge_dim)
        x, own = widened(x), widened(own)
        features = None if attr is None else attr.to(x.dtype)
        key, value, query = (
            by_head(linear, rows, self.heads)
            for linear, rows in ((self.lin_key, x), (self.lin_value, x), (self.lin_query, own))
        )
        drops = self.dropout if self.training else 0.0

        def body(edges: MessageEdges) -> Tensor:
            keys, values = edges.of_sources(0), edges.of_sources(1)
            if features is not None and self.lin_edge is not None:
                added = by_head(self.lin_edge, edges.of_edges(features), self.heads)
                keys, values = keys + added, values + added
            scores = (edges.of_destinations(query) * keys).sum(-1) / math.sqrt(self.out_channels)
            attention = edges.softmax(scores)
            if drops:
                attention = edges.dropout(attention, drops)
            return edges.reduce(values * attention.unsqueeze(-1), "sum")

        masks = self.attention_keys.next(block) if drops else None
        name = "TransformerConv"
        out = pass_messages(graph_of(block), body, (key, value), (query,), name=name, masks=masks)
        out = as_narrow_as(out.flatten(1) if self.concat else out.mean(1), x)
        if not self.root_weight:
            return out
        skipped: Tensor = widened(self.lin_skip(own))
        if self.lin_beta is None:
            return out + skipped
        gate: Tensor = widened(self.lin_beta(torch.cat([out, skipped, out - skipped], -1))).sigmoid()
        return gate * skipped + (1 - gate) * out

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"
