"""GAT's layer on blocks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.ops import AttentionDropout, AttentionScores, InputError, aggregate_with_grad, attend_with_grad
from headrace.ops.aggregate.autograd import attend_compiled
from headrace.ops.aggregate.compiling import num_torch_threads
from headrace.ops.aggregate.precision import dtype_of_sums, in_single, widened
from headrace.pipeline.data import Block, check_switches
from headrace.pipeline.data.block_messages import is_trusted
from headrace.pipeline.models.message_graph import WholeGraph, means_without_loops
from headrace.pipeline.models.nn.aggregate import (
    Edges,
    Looped,
    check_dtype,
    check_input,
    columns,
    finite,
    is_block,
    is_compiled,
    is_matrix,
    own_rows,
    with_self_loops,
    without_padding,
)
from headrace.pipeline.models.nn.attention_keys import AttentionKeys, Masks, dropout_probability
from headrace.pipeline.models.nn.messages import edge_rows


class GATConv(nn.Module):
    """Graph attention (arXiv 1710.10903), on a CPU without an array of edges times heads, forward or backward.

    PyG's ``GATConv(in_channels, out_channels, heads, ...)`` with the same parameters, ``lin.weight``, ``att_src``,
    ``att_dst``, ``bias``, and ``lin_edge.weight`` and ``att_edge`` if edges have features, computes the same by
    ``conv((x, x[:num_dst]), edge_index, edge_attr, size=...)`` if blocks have no weights. With weights, each edge
    counts in the softmax in proportion to its weight. Dropout of attention draws other numbers than PyG's: they depend
    on a key from torch's generator and on the position of the edge. In `hr.cooperative` and `hr.sar.wrap` they depend
    on the key of the batch and the id of the edge, so the masks are those of one process.

    Parameters
    ----------
    in_channels, out_channels
        Columns; for the output, of each head.
    heads
        Heads.
    concat
        Whether the output concatenates the heads (True) or is their mean.
    negative_slope
        The slope of the leaky rectifier of scores.
    dropout
        Probability that an attention is dropped in training, in [0, 1).
    add_self_loops
        Whether each destination attends to itself, once. The features of that edge are the mean of those of its
        in-edges.
    edge_dim
        Columns of edge features, if any.
    bias
        Whether a bias is added to the output.

    Raises
    ------
    InputError
        For a probability outside [0, 1), sizes below 1 and a slope that is not finite; when called, for
        wrong shapes and dtypes.
    """

    bias: nn.Parameter | None
    lin_edge: nn.Linear | None
    att_edge: nn.Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        probability = dropout_probability("GATConv", dropout)
        in_channels = columns("GATConv", "in_channels", in_channels)
        out_channels = columns("GATConv", "out_channels", out_channels)
        heads = columns("GATConv", "heads", heads)
        edge_dim = None if edge_dim is None else columns("GATConv", "edge_dim", edge_dim)
        check_switches("GATConv", concat=concat, add_self_loops=add_self_loops, bias=bias)
        self.in_channels, self.out_channels, self.heads = in_channels, out_channels, heads
        self.concat, self.dropout = concat, probability
        self.negative_slope = finite("GATConv", "negative_slope", negative_slope)
        self.add_self_loops, self.edge_dim = add_self_loops, edge_dim
        self.lin = nn.Linear(in_channels, heads * out_channels, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_channels))
        if edge_dim is None:
            self.lin_edge = None
            self.register_parameter("att_edge", None)
        else:
            self.lin_edge = nn.Linear(edge_dim, heads * out_channels, bias=False)
            self.att_edge = nn.Parameter(torch.empty(1, heads, out_channels))
        if bias:
            self.bias = nn.Parameter(torch.empty(heads * out_channels if concat else out_channels))
        else:
            self.register_parameter("bias", None)
        self.attention_keys = AttentionKeys()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        matrices = [self.lin.weight, self.att_src, self.att_dst]
        if self.lin_edge is not None and self.att_edge is not None:
            matrices += [self.lin_edge.weight, self.att_edge]
        for matrix in matrices:  # by the sizes of the last two dimensions, as PyG's Glorot has it
            bound = (6.0 / (matrix.shape[-2] + matrix.shape[-1])) ** 0.5
            nn.init.uniform_(matrix, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, block: Edges, edge_attr: Tensor | None = None) -> Tensor:
        """Return [num_dst, heads * out_channels], or [num_dst, out_channels], from x: [num_src, in_channels].

        Parameters
        ----------
        x, block
            The input of the layer and its edges.
        edge_attr : [num_edges, edge_dim], optional
            Features of the edges, in the order of the block.
        """
        check_input("GATConv", x, block, self.in_channels)
        check_dtype("GATConv", x, self.lin)
        x = widened(without_padding(x, block))
        rows = widened(self.lin(x)).view(len(x), self.heads, self.out_channels)
        source = self._scores(self.lin, x, self.att_src, rows)
        destination = self._scores(self.lin, own_rows(x, block), self.att_dst, own_rows(rows, block))
        edge = self._edge_scores(block, edge_attr, x)
        drops = self.dropout if self.training else 0.0
        compiled = is_compiled(block)
        masks = self.attention_keys.next(block) if drops and not compiled else Masks(0)
        if not is_block(block):
            if self.add_self_loops and isinstance(block, WholeGraph):
                edge = None if edge is None else torch.cat([edge, means_without_loops(block, edge)])
                block = block.with_self_loops()
            elif self.add_self_loops:
                raise InputError(
                    f"GATConv: expected add_self_loops=False on a {type(block).__name__}, whose edges ranks share, got "
                    "True; give the graph its loops by graph.with_self_loops()"
                )
            slope = self.negative_slope
            out = block.attend(rows, source, destination, edge_scores=edge, slope=slope, dropout=drops, key=masks.key)
            return self._finished(out)
        single = dtype_of_sums(x)
        weight = None if block.weight is None else block.weight.to(single)
        edges: Block | Looped = block
        edge_ids = None if masks.edge_ids is None else masks.edge_ids[: block.num_edges]
        if self.add_self_loops:
            edges = looped = with_self_loops(block)
            if edge is not None:
                edge = torch.cat([edge, _means(looped, edge)])[looped.origin]
            if looped.is_kept is not None:
                weight = looped.is_kept.to(single) if weight is None else weight * looped.is_kept
            if weight is not None:
                weight = torch.cat([weight, weight.new_ones(len(destination))])[looped.origin]
            if masks.edge_ids is not None:
                edge_ids = masks.edge_ids[looped.origin]
            elif drops and not compiled:
                edge_ids = looped.names
        if compiled:
            scores = AttentionScores(source, destination, edge, weight, self.negative_slope)
            # The key stays a tensor: an int of its value would break the graph.
            dropped = (drops, torch.randint(2**63 - 1, (), device="cpu")) if drops else ()
            out = attend_compiled(edges.indptr, edges.indices, rows, scores, dropped, trusted=is_trusted(edges))
            return self._finished(out)
        dropout = AttentionDropout.of(drops, masks.key, edge_ids)
        out = attend_with_grad(
            edges.indptr,
            edges.indices,
            rows,
            AttentionScores(source, destination, edge, weight, self.negative_slope, dropout),
            transpose=lambda: edges.transposed,
            num_threads=num_torch_threads(),
            trusted=is_trusted(edges),
        )
        return self._finished(out)

    def _finished(self, out: Tensor) -> Tensor:
        """Put heads side by side, or take their mean, and add the bias."""
        finished = out.flatten(1) if self.concat else out.mean(1)
        if self.bias is not None:
            return finished + self.bias
        # Gradients of attention read its output, which `relu_()` on a view of it would change.
        return finished.clone() if self.concat and out.requires_grad else finished

    def _scores(self, linear: nn.Module, x: Tensor, attention: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return [len(x), heads]: products of ``linear(x)`` with a vector for each head; `rows` are it, or None."""
        if is_matrix(linear):  # with the columns of the input, which are fewer, the vectors are a small matrix
            weight = linear.weight.view(self.heads, self.out_channels, -1)
            return widened(x @ (weight * attention.view(self.heads, self.out_channels, 1)).sum(1).t())
        rows = widened(linear(x)).view(len(x), self.heads, self.out_channels) if rows is None else rows
        return (rows * attention).sum(-1)

    def _edge_scores(self, block: Edges, edge_attr: Tensor | None, x: Tensor) -> Tensor | None:
        edge_attr = edge_rows("GATConv", edge_attr, block, self.edge_dim)
        if edge_attr is None or self.lin_edge is None or self.att_edge is None:
            return None
        return in_single(self._scores(self.lin_edge, edge_attr.to(x.dtype), self.att_edge))

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"


def _means(looped: Looped, scores: Tensor) -> Tensor:
    """Return the mean score of each destination's edges, which is the score of the mean of their features."""
    weight = degrees = None
    if looped.is_kept is not None:
        weight = looped.is_kept.to(scores.dtype)
        counts = torch.cat([weight.new_zeros(1), weight.cumsum(0)])[looped.kept_indptr]
        degrees = counts.diff()
    return aggregate_with_grad(
        looped.kept_indptr,
        looped.kept,
        scores,
        reduce="mean",
        weight=weight,
        degrees=degrees,
        num_threads=num_torch_threads(),
        trusted=is_trusted(looped),
    )
