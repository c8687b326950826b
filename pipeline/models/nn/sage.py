"""The layers of GraphSAGE and GIN on blocks: a node's own row, and an aggregate of its neighbours'."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.ops.errors import InputError
from headrace.pipeline.data import check_switches, describe, is_one_of
from headrace.pipeline.data.block_messages import num_src_of
from headrace.pipeline.models.nn.aggregate import (
    Edges,
    aggregate,
    check_dtype,
    check_has_own_rows,
    check_input,
    columns,
    finite,
    sum_of_products,
    weight_of,
    with_own_rows,
    without_padding,
)


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
        For an unknown `aggr`, and sizes below 1; when called, for a wrong shape or dtype of `x`.
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
        check_dtype("SAGEConv", x, self.lin_l)
        weight = None if self.aggr == "max" else weight_of(block)
        if self.root_weight:
            x, own = with_own_rows(x, block)
            rows = without_padding(aggregate(block, x, self.aggr, weight), block)
            out = sum_of_products(self.lin_l, rows, self.lin_r, without_padding(own, block))
        else:
            out = self.lin_l(without_padding(aggregate(block, x, self.aggr, weight), block))
        return functional.normalize(out, dim=-1) if self.normalize else out

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}, aggr={self.aggr!r}"


class GINConv(nn.Module):
    """Graph isomorphism network (arXiv 1810.00826): ``nn((1 + eps) * own row + sum of the neighbours' rows)``.

    PyG's ``GINConv(nn, eps, train_eps)`` with the same parameters, those of ``nn`` and ``eps``, computes the same if
    blocks have no weights. With weights, sums are weighted.

    Parameters
    ----------
    nn
        The module applied to rows.
    eps
        The initial value of eps.
    train_eps
        Whether eps is a parameter.

    Raises
    ------
    InputError
        For `nn` that is no module, and a number that is not finite; when called, for wrong shapes and dtypes.
    """

    eps: Tensor

    def __init__(self, nn: nn.Module, eps: float = 0.0, train_eps: bool = False) -> None:
        super().__init__()
        if not isinstance(nn, torch.nn.Module):
            raise InputError(
                f"GINConv: expected nn to be a torch.nn.Module, got {type(nn).__name__}; pass what is applied to rows, "
                "such as torch.nn.Linear(in_channels, out_channels)"
            )
        check_switches("GINConv", train_eps=train_eps)
        eps = finite("GINConv", "eps", eps)
        self.nn = nn
        self.initial_eps = eps
        if train_eps:
            self.eps = torch.nn.Parameter(torch.tensor([float(eps)]))
        else:
            self.register_buffer("eps", torch.tensor([float(eps)]))

    def reset_parameters(self) -> None:
        """Draw new parameters, and reset eps to its initial value."""
        for module in self.nn.modules():
            reset: Any = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()
        self.eps.data.fill_(self.initial_eps)

    def forward(self, x: Tensor, block: Edges) -> Tensor:
        """Return a row for each destination from x: [num_src, ...]."""
        check_has_own_rows("GINConv", block)
        if not isinstance(x, Tensor) or x.ndim != 2 or len(x) != num_src_of(block):
            advice = "; pass x[:, None]" if isinstance(x, Tensor) and x.ndim == 1 else "; call it as conv(x, block)"
            raise InputError(f"GINConv: expected x of [{block.num_src}, columns], got {describe(x)}{advice}")
        if not x.is_floating_point():
            raise InputError(f"GINConv: expected x of a floating dtype, got {describe(x)}; pass x.float()")
        x, own = with_own_rows(x, block)
        rows = without_padding(aggregate(block, x, "sum", weight_of(block)), block)
        out: Tensor = self.nn(rows + (1 + self.eps) * without_padding(own, block))
        return out
