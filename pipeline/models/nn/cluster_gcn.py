"""The layer of Cluster-GCN on blocks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.ops.aggregate.precision import widened
from headrace.pipeline.data.checks import check_switches
from headrace.pipeline.distributed.shared_block import SharedBlock
from headrace.pipeline.models.nn.aggregate import Edges, aggregate, check_input, check_is_block
from headrace.pipeline.models.nn.arguments import columns, finite
from headrace.pipeline.models.nn.self_loops import destinations_of
from headrace.pipeline.models.whole_graph import WholeGraph


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
        For sizes below 1, and a number that is not finite; when called, for wrong shapes.
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
        x = widened(x)
        own = x[: block.num_dst]
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
                looped, degrees = destinations[block.indices == destinations].long(), block.indptr.diff()
            loops = x.new_zeros(block.num_dst).index_add_(0, looped, x.new_ones(len(looped)))
            summed, num_edges = aggregate(block, x, "sum"), degrees.to(x.dtype)
        others = summed - loops[:, None] * own
        degree = num_edges - loops + 1
        out: Tensor = self.lin_out((others + (1 + self.diag_lambda) * own) / degree[:, None]) + self.lin_root(own)
        return out

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}, diag_lambda={self.diag_lambda}"
