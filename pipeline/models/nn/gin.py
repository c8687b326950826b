"""GIN's layer on blocks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.checks import check_switches
from headrace.pipeline.models.nn.aggregate import Edges, aggregate, check_has_own_rows, weight_of
from headrace.pipeline.models.nn.arguments import finite


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
        For `nn` that is no module, and a number that is not finite; when called, for wrong shapes.
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
        if not isinstance(x, Tensor) or x.ndim != 2 or len(x) != block.num_src:
            raise InputError(f"GINConv: expected x of [{block.num_src}, columns], got {describe(x)}")
        out: Tensor = self.nn(aggregate(block, x, "sum", weight_of(block)) + (1 + self.eps) * x[: block.num_dst])
        return out
