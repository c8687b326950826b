# ruff: noqa: SLF001 - options of DGL's layers have no other names
"""Layers in the place of DGL's, with their parameters: the `ShardedGraph` stands where the DGLGraph stood."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own spelling
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.models.sar.replaced_layer import (
    ReplacedLayer,
    attend_transformed,
    scaled,
    scores,
    transform_by_type,
)
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph


class SAGEConv(ReplacedLayer):
    """GraphSAGE with DGL's aggregators "mean", "gcn" and "pool"."""

    @classmethod
    def refusal(cls, layer: Any) -> str:
        """Refuse LSTMs, which want all messages of a node in an order."""
        return "with aggregator_type='lstm'" if layer._aggre_type == "lstm" else ""

    def forward(self, graph: Any, feat: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return rows of owned nodes."""
        own: Any = self
        feat, graph = self.arguments(graph, feat)
        h, degrees = own.feat_drop(feat), graph.in_degrees().to(feat.dtype)
        before = own._in_src_feats > own._out_feats and own._aggre_type != "pool"
        rows = F.relu(own.fc_pool(h)) if own._aggre_type == "pool" else own.fc_neigh(h) if before else h
        if own._aggre_type == "pool":
            neighbors = graph.aggregate(rows, reduce="max", weight=edge_weight)
        elif own._aggre_type == "gcn":
            neighbors = scaled(graph.aggregate(rows, weight=edge_weight) + rows, 1 / (degrees + 1))
        else:  # a mean of DGL divides by the number of messages, whatever their weights are
            neighbors = scaled(graph.aggregate(rows, weight=edge_weight), 1 / degrees.clamp(min=1))
        out = neighbors if before else own.fc_neigh(neighbors)
        if own._aggre_type != "gcn":
            out = own.fc_self(h) + out
        elif own.bias is not None:
            out = out + own.bias
        out = out if own.activation is None else own.activation(out)
        normalised: Tensor = out if own.norm is None else own.norm(out)
        return normalised


class GraphConv(ReplacedLayer):
    """Graph convolution with each of DGL's norms, by degrees in the whole graph."""

    def forward(self, graph: Any, feat: Any, weight: Tensor | None = None, edge_weight: Tensor | None = None) -> Tensor:
        """Return rows of owned nodes."""
        own: Any = self
        feat, graph = self.arguments(graph, feat)
        _check_in_degrees(self, graph)
        if own._norm in ("left", "both"):
            degrees = graph.out_degrees().clamp(min=1).to(feat.dtype)
            feat = scaled(feat, degrees.pow(-0.5 if own._norm == "both" else -1))
        matrix = own.weight if weight is None else weight
        if weight is not None and own.weight is not None:
            raise InputError("GraphConv: expected one weight, got the layer's own and another; make it weight=False")
        before = own._in_feats > own._out_feats and matrix is not None
        out = graph.aggregate(feat @ matrix if before else feat, weight=edge_weight)
        if matrix is not None and not before:
            out = out @ matrix
        if own._norm in ("right", "both"):
            degrees = graph.in_degrees().clamp(min=1).to(out.dtype)
            out = scaled(out, degrees.pow(-0.5 if own._norm == "both" else -1))
        out = out if own.bias is None else out + own.bias
        activated: Tensor = out if own._activation is None else own._activation(out)
        return activated


class GATConv(ReplacedLayer):
    """Graph attention; masks of dropout of attention belong to edges."""

    @classmethod
    def refusal(cls, layer: Any) -> str:
        """Refuse to drop everything."""
        return f"with attn_drop={layer.attn_drop.p!r}" if layer.attn_drop.p >= 1 else ""

    def forward(self, graph: Any, feat: Any, edge_weight: None = None, get_attention: bool = False) -> Tensor:
        """Return rows of owned nodes, [num_dst, heads, num_features]."""
        if edge_weight is not None or get_attention:
            raise InputError("GATConv: edge_weight= and get_attention= cannot be had over shards")
        own: Any = self
        feat, graph = self.arguments(graph, feat)
        _check_in_degrees(self, graph)
        h = own.feat_drop(feat)
        apart = hasattr(own, "fc_src")
        to_source, to_target = (own.fc_src, own.fc_dst) if apart else (own.fc, own.fc)
        dropout = own.attn_drop.p if self.training else 0.0
        out = attend_transformed(
            graph,
            h,
            to_source,
            own._num_heads,
            (scores(h, to_source.weight, own.attn_l), scores(h, to_target.weight, own.attn_r)),
            slope=own.leaky_relu.negative_slope,
            dropout=dropout,
            key=self.keys.next() if dropout else 0,
        )
        if own.res_fc is not None:
            residual = own.res_fc(h)
            out = out + residual.view(len(h), residual.shape[1] // own._out_feats, own._out_feats)
        if own.has_explicit_bias:
            out = out + own.bias.view(1, own._num_heads, own._out_feats)
        activated: Tensor = out if own.activation is None else own.activation(out)
        return activated


class RelGraphConv(ReplacedLayer):
    """Relational graph convolution (arXiv 1703.06103), with DGL's regularizers."""

    def forward(
        self, graph: Any, feat: Any, etypes: Tensor, norm: Tensor | None = None, *, presorted: bool = False
    ) -> Tensor:
        """Return rows of owned nodes; `etypes` and `norm` are those of this rank's edges."""
        del presorted  # the edges by type are made once
        own: Any = self
        feat, graph = self.arguments(graph, feat)
        linear = own.linear_r
        weight = linear.get_weight()
        if linear.regularizer == "bdd":
            weight = weight.view(linear.num_types, linear.num_bases, linear.submat_in, linear.submat_out)
        types = etypes if isinstance(etypes, Tensor) else torch.as_tensor(etypes, device="cpu")
        typed = graph.by_type(types, linear.num_types)
        groups = typed.aggregate(feat, weight=None if norm is None else norm.reshape(-1).to(feat.dtype))
        out = transform_by_type(typed, groups, weight, graph.num_dst)
        if own.layer_norm:
            out = own.layer_norm_weight(out)
        if own.bias:
            out = out + own.h_bias
        if own.self_loop:
            out = out + feat @ own.loop_weight
        out = own.activation(out) if own.activation else out
        dropped: Tensor = own.dropout(out)
        return dropped


def _check_in_degrees(layer: Any, graph: ShardedGraph) -> None:
    """Refuse nodes without in-edges where DGL does; all ranks do, wherever these nodes are."""
    if not layer._allow_zero_in_degree and not graph.each_has_edges:
        raise InputError(
            f"{type(layer).__name__}: there are nodes without in-edges, whose output would be meaningless; add loops "
            "to the graph, hr.Graph.with_self_loops(), or pass allow_zero_in_degree=True to the layer"
        )
