"""The layer of principal neighbourhood aggregation on every kind of message graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from headrace.ops import InputError
from headrace.ops.aggregate.precision import as_narrow_as, in_single, widened
from headrace.pipeline.data import check_switches, describe, is_one_of
from headrace.pipeline.models.nn.aggregate import Edges, check_dtype, columns, weight_of
from headrace.pipeline.models.nn.messages import MessageEdges, both_ends, edge_rows, graph_of, pass_messages

AGGREGATORS = ("mean", "min", "max", "std", "var", "sum", "add")
SCALERS = ("identity", "amplification", "attenuation", "linear", "inverse_linear")

#: Variances up to this one are those of equal messages, but for rounding, as PyG has it.
_LEAST = 1e-5


class _Degrees(nn.Module):
    """The mean degrees that scalers divide by, under the names that they have in PyG's `DegreeScalerAggregation`."""

    avg_deg_lin: Tensor
    avg_deg_log: Tensor

    def __init__(self, counts: Tensor, trained: bool) -> None:
        super().__init__()
        counts = counts.to(torch.float)
        degrees, number = torch.arange(len(counts), device=counts.device), float(counts.sum())
        self.initial = float((degrees * counts).sum()) / number, float(((degrees + 1).log() * counts).sum()) / number
        for name in ("avg_deg_lin", "avg_deg_log"):
            if trained:
                self.register_parameter(name, nn.Parameter(torch.empty(1)))
            else:
                self.register_buffer(name, torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the mean degrees to those of the training graph."""
        for value, initial in zip((self.avg_deg_lin, self.avg_deg_log), self.initial, strict=True):
            value.data.fill_(initial)

    def scaled(self, rows: Tensor, scaler: str, degrees: Tensor) -> Tensor:
        """Return rows, [num_dst, ...], scaled by the degrees of destinations, [num_dst, 1, 1]."""
        if scaler == "identity":
            return rows
        if scaler == "linear":
            return rows * (degrees / self.avg_deg_lin)
        if scaler == "amplification":
            return rows * ((degrees + 1).log() / self.avg_deg_log)
        at_least_one = degrees.clamp(min=1)  # without edges rows are 0
        if scaler == "inverse_linear":
            return rows * (self.avg_deg_lin / at_least_one)
        return rows * (self.avg_deg_log / (at_least_one + 1).log())


class PNAConv(nn.Module):
    """Principal neighbourhood aggregation (arXiv 2004.05718): several aggregates of messages, scaled by degrees.

    Messages are ``pre_nns`` of the rows of both ends and the features of the edge; ``lin(post_nns(own row,
    aggregates))`` comes out. PyG's ``PNAConv(in_channels, out_channels, aggregators, scalers, deg, ...)`` with the same
    parameters computes the same. Where ranks share edges, all aggregates come in one exchange. Degrees count the edges
    of the block. Blocks with importance weights are refused, as degrees and extremes have none.

    Parameters
    ----------
    in_channels, out_channels
        Columns.
    aggregators
        Some of "mean", "min", "max", "std", "var", "sum" ("add"). Equal extremes share their gradient.
    scalers
        Some of "identity", "amplification", "attenuation", "linear", "inverse_linear".
    deg: [max degree + 1]
        How many nodes of the training graph have each in-degree: ``torch.bincount(graph.in_degrees())``.
    edge_dim
        Columns of edge features, if any.
    towers
        Independent layers side by side, each with a part of the output.
    pre_layers, post_layers
        Linear maps ahead of the aggregation and behind it, of each tower.
    divide_input
        Whether each tower has a part of the input; by default it has all.
    train_norm
        Whether the mean degrees are parameters.

    Raises
    ------
    InputError
        For unknown aggregators and scalers, sizes below 1, columns that towers do not divide, and `deg` without nodes;
        when called, for wrong shapes and dtypes, and blocks with weights.
    """

    edge_encoder: nn.Linear | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        aggregators: Sequence[str],
        scalers: Sequence[str],
        deg: Tensor,
        edge_dim: int | None = None,
        towers: int = 1,
        pre_layers: int = 1,
        post_layers: int = 1,
        divide_input: bool = False,
        train_norm: bool = False,
    ) -> None:
        super().__init__()
        self.in_channels = columns("PNAConv", "in_channels", in_channels)
        self.out_channels = columns("PNAConv", "out_channels", out_channels)
        self.aggregators = _chosen("aggregators", aggregators, AGGREGATORS)
        self.scalers = _chosen("scalers", scalers, SCALERS)
        if not isinstance(deg, Tensor) or deg.ndim != 1 or not len(deg) or float(deg.sum()) <= 0:
            raise InputError(
                "PNAConv: expected deg with the number of nodes of each in-degree, got "
                f"{describe(deg)}; pass torch.bincount(graph.in_degrees())"
            )
        self.edge_dim = None if edge_dim is None else columns("PNAConv", "edge_dim", edge_dim)
        self.towers = columns("PNAConv", "towers", towers)
        before, behind = columns("PNAConv", "pre_layers", pre_layers), columns("PNAConv", "post_layers", post_layers)
        check_switches("PNAConv", divide_input=divide_input, train_norm=train_norm)
        self.divide_input = divide_input
        if self.out_channels % self.towers or (divide_input and self.in_channels % self.towers):
            raise InputError(
                f"PNAConv: expected columns that {self.towers} towers divide, got in_channels={in_channels} and "
                f"out_channels={out_channels}"
            )
        self.width = self.in_channels // self.towers if divide_input else self.in_channels
        self.aggr_module = _Degrees(deg, train_norm)
        self.edge_encoder = None if self.edge_dim is None else nn.Linear(self.edge_dim, self.width)
        ends = 2 if self.edge_dim is None else 3
        aggregates = len(self.aggregators) * len(self.scalers) + 1
        num_columns = self.out_channels // self.towers
        self.pre_nns = nn.ModuleList(_maps(ends * self.width, self.width, before) for _ in range(self.towers))
        self.post_nns = nn.ModuleList(_maps(aggregates * self.width, num_columns, behind) for _ in range(self.towers))
        self.lin = nn.Linear(self.out_channels, self.out_channels)

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        for module in self.modules():
            if isinstance(module, nn.Linear | _Degrees):
                module.reset_parameters()

    def forward(self, x: Tensor, block: Edges, edge_attr: Tensor | None = None) -> Tensor:
        """Return [num_dst, out_channels] from x: [num_src, in_channels].

        Parameters
        ----------
        x, block
            The input of the layer and its edges.
        edge_attr: [num_edges, edge_dim], optional
            The features of the block's edges.
        """
        x, own = both_ends("PNAConv", x, block, self.in_channels)
        check_dtype("PNAConv", x, self.lin)
        if weight_of(block) is not None:
            raise InputError(
                "PNAConv: expected a block without importance weights, which its degrees and extremes do not have, got "
                "one with weights; sample by sample_neighbor without weights"
            )
        attr = edge_rows("PNAConv", edge_attr, block, self.edge_dim)
        features = None if attr is None else attr.to(x.dtype)
        x, own = widened(x), widened(own)

        def body(edges: MessageEdges) -> Tensor:
            ends = [self._by_tower(edges.of_destinations(own)), self._by_tower(edges.of_sources(0))]
            if features is not None and self.edge_encoder is not None:
                encoded = widened(self.edge_encoder(edges.of_edges(features)))
                ends.append(encoded[:, None].expand(-1, self.towers, -1))
            rows = torch.cat(ends, -1)
            messages = torch.stack([nn(rows[:, tower]) for tower, nn in enumerate(self.pre_nns)], 1)
            messages = in_single(widened(messages))
            aggregates = _aggregates(edges.reduce, messages, self.aggregators)
            degrees = edges.reduce(messages.new_ones(len(messages)), "sum")[:, None, None]
            scaled = [self.aggr_module.scaled(aggregates, scaler, degrees) for scaler in self.scalers]
            return torch.cat(scaled, -1)

        aggregated = as_narrow_as(pass_messages(graph_of(block), body, (x,), (own,), name="PNAConv"), x)
        rows = torch.cat([self._by_tower(own), aggregated], -1)
        towers = torch.cat([nn(rows[:, tower]) for tower, nn in enumerate(self.post_nns)], 1)
        out: Tensor = self.lin(towers)
        return out

    def _by_tower(self, rows: Tensor) -> Tensor:
        """Return what each tower has of rows, [n, towers, columns]."""
        if self.divide_input:
            return rows.view(len(rows), self.towers, self.width)
        return rows[:, None].expand(-1, self.towers, -1)

    def extra_repr(self) -> str:
        """Return the parameters, as text."""
        return f"{self.in_channels}, {self.out_channels}, towers={self.towers}, edge_dim={self.edge_dim}"


def _aggregates(reduce: Callable[[Tensor, str], Tensor], messages: Tensor, kinds: Sequence[str]) -> Tensor:
    """Return aggregates side by side, [num_dst, towers, columns * len(kinds)]."""
    means = squares = None
    if {"mean", "var", "std"} & set(kinds):
        means = reduce(messages, "mean")
    if {"var", "std"} & set(kinds):
        squares = reduce(messages * messages, "mean")
    results = []
    for kind in kinds:
        if kind == "mean" and means is not None:
            results.append(means)
        elif kind in ("var", "std") and means is not None and squares is not None:
            variance = squares - means * means
            if kind == "std":
                variance = variance.clamp(min=_LEAST).sqrt()
                variance = variance.masked_fill(variance <= math.sqrt(_LEAST), 0.0)
            results.append(variance)
        else:
            results.append(reduce(messages, "sum" if kind == "add" else kind))
    return torch.cat(results, -1)


def _chosen(name: str, values: Sequence[str], known: tuple[str, ...]) -> list[str]:
    """Return a list of names of those that there are.

    Raises
    ------
    InputError
        For others, and for none.
    """
    listed = list(values) if isinstance(values, list | tuple) else []
    if not listed or not all(is_one_of(one, known) for one in listed):
        raise InputError(f"PNAConv: expected {name} to be a list of {', '.join(known)}, got {values!r}")
    return listed


def _maps(num_in: int, num_out: int, number: int) -> nn.Sequential:
    """Return linear maps with rectifiers between them."""
    maps: list[nn.Module] = [nn.Linear(num_in, num_out)]
    for _ in range(number - 1):
        maps += [nn.ReLU(), nn.Linear(num_out, num_out)]
    return nn.Sequential(*maps)
