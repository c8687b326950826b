"""Layers in the place of PyG's, with their parameters: ``conv(x, graph)`` where it was ``conv(x, edge_index)``."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own spelling
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.models.message_graph import Reduce, factor_of_degrees, loop_values, with_loops
from headrace.pipeline.models.nn.rgcn import transform_by_type
from headrace.pipeline.models.sar.replaced_layer import (
    ReplacedLayer,
    attend_transformed,
    scaled,
    scores,
)
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph

REDUCTIONS: dict[Any, Reduce] = {"sum": "sum", "add": "sum", "mean": "mean", "max": "max", "min": "min"}


class PygLayer(ReplacedLayer):
    """A layer of PyG."""

    @classmethod
    def refusal(cls, layer: Any) -> str:
        """Refuse other directions and aggregations of messages."""
        if layer.flow != "source_to_target":
            return f"with flow={layer.flow!r}"
        if not isinstance(layer.aggr, str) or layer.aggr not in REDUCTIONS:
            return f"with aggr={layer.aggr!r}"
        return ""


class SAGEConv(PygLayer):
    """GraphSAGE (arXiv 1706.02216), of any of PyG's plain aggregations."""

    aggr: str
    lin_l: torch.nn.Linear

    def forward(self, x: Any, graph: Any) -> Tensor:
        """Return rows of owned nodes."""
        own: Any = self
        x, graph = self.arguments(x, graph)
        sources = own.lin(x).relu() if own.project else x
        reduce = REDUCTIONS[self.aggr]
        out = _aggregate_linear(graph, sources, reduce, self.lin_l.weight)
        if self.lin_l.bias is not None:
            out = out + self.lin_l.bias
        if own.root_weight:
            out = out + own.lin_r(x)
        return F.normalize(out, p=2.0, dim=-1) if own.normalize else out


class GCNConv(PygLayer):
    """Graph convolution (arXiv 1609.02907), normalised by the weighted degrees of the whole graph."""

    @classmethod
    def refusal(cls, layer: Any) -> str:
        """Refuse aggregations other than sums, too."""
        return super().refusal(layer) or ("" if REDUCTIONS[layer.aggr] == "sum" else f"with aggr={layer.aggr!r}")

    def forward(self, x: Any, graph: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return rows of owned nodes; `edge_weight` is that of this rank's edges."""
        own: Any = self
        x, graph = self.arguments(x, graph)
        factor = None
        if own.normalize:
            if own.add_self_loops:
                graph, edge_weight = with_loops(graph, edge_weight, 2.0 if own.improved else 1.0)
            factor = factor_of_degrees(graph, edge_weight, x.dtype)
        rows = own.lin(x)
        # The owner of a source knows its degree: its rows are multiplied there, not at each edge.
        out = graph.aggregate(rows if factor is None else scaled(rows, factor), weight=edge_weight)
        out = out if factor is None else scaled(out, factor)
        return out if own.bias is None else out + own.bias


class GATConv(PygLayer):
    """Graph attention (arXiv 1710.10903), of edges with features as well; masks of dropout belong to edges."""

    @classmethod
    def refusal(cls, layer: Any) -> str:
        """Refuse aggregations other than sums, and features of loops that are no sum, mean or constant."""
        if (
            layer.add_self_loops
            and isinstance(layer.fill_value, str)
            and layer.fill_value not in ("mean", "add", "sum")
        ):
            return f"with fill_value={layer.fill_value!r}"
        if not 0 <= layer.dropout < 1:
            return f"with dropout={layer.dropout!r}"
        return super().refusal(layer) or ("" if REDUCTIONS[layer.aggr] == "sum" else f"with aggr={layer.aggr!r}")

    def forward(
        self,
        x: Any,
        graph: Any,
        edge_attr: Tensor | None = None,
        size: None = None,
        return_attention_weights: None = None,
    ) -> Tensor:
        """Return rows of owned nodes; `edge_attr` has those of this rank's edges."""
        if size is not None or return_attention_weights is not None:
            raise InputError("GATConv: size= and return_attention_weights= cannot be had over shards")
        own: Any = self
        x, graph = self.arguments(x, graph)
        to_source = own.lin_src if own.lin is None else own.lin
        to_target = own.lin_dst if own.lin is None else own.lin
        of_edges = None
        if edge_attr is not None and own.lin_edge is not None:
            of_edges = self._edge_scores(edge_attr.view(-1, 1) if edge_attr.dim() == 1 else edge_attr, graph)
        if own.add_self_loops:
            graph = graph.with_self_loops()
        out = attend_transformed(
            graph,
            x,
            to_source,
            own.heads,
            (scores(x, to_source.weight, own.att_src), scores(x, to_target.weight, own.att_dst)),
            edge_scores=of_edges,
            slope=own.negative_slope,
            dropout=own.dropout if self.training else 0.0,
            key=self.keys.next() if self.training and own.dropout else 0,
        )
        out = out.flatten(1) if own.concat else out.mean(1)
        if getattr(own, "res", None) is not None:  # from PyG 2.6 on
            out = out + own.res(x)
        if own.bias is not None:
            out = out + own.bias
        rows: Tensor = out
        return rows

    def _edge_scores(self, edge_attr: Tensor, graph: ShardedGraph) -> Tensor:
        """Return the scores of edges, and of the loops that will be added: [num_edges, heads]."""
        own: Any = self
        if own.add_self_loops:
            edge_attr = torch.cat([edge_attr, loop_values(graph, edge_attr, own.fill_value)])
        return scores(edge_attr, own.lin_edge.weight, own.att_edge)


class RGCNConv(PygLayer):
    """Relational graph convolution (arXiv 1703.06103), with bases or blocks or neither."""

    def forward(self, x: Any, graph: Any, edge_type: Tensor | None = None) -> Tensor:
        """Return rows of owned nodes; `edge_type` is that of this rank's edges."""
        own: Any = self
        x, graph = self.arguments(x, graph)
        if edge_type is None:
            raise InputError("RGCNConv: expected edge_type, the type of each of this rank's edges")
        weight = own.weight
        if own.num_bases is not None:
            weight = torch.einsum("rb,bio->rio", own.comp, weight)
        typed = graph.by_type(edge_type, own.num_relations)
        reduce: Any = REDUCTIONS[own.aggr]
        groups = typed.aggregate(x, reduce=reduce)
        out = transform_by_type(groups, typed.destinations, typed.sizes, weight, graph.num_dst)
        if own.root is not None:
            out = out + x @ own.root
        return out if own.bias is None else out + own.bias


def _aggregate_linear(graph: ShardedGraph, x: Tensor, reduce: Reduce, weight: Tensor) -> Tensor:
    """Return the aggregated rows, transformed: before they travel where that makes them shorter."""
    shorter = weight.shape[0] < weight.shape[1] and x.requires_grad  # raw features send no gradients
    if shorter and reduce in ("sum", "mean"):
        return graph.aggregate(x @ weight.T, reduce=reduce)
    return graph.aggregate(x, reduce=reduce) @ weight.T
