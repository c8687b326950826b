"""GraphSAGE's layer on blocks."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import is_one_of
from headrace.pipeline.data.checks import check_switches
from headrace.pipeline.models.nn.aggregate import Edges, aggregate, check_input, weight_of
from headrace.pipeline.models.nn.arguments import columns


class SAGEConv(nn.Module):
    """GraphSAGE (arXiv 1706.02216): ``lin_l(aggregate of the neighbours' rows) + lin_r(own row)``.

    PyG's ``SAGEConv(in_channels, out_channels, aggr)`` with the same parameters, ``lin_l.weight``, ``lin_l.bias`` and
    ``lin_r.weight``, computes the same if blocks have no weights. With weights, means and sums are weighted, unlike
    PyG's: a mean is then the Hajek estimate of the mean over all neighbours. A maximum is over the sampled neighbours.

    Parameters
    ----------
    in_channels, out_channels
        Columns.
    aggr : {"mean", "sum", "max"}
        Among equal maxima the first edge gets the gradient.
    normalize
        Divide rows of the output by their Euclidean norm.
    root_weight
        Whether the node's own row is added, through `lin_r`.
    bias
        Whether `lin_l` has a bias.

    Raises
    ------
    InputError
        For an unknown `aggr`, and sizes below 1; when called, for a wrong shape of `x`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        aggr: Literal["mean", "sum", "max"] = "mean",
        normalize: bool = False,
        root_weight: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if not is_one_of(aggr, ("mean", "sum", "max")):
            raise InputError(f'SAGEConv: expected aggr "mean", "sum" or "max", got {aggr!r}')
        in_channels = columns("SAGEConv", "in_channels", in_channels)
        out_channels = columns("SAGEConv", "out_channels", out_channels)
        check_switches("SAGEConv", normalize=normalize, root_weight=root_weight, bias=bias)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.aggr: Literal["mean", "sum", "max"] = aggr
        self.normalize, self.root_weight = normalize, root_weight
        self.lin_l = nn.Linear(in_channels, out_channels, bias=bias)
        if root_weight:
            self.lin_r = nn.Linear(in_channels, out_channels, bias=False)

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        self.lin_l.reset_parameters()
        if self.root_weight:
            self.lin_r.reset_parameters()

    def forward(self, x: Tensor, block: Edges) -> Tensor:
        """Return [num_dst, out_channels] from x: [num_src, in_channels]."""
        check_input("SAGEConv", x, block, self.in_channels)
        weight = None if self.aggr == "max" else weight_of(block)
        out: Tensor = self.lin_l(aggregate(block, x, self.aggr, weight))
        if self.root_weight:
            out = out + self.lin_r(x[: block.num_dst])
        return functional.normalize(out, dim=-1) if self.normalize else out

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}, aggr={self.aggr!r}"
