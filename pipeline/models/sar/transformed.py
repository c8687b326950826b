"""Attention over rows that a layer has transformed, which are computed anew in the backward direction."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own spelling
from torch import Tensor, nn

from headrace.ops.aggregate.precision import widened
from headrace.ops.errors import InputError
from headrace.pipeline.models.recomputation import may_be_recomputed
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph


def attend_transformed(
    graph: ShardedGraph, x: Tensor, linear: nn.Linear, heads: int, scores: tuple[Tensor, Tensor], **options: Any
) -> Tensor:
    """Return ``graph.attend(linear(x), ...)``.

    The input `x` is kept in any case, for the gradient of the matrix; so what it was multiplied to is not, as long as
    rows of others are not either.

    Parameters
    ----------
    graph
        Where to attend.
    x: [num_src, num_in]
        The input of the layer.
    linear
        To heads * num_out columns.
    heads
        Heads.
    scores: [num_src, heads], [num_dst, heads]
        Of sources and destinations.
    **options
        Further ones of `ShardedGraph.attend`.

    Returns
    -------
    Tensor
        [num_dst, heads, num_out].
    """
    product = F.linear(x, linear.weight, linear.bias).view(len(x), heads, len(linear.weight) // heads)
    rows = widened(product)
    # In torch.utils.checkpoint all that is saved is let go of as it is.
    if not graph.rematerialises or not linear.weight.requires_grad or may_be_recomputed():
        return graph.attend(rows, *scores, **options)
    with torch.autograd.graph.saved_tensors_hooks(*_anew(rows, x, linear, product.dtype)):
        return graph.attend(rows, *scores, **options)


class _Anew:
    """What stands in the place of the transformed rows."""


def _anew(rows: Tensor, x: Tensor, linear: nn.Linear, multiplied: torch.dtype) -> tuple[Any, Any]:
    """Return hooks that take the rows out of what is saved, and compute them when it is asked for.

    They are rounded as they were: autocast, which is over by then, multiplies in another dtype than that of the rows.
    """
    place, shape, dtype = rows.data_ptr(), rows.shape, rows.dtype  # not the rows, which the hooks would keep
    inputs = [one for one in (x, linear.weight, linear.bias) if one is not None]
    versions = [one._version for one in inputs]  # noqa: SLF001 - as autograd sees that what it saved was changed

    def pack(saved: Tensor) -> Tensor | _Anew:
        return _Anew() if saved.data_ptr() == place and saved.shape == shape else saved

    def unpack(kept: Tensor | _Anew) -> Tensor:
        if isinstance(kept, Tensor):
            return kept
        if [one._version for one in inputs] != versions:  # noqa: SLF001
            raise InputError(
                "GATConv: expected the layer's input and parameters as they were, got changed ones: they were written "
                "to between the forward and the backward direction"
            )
        with torch.no_grad():
            product = F.linear(
                *(None if one is None else one.to(multiplied) for one in (x, linear.weight, linear.bias))
            )
            return product.to(dtype).view(shape)

    return pack, unpack
