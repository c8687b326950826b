"""The layers of GIN on blocks: a module of a node's own row and the sum of its neighbours'."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.ops.aggregate.precision import as_narrow_as, in_single, widened
from headrace.ops.errors import InputError
from headrace.pipeline.data import check_switches, describe
from headrace.pipeline.data.block_messages import num_src_of
from headrace.pipeline.models.nn.aggregate import (
    Edges,
    aggregate,
    check_has_own_rows,
    columns,
    ends_without_padding,
    finite,
    weight_of,
    with_own_rows,
)
from headrace.pipeline.models.nn.messages import MessageEdges, both_ends, edge_rows, graph_of, pass_messages


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

    def forward(self, x: Tensor | tuple[Tensor, Tensor], block: Edges) -> Tensor:
        """Return a row for each destination from x: [num_src, ...], or a pair of it and [num_dst, ...]."""
        width = _width("GINConv", x[0] if isinstance(x, tuple) else x, block)
        if isinstance(x, tuple):
            x, own = both_ends("GINConv", x, block, width)
        else:
            check_has_own_rows("GINConv", block)
            x, own = with_own_rows(x, block)
        rows = ends_without_padding(aggregate(block, x, "sum", weight_of(block)), block)
        out: Tensor = self.nn(rows + (1 + self.eps) * ends_without_padding(own, block))
        return out


class GINEConv(GINConv):
    """GIN with features of edges (arXiv 1905.12265): ``nn((1 + eps) * own row + sum of relu(row + features))``.

    PyG's ``GINEConv(nn, eps, train_eps, edge_dim)`` with the same parameters, those of ``nn``, ``eps``, and ``lin`` for
    `edge_dim`, computes the same if blocks have no weights. With weights, sums are weighted.

    Parameters
    ----------
    nn
        The module applied to rows.
    eps
        The initial value of eps.
    train_eps
        Whether eps is a parameter.
    edge_dim
        Columns of edge features, which `lin` maps to those of rows: the number that `nn`, or its first part, takes. By
        default they have as many as rows.

    Raises
    ------
    InputError
        As for `GINConv`; for `edge_dim` with `nn` that does not tell how many columns it takes.
    """

    lin: torch.nn.Linear | None

    def __init__(self, nn: nn.Module, eps: float = 0.0, train_eps: bool = False, edge_dim: int | None = None) -> None:
        super().__init__(nn, eps, train_eps)
        self.edge_dim = None if edge_dim is None else columns("GINEConv", "edge_dim", edge_dim)
        self.lin = None
        if self.edge_dim is not None:
            first = nn[0] if isinstance(nn, torch.nn.Sequential) else nn
            in_channels = getattr(first, "in_features", getattr(first, "in_channels", None))
            if in_channels is None:
                raise InputError(
                    "GINEConv: expected nn that begins with a module with in_features or in_channels, got "
                    f"{type(first).__name__}; leave out edge_dim, and pass features with the columns of rows"
                )
            self.lin = torch.nn.Linear(self.edge_dim, columns("GINEConv", "in_channels of nn", in_channels))

    def reset_parameters(self) -> None:
        """Draw new parameters, and reset eps to its initial value."""
        super().reset_parameters()
        if self.lin is not None:
            self.lin.reset_parameters()

    def forward(  # type: ignore[override] # features of edges are needed
        self, x: Tensor | tuple[Tensor, Tensor], block: Edges, edge_attr: Tensor
    ) -> Tensor:
        """Return a row for each destination.

        Parameters
        ----------
        x: [num_src, ...], or a pair of [num_src, ...] and [num_dst, ...]
            The rows of sources, and of destinations if they are not the first sources.
        block
            The edges.
        edge_attr: [num_edges, edge_dim]
            The features of the block's edges.
        """
        width = _width("GINEConv", x[0] if isinstance(x, tuple) else x, block)
        x, own = both_ends("GINEConv", x, block, width)
        attr = edge_rows("GINEConv", edge_attr, block, self.edge_dim or width)
        assert attr is not None  # without edge_dim, of the columns of rows
        weight = weight_of(block)
        rows, attr = in_single(widened(x)), attr.to(x.dtype)

        def body(edges: MessageEdges) -> Tensor:
            features = edges.of_edges(attr)
            features = features if self.lin is None else widened(self.lin(features))
            messages = (edges.of_sources(0) + features).relu()
            return edges.reduce(messages if weight is None else messages * edges.of_edges(weight)[:, None], "sum")

        weight = None if weight is None else weight.to(rows.dtype)
        summed = as_narrow_as(pass_messages(graph_of(block), body, (rows,), name="GINEConv"), x)
        out: Tensor = self.nn(summed + (1 + self.eps) * own)
        return out


def _width(layer: str, x: Tensor, block: Edges) -> int:
    """Return the number of columns of rows.

    Raises
    ------
    InputError
        If they are no rows of sources, or of no floating dtype.
    """
    if not hasattr(block, "num_src"):
        check_has_own_rows(layer, block)
    if not isinstance(x, Tensor) or x.ndim != 2 or len(x) != num_src_of(block):
        advice = "; pass x[:, None]" if isinstance(x, Tensor) and x.ndim == 1 else "; call it as conv(x, block)"
        raise InputError(f"{layer}: expected x of [{block.num_src}, columns], got {describe(x)}{advice}")
    if not x.is_floating_point():
        raise InputError(f"{layer}: expected x of a floating dtype, got {describe(x)}; pass x.float()")
    return x.shape[1]
