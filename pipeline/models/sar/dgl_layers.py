# ruff: noqa: SLF001 - options of DGL's layers have no other names
"""Layers of DGL for which there are kernels, with their parameters: of attention, and of relations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headrace.pipeline.models.nn.rgcn import transform_by_type
from headrace.pipeline.models.sar.any_dgl import AnyDglLayer
from headrace.pipeline.models.sar.replaced_layer import (
    ReplacedLayer,
    attend_transformed,
    scores,
)


class GATConv(AnyDglLayer):
    """Graph attention; masks of dropout of attention belong to edges."""

    def forward(self, graph: Any, feat: Any, *args: Any, **kwargs: Any) -> Any:
        """Return rows of owned nodes, [num_dst, heads, num_features]; with other arguments, what DGL's layer does."""
        own: Any = self
        if args or kwargs or isinstance(feat, tuple) or own.attn_drop.p >= 1:
            return super().forward(graph, feat, *args, **kwargs)
        feat, graph = self.arguments(getattr(graph, "sharded", graph), feat)
        self.check_in_degrees(graph)
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
        return out if own.activation is None else own.activation(out)


class RelGraphConv(ReplacedLayer):
    """Relational graph convolution (arXiv 1703.06103), with DGL's regularizers."""

    def forward(
        self, graph: Any, feat: Any, etypes: Tensor, norm: Tensor | None = None, *, presorted: bool = False
    ) -> Tensor:
        """Return rows of owned nodes; `etypes` and `norm` are those of this rank's edges."""
        del presorted  # the edges by type are made once
        own: Any = self
        feat, graph = self.arguments(getattr(graph, "sharded", graph), feat)
        linear = own.linear_r
        weight = linear.get_weight()
        if linear.regularizer == "bdd":
            weight = weight.view(linear.num_types, linear.num_bases, linear.submat_in, linear.submat_out)
        types = etypes if isinstance(etypes, Tensor) else torch.as_tensor(etypes, device="cpu")
        typed = graph.by_type(types, linear.num_types)
        groups = typed.aggregate(feat, weight=None if norm is None else norm.reshape(-1).to(feat.dtype))
        out = transform_by_type(groups, typed.destinations, typed.sizes, weight, graph.num_dst)
        if own.layer_norm:
            out = own.layer_norm_weight(out)
        if own.bias:
            out = out + own.h_bias
        if own.self_loop:
            out = out + feat @ own.loop_weight
        out = own.activation(out) if own.activation else out
        dropped: Tensor = own.dropout(out)
        return dropped
