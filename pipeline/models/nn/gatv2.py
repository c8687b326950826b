"""The layer of GATv2 on every kind of message graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.ops import InputError
from headrace.ops.aggregate.precision import as_narrow_as, widened
from headrace.pipeline.data import as_number, check_switches, is_one_of
from headrace.pipeline.models.nn.aggregate import Edges, check_dtype, columns, finite, is_block
from headrace.pipeline.models.nn.attention_keys import AttentionKeys, dropout_probability
from headrace.pipeline.models.nn.messages import (
    MessageEdges,
    both_ends,
    by_head,
    columns_of_ends,
    each_end,
    edge_rows,
    graph_of,
    graph_with_loops,
    pass_messages,
)


class GATv2Conv(nn.Module):
    """Dynamic graph attention (arXiv 2105.14491): scores are ``att * leaky_relu(lin_l(source) + lin_r(destination))``.

    PyG's ``GATv2Conv(in_channels, out_channels, heads, ...)`` with the same parameters, those of ``lin_l`` and
    ``lin_r``, ``att``, ``bias``, ``lin_edge.weight`` if edges have features and ``res.weight`` for a residual, computes
    the same if blocks have no weights. With weights, each edge counts in the softmax in proportion to its weight.
    Dropout of attention draws other numbers than PyG's, as in `GATConv`. On a block of one process, messages are
    written: an array of edges times heads times columns.

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
    negative_slope
        The slope of the leaky rectifier.
    dropout
        Probability that an attention is dropped in training, in [0, 1).
    add_self_loops
        Whether each destination attends to itself, once.
    edge_dim
        Columns of edge features, if any.
    fill_value
        The features of those loops: "mean" or "sum" ("add") of the in-edges of the destination from other nodes, a
        number, or one for each column.
    bias
        Whether `lin_l`, `lin_r` and the output have a bias.
    share_weights
        Whether `lin_r` is `lin_l`.
    residual
        Whether the destination's own row is added to the output, through `res`.

    Raises
    ------
    InputError
        For a probability outside [0, 1), sizes below 1, a slope that is not finite and another `fill_value`; when
        called, for wrong shapes and dtypes.
    """

    bias: nn.Parameter | None
    lin_edge: nn.Linear | None
    res: nn.Linear | None

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        fill_value: float | Tensor | str = "mean",
        bias: bool = True,
        share_weights: bool = False,
        residual: bool = False,
    ) -> None:
        super().__init__()
        self.dropout = dropout_probability("GATv2Conv", dropout)
        self.in_channels = columns_of_ends("GATv2Conv", in_channels)
        self.out_channels = columns("GATv2Conv", "out_channels", out_channels)
        self.heads = columns("GATv2Conv", "heads", heads)
        self.edge_dim = None if edge_dim is None else columns("GATv2Conv", "edge_dim", edge_dim)
        switches = {"concat": concat, "add_self_loops": add_self_loops, "bias": bias}
        check_switches("GATv2Conv", **switches, share_weights=share_weights, residual=residual)
        is_number = isinstance(fill_value, Tensor) or as_number(fill_value) is not None
        if not is_number and not is_one_of(fill_value, ("mean", "sum", "add")):
            raise InputError(
                f'GATv2Conv: expected fill_value "mean", "sum" or "add", a number or a tensor, got {fill_value!r}'
            )
        self.concat, self.add_self_loops, self.share_weights = concat, add_self_loops, share_weights
        self.fill_value, self.negative_slope = fill_value, finite("GATv2Conv", "negative_slope", negative_slope)
        of_sources, of_destinations = each_end(self.in_channels)
        if share_weights and of_sources != of_destinations:
            raise InputError(f"GATv2Conv: expected rows of equal columns to share weights, got {self.in_channels}")
        width = self.heads * self.out_channels
        self.lin_l = nn.Linear(of_sources, width, bias=bias)
        self.lin_r = self.lin_l if share_weights else nn.Linear(of_destinations, width, bias=bias)
        self.att = nn.Parameter(torch.empty(1, self.heads, self.out_channels))
        self.lin_edge = None if self.edge_dim is None else nn.Linear(self.edge_dim, width, bias=False)
        num_columns = width if concat else self.out_channels
        self.res = nn.Linear(of_destinations, num_columns, bias=False) if residual else None
        self.register_parameter("bias", nn.Parameter(torch.empty(num_columns)) if bias else None)
        self.attention_keys = AttentionKeys()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        for linear in (self.lin_l, self.lin_r, self.lin_edge, self.res):
            if linear is not None:
                linear.reset_parameters()
                nn.init.xavier_uniform_(linear.weight)
        bound = (6.0 / (self.heads + self.out_channels)) ** 0.5  # as PyG's Glorot has it
        nn.init.uniform_(self.att, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

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
        x, own = both_ends("GATv2Conv", x, block, self.in_channels)
        check_dtype("GATv2Conv", x, self.lin_l)
        attr = edge_rows("GATv2Conv", edge_attr, block, self.edge_dim)
        x, own = widened(x), widened(own)
        graph = graph_of(block)
        if self.add_self_loops:
            if is_block(block) and block.bipartite:
                raise InputError(
                    "GATv2Conv: expected add_self_loops=False on a relation between two types, in which no node is "
                    "both source and destination, got True"
                )
            graph, attr = graph_with_loops(graph, attr, self.fill_value)
        source, destination = by_head(self.lin_l, x, self.heads), by_head(self.lin_r, own, self.heads)
        features = None if attr is None else attr.to(x.dtype)
        drops = self.dropout if self.training else 0.0

        def body(edges: MessageEdges) -> Tensor:
            rows = edges.of_sources(0)
            both = rows + edges.of_destinations(destination)
            if features is not None and self.lin_edge is not None:
                both = both + by_head(self.lin_edge, edges.of_edges(features), self.heads)
            scores = (functional.leaky_relu(both, self.negative_slope) * self.att).sum(-1)
            attention = edges.softmax(scores)
            if drops:
                attention = edges.dropout(attention, drops)
            return edges.reduce(rows * attention.unsqueeze(-1), "sum")

        masks = self.attention_keys.next(block) if drops else None
        out = pass_messages(graph, body, (source,), (destination,), name="GATv2Conv", masks=masks)
        out = as_narrow_as(out.flatten(1) if self.concat else out.mean(1), x)
        if self.res is not None:
            out = out + self.res(own)
        return out if self.bias is None else out + self.bias

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"
