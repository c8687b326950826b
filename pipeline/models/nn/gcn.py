"""Graph convolutions on blocks, normalised by degrees: that of Kipf and Welling, and that of Cluster-GCN."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.ops.aggregate.precision import as_narrow_as, in_single, widened
from headrace.ops.errors import InputError
from headrace.pipeline.data import Block, check_switches
from headrace.pipeline.data.block_messages import destinations_of
from headrace.pipeline.distributed.shared_block import SharedBlock
from headrace.pipeline.models.message_graph import GraphShare, WholeGraph, with_remaining_loops
from headrace.pipeline.models.nn.aggregate import (
    Edges,
    aggregate,
    check_dtype,
    check_input,
    check_is_block,
    columns,
    finite,
    has_fixed_sizes,
    is_compiled,
    own_rows,
    weight_of,
    with_own_rows,
    without_padding,
)
from headrace.pipeline.models.nn.messages import weights_of_edges
from headrace.pipeline.models.running_batch import RUNNING
from headrace.pipeline.models.shared_edges import SharedEdges


class GCNConv(nn.Module):
    """Graph convolution (arXiv 1609.02907): ``bias + sum of norm * lin(row)`` over neighbours and the node itself.

    PyG's ``GCNConv(in_channels, out_channels)`` with the same parameters, ``lin.weight`` and ``bias``, computes the
    same on the block as a graph of num_src nodes: ``conv(x, block.edge_index, edge_weight)[:num_dst]``. So degrees are
    those of the block, and a source that is not a destination only has its own loop. In `hr.cooperative`, and where
    ranks share edges, ranks exchange degrees: the block is that of one process. Over an `hr.sar.ShardedGraph` degrees
    are those of the whole graph, for any number of ranks. To use these in minibatches, fetch `hr.gcn_norm` as a feature
    of edges and pass it as `edge_weight`, with ``normalize=False``.

    Parameters
    ----------
    in_channels, out_channels
        Columns.
    improved
        Loops have weight 2 in place of 1. (PyG 2.8 does so only if weights are given.)
    add_self_loops
        Default: as `normalize`. An existing loop keeps its weight.
    normalize
        Whether weights are divided by the square roots of the degrees of both ends.
    bias
        Whether a bias is added to the output.

    Raises
    ------
    InputError
        For loops without normalisation, `improved` without loops, and sizes below 1; when called, for wrong shapes
        and dtypes. (In a model that calls ``batch.exchange`` itself degrees of sources are those on a rank.)
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        improved: bool = False,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        in_channels = columns("GCNConv", "in_channels", in_channels)
        out_channels = columns("GCNConv", "out_channels", out_channels)
        check_switches("GCNConv", improved=improved, normalize=normalize, bias=bias)
        self.add_self_loops = normalize if add_self_loops is None else add_self_loops
        check_switches("GCNConv", add_self_loops=self.add_self_loops)
        if self.add_self_loops and not normalize:
            raise InputError("GCNConv: expected normalize=True where self-loops are added, as in PyG, got False")
        if improved and not self.add_self_loops:
            raise InputError(
                "GCNConv: expected improved=False where no self-loops are added, as it is their weight, got True; "
                "leave it out, or pass add_self_loops=True"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.improved, self.normalize = improved, normalize
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        if bias:
            self.bias = nn.Parameter(torch.empty(out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        nn.init.xavier_uniform_(self.lin.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, block: Edges, edge_weight: Tensor | None = None) -> Tensor:
        """Return [num_dst, out_channels] from x: [num_src, in_channels].

        Parameters
        ----------
        x, block
            The input of the layer and its edges.
        edge_weight : [num_edges], optional
            Default: the block's importance weights, if any.
        """
        check_input("GCNConv", x, block, self.in_channels)
        check_dtype("GCNConv", x, self.lin)
        x = widened(without_padding(x, block))
        weight = weight_of(block) if edge_weight is None else edge_weight
        weight = None if weight is None else weights_of_edges("GCNConv", weight, block)
        given = x  # of half precision, degrees would not be exact in it
        # The two products commute: rows are mixed where they have fewer columns.
        narrows = self.out_channels < self.in_channels
        x = in_single(self.lin(x) if narrows else x)
        weight = None if weight is None else weight.to(x.dtype)
        if self.normalize and isinstance(block, SharedBlock):  # loops and degrees are those of all its sources
            out = self._over_share(x, SharedEdges.of(block).over(block.num_src), weight)[: block.num_dst]
        elif self.normalize and isinstance(block, WholeGraph):
            out = self._over_share(x, block, weight)
        elif self.normalize:
            advice = "pass hr.gcn_norm(graph), fetched as a feature of edges, as edge_weight, with normalize=False"
            weight, own = self._norm(x, check_is_block("GCNConv", block, advice), weight)
            if own is None:
                out = aggregate(block, x, "sum", weight)
            else:
                x, rows = with_own_rows(x, block)
                out = aggregate(block, x, "sum", weight) + own[:, None] * rows
        else:
            out = aggregate(block, x, "sum", weight)
        out = as_narrow_as(out, given)
        if not narrows:
            out = self.lin(out)
        return out if self.bias is None else out + self.bias

    def _over_share(self, x: Tensor, graph: GraphShare, weight: Tensor | None) -> Tensor:
        """Return the normalised sums over a graph whose nodes' owners know their degrees.

        So the rows of a source are multiplied by its owner, and not at each edge.
        """
        if self.add_self_loops:
            if weight is None and not self.improved:
                graph = graph.with_self_loops()
            else:
                weight = x.new_ones(graph.num_edges) if weight is None else weight
                graph, weight = with_remaining_loops(graph, weight, 2.0 if self.improved else 1.0)
        scale = _roots(graph.in_degrees().to(x.dtype) if weight is None else graph.sum_edges(weight))[:, None]
        return scale * graph.aggregate(scale * x, weight=weight)

    def _norm(self, x: Tensor, block: Block, weight: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the normalised weights of edges, and those of destinations' own rows."""
        destinations = destinations_of(block).long()
        num_dst = len(own_rows(x, block))
        sources = block.indices.long()
        weight = x.new_ones(block.num_edges) if weight is None else weight
        degree = x.new_zeros(len(x))
        loop = None
        if self.add_self_loops:
            fill = 2.0 if self.improved else 1.0
            is_loop = sources == destinations
            loop = x.new_full((num_dst,), fill)
            if has_fixed_sizes(block) or bool(is_loop.any()):
                # Of several loops at a node the last one counts, alone, so that no other has a gradient; one more row
                # takes what is no loop.
                rows = torch.where(is_loop, destinations, num_dst)
                places = torch.arange(len(rows), device=rows.device)
                last = rows.new_full((num_dst + 1,), -1).scatter_reduce(0, rows, places, "amax")[:num_dst]
                loop = torch.cat([weight, weight.new_full((1,), fill)])[last]  # -1 is the last entry
                weight = weight.masked_fill(is_loop, 0)
            degree = degree + fill
            degree = torch.cat([loop, degree[num_dst:]])
        degree = degree.index_add(0, destinations, weight)
        running = None if is_compiled(block) else RUNNING.get()
        if running is not None and running.shares_nodes:
            others = 0.0 if loop is None else 2.0 if self.improved else 1.0
            degree = running.at_sources(degree[:num_dst], others, len(x))
        scale = _roots(degree)
        normalised = scale[sources] * weight * scale[destinations]
        return normalised, None if loop is None else scale[:num_dst] * loop * scale[:num_dst]

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}"


def _roots(degree: Tensor) -> Tensor:
    """Return the inverse roots of degrees; 0 for those that are not positive."""
    return torch.where(degree > 0, degree, 1).rsqrt() * (degree > 0)


class ClusterGCNConv(nn.Module):
    """Convolution normalised within the batch (arXiv 1905.07953): means over neighbours and the node itself.

    ``lin_out((sum of the neighbours' rows + own row + diag_lambda * own row) / (neighbours + 1)) + lin_root(own row)``,
    where edges from a node to itself do not count. Degrees are those of the block: with `hr.ClusterSampler`, those of
    the subgraph of the clusters, also if ranks make it together and share its nodes or its edges. Over an
    `hr.sar.ShardedGraph` they are those of the whole graph. PyG's ``ClusterGCNConv`` with the same parameters computes
    the same.

    Parameters
    ----------
    in_channels, out_channels
        Columns.
    diag_lambda
        The extra weight of the node itself (the diagonal enhancement of the paper).
    bias
        Whether `lin_out` has a bias.

    Raises
    ------
    InputError
        For sizes below 1, and a number that is not finite; when called, for wrong shapes and dtypes.
    """

    def __init__(self, in_channels: int, out_channels: int, diag_lambda: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        in_channels = columns("ClusterGCNConv", "in_channels", in_channels)
        out_channels = columns("ClusterGCNConv", "out_channels", out_channels)
        check_switches("ClusterGCNConv", bias=bias)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.diag_lambda = finite("ClusterGCNConv", "diag_lambda", diag_lambda)
        self.lin_out = nn.Linear(in_channels, out_channels, bias=bias)
        self.lin_root = nn.Linear(in_channels, out_channels, bias=False)

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        self.lin_out.reset_parameters()
        self.lin_root.reset_parameters()

    def forward(self, x: Tensor, block: Edges) -> Tensor:
        """Return [num_dst, out_channels] from x: [num_src, in_channels]."""
        check_input("ClusterGCNConv", x, block, self.in_channels)
        check_dtype("ClusterGCNConv", x, self.lin_out)
        given = widened(without_padding(x, block))
        x = in_single(given)
        x, own = with_own_rows(x, block)
        if isinstance(block, SharedBlock):
            loops = block.self_loops().to(x.dtype)
            # A column of ones counts the edges on all ranks, in the message that the rows are in anyway.
            summed = block.aggregate(torch.cat([x, x.new_ones(block.num_src, 1)], 1))
            summed, num_edges = summed[:, :-1], summed[:, -1].detach()
        else:
            if isinstance(block, WholeGraph):
                looped, degrees = block.destinations[block.self_loops], block.in_degrees()
            else:
                block = check_is_block("ClusterGCNConv", block, "use GCNConv with weights of the whole graph")
                destinations = destinations_of(block)
                is_loop, degrees = block.indices == destinations, block.indptr.diff()
                if has_fixed_sizes(block):  # one more row takes what is no loop
                    looped = torch.where(is_loop, destinations, len(own)).long()
                else:
                    looped = destinations[is_loop].long()
            loops = x.new_zeros(len(own) + 1).index_add_(0, looped, x.new_ones(len(looped)))[: len(own)]
            summed, num_edges = aggregate(block, x, "sum"), degrees.to(x.dtype)
        others = summed - loops[:, None] * own
        degree = num_edges - loops + 1
        mixed = (others + (1 + self.diag_lambda) * own) / degree[:, None]
        out: Tensor = self.lin_out(as_narrow_as(mixed, given)) + self.lin_root(as_narrow_as(own, given))
        return out

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}, diag_lambda={self.diag_lambda}"
