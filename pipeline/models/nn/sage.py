"""The layers of GraphSAGE and of Weisfeiler and Leman on blocks: a node's own row, and an aggregate of others."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from headrace.ops.aggregate.precision import as_narrow_as, in_single, widened
from headrace.ops.errors import InputError
from headrace.pipeline.data import check_switches, is_one_of
from headrace.pipeline.models.message_graph import Reduce
from headrace.pipeline.models.nn.aggregate import (
    Edges,
    aggregate,
    check_dtype,
    check_input,
    columns,
    ends_without_padding,
    is_block,
    sum_of_products,
    weight_of,
    with_own_rows,
)
from headrace.pipeline.models.nn.messages import (
    Columns,
    both_ends,
    columns_of_ends,
    each_end,
    graph_of,
    weights_of_edges,
)


class SAGEConv(nn.Module):
    """GraphSAGE (arXiv 1706.02216): ``lin_l(aggregate of the neighbours' rows) + lin_r(own row)``.

    PyG's ``SAGEConv(in_channels, out_channels, aggr)`` with the same parameters, ``lin_l.weight``, ``lin_l.bias`` and
    ``lin_r.weight``, and those of ``lin`` to project rows, computes the same if blocks have no weights. With weights,
    means and sums are weighted, unlike PyG's: a mean is then the Hajek estimate of the mean over all neighbours. A
    maximum is over the sampled neighbours; of projected rows it is the paper's pooling, ``aggr="max", project=True``.

    Parameters
    ----------
    in_channels
        Columns; a pair for those of sources and of destinations.
    out_channels
        Columns.
    aggr : {"mean", "sum", "max"}
        Among equal maxima the first edge gets the gradient.
    normalize
        Divide rows of the output by their Euclidean norm.
    root_weight
        Whether the node's own row is added, through `lin_r`.
    bias
        Whether `lin_l` has a bias.
    project
        Whether ``relu(lin(row))`` is aggregated in place of rows. A keyword, which precedes `bias` in PyG's.

    Raises
    ------
    InputError
        For an unknown `aggr`, and sizes below 1; when called, for a wrong shape or dtype of `x`.
    """

    lin: nn.Linear | None

    def __init__(
        self,
        in_channels: Columns,
        out_channels: int,
        aggr: Literal["mean", "sum", "max"] = "mean",
        normalize: bool = False,
        root_weight: bool = True,
        bias: bool = True,
        *,
        project: bool = False,
    ) -> None:
        super().__init__()
        if not is_one_of(aggr, ("mean", "sum", "max")):
            raise InputError(f'SAGEConv: expected aggr "mean", "sum" or "max", got {aggr!r}')
        check_switches("SAGEConv", normalize=normalize, root_weight=root_weight, bias=bias, project=project)
        self.in_channels = columns_of_ends("SAGEConv", in_channels)
        self.out_channels = columns("SAGEConv", "out_channels", out_channels)
        self.aggr: Literal["mean", "sum", "max"] = aggr
        self.normalize, self.root_weight = normalize, root_weight
        of_sources, of_destinations = each_end(self.in_channels)
        self.lin = nn.Linear(of_sources, of_sources) if project else None
        self.lin_l = nn.Linear(of_sources, self.out_channels, bias=bias)
        if root_weight:
            self.lin_r = nn.Linear(of_destinations, self.out_channels, bias=False)

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        if self.lin is not None:
            self.lin.reset_parameters()
        self.lin_l.reset_parameters()
        if self.root_weight:
            self.lin_r.reset_parameters()

    def forward(self, x: Tensor | tuple[Tensor, Tensor], block: Edges) -> Tensor:
        """Return [num_dst, out_channels] from x: [num_src, in_channels], or from a pair.

        A pair is [num_src, in_channels[0]] and [num_dst, in_channels[1]], for destinations that are not the first
        sources.
        """
        weight = None if self.aggr == "max" else weight_of(block)
        if isinstance(x, tuple) or isinstance(self.in_channels, tuple) or self.lin is not None:
            x, own = both_ends("SAGEConv", x, block, self.in_channels)
            check_dtype("SAGEConv", x, self.lin_l)
            x = x if self.lin is None else self.lin(x).relu()
        else:
            check_input("SAGEConv", x, block, self.in_channels)
            check_dtype("SAGEConv", x, self.lin_l)
            x, own = with_own_rows(x, block) if self.root_weight else (x, x)
        rows = ends_without_padding(aggregate(block, x, self.aggr, weight), block)
        out: Tensor
        if self.root_weight:
            out = sum_of_products(self.lin_l, rows, self.lin_r, ends_without_padding(own, block))
        else:
            out = self.lin_l(rows)
        return functional.normalize(out, dim=-1) if self.normalize else out

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}, aggr={self.aggr!r}"


class GraphConv(nn.Module):
    """The layer of k-GNNs (arXiv 1810.02244): ``lin_rel(aggregate of the neighbours' rows) + lin_root(own row)``.

    PyG's ``GraphConv(in_channels, out_channels, aggr)`` with the same parameters, ``lin_rel.weight``, ``lin_rel.bias``
    and ``lin_root.weight``, computes the same if blocks have no weights. A block's weights multiply messages of sums
    and means, as those that are passed do.

    Parameters
    ----------
    in_channels
        Columns; a pair for those of sources and of destinations.
    out_channels
        Columns.
    aggr : {"add", "sum", "mean", "max", "min"}
        A mean divides by the number of edges. Among equal extremes the first edge gets the gradient.
    bias
        Whether `lin_rel` has a bias.

    Raises
    ------
    InputError
        For an unknown `aggr`, and sizes below 1; when called, for wrong shapes and dtypes.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        aggr: Literal["add", "sum", "mean", "max", "min"] = "add",
        bias: bool = True,
    ) -> None:
        super().__init__()
        if not is_one_of(aggr, ("add", "sum", "mean", "max", "min")):
            raise InputError(f'GraphConv: expected aggr "add", "sum", "mean", "max" or "min", got {aggr!r}')
        check_switches("GraphConv", bias=bias)
        self.in_channels = columns_of_ends("GraphConv", in_channels)
        self.out_channels = columns("GraphConv", "out_channels", out_channels)
        self.aggr: Reduce = "sum" if aggr == "add" else aggr
        of_sources, of_destinations = each_end(self.in_channels)
        self.lin_rel = nn.Linear(of_sources, self.out_channels, bias=bias)
        self.lin_root = nn.Linear(of_destinations, self.out_channels, bias=False)

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        self.lin_rel.reset_parameters()
        self.lin_root.reset_parameters()

    def forward(self, x: Tensor | tuple[Tensor, Tensor], block: Edges, edge_weight: Tensor | None = None) -> Tensor:
        """Return [num_dst, out_channels].

        Parameters
        ----------
        x: [num_src, in_channels], or a pair of [num_src, in_channels[0]] and [num_dst, in_channels[1]]
            The rows of sources, and of destinations if they are not the first sources.
        block
            The edges.
        edge_weight: [num_edges], optional
            Factors of messages.
        """
        x, own = both_ends("GraphConv", x, block, self.in_channels)
        check_dtype("GraphConv", x, self.lin_rel)
        rows = in_single(widened(x))
        weight = None if self.aggr in ("max", "min") else weight_of(block)
        if edge_weight is not None:
            edge_weight = weights_of_edges("GraphConv", edge_weight, block).to(rows.dtype)
            weight = edge_weight if weight is None else edge_weight * weight.to(rows.dtype)
        if self.aggr == "mean" and weight is not None and not is_block(block):  # there by the sum of the weights
            counts = graph_of(block).in_degrees().clamp(min=1).to(rows.dtype)
            out = aggregate(block, rows, "sum", weight) / counts[:, None]
        else:
            out = aggregate(block, rows, self.aggr, weight)
        return sum_of_products(self.lin_rel, ends_without_padding(as_narrow_as(out, x), block), self.lin_root, own)

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}, aggr={self.aggr!r}"
