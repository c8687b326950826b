"""Parts of the layers that replace those of PyG and DGL, such as attention over rows that they transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own spelling
from torch import Tensor, nn
from typing_extensions import Self

from headrace.ops.aggregate.compiling import uncompiled
from headrace.ops.aggregate.precision import widened
from headrace.ops.errors import InputError
from headrace.pipeline.models.recomputation import DropoutKeys, may_be_recomputed
from headrace.pipeline.models.sar.rounds import inside
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph

Layer = TypeVar("Layer", bound="ReplacedLayer")


class ReplacedLayer(nn.Module):
    """A layer over a `ShardedGraph`, with the parameters, options, mode and hooks of the layer that it replaces."""

    keys: DropoutKeys
    name: str
    replaced: type[nn.Module]
    is_row_local = False  # as a user vouches for

    @classmethod
    def of(cls, layer: nn.Module, keys: DropoutKeys, name: str) -> Self:
        """Return what replaces a layer; `name` is that which it has in the model.

        Raises
        ------
        InputError
            If it has options that cannot be had over shards.
        """
        problem = cls.refusal(layer)
        if problem:
            raise InputError(f"hr.sar.wrap: {type(layer).__name__} {problem} cannot be computed over shards")
        replacement = cls.__new__(cls)
        replacement.__dict__.update(layer.__dict__)
        replacement.keys, replacement.name, replacement.replaced = keys, name, type(layer)
        return replacement

    @property
    def reset_parameters(self) -> Callable[[], None]:
        """The method of the replaced layer, if it has one, that draws its parameters anew; on each rank by itself."""
        layer = self.replaced.__new__(self.replaced)
        layer.__dict__.update(self.__dict__)  # the very same parameters
        return layer.reset_parameters  # type: ignore[return-value]

    @uncompiled
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer, by whose name ranks know what rows are for."""
        with inside(self.name):
            return super().__call__(*args, **kwargs)

    @classmethod
    def refusal(cls, layer: Any) -> str:
        """Return what keeps a layer from being replaced, as "with ..."; "" if nothing does."""
        del layer
        return ""

    def arguments(self, first: Any, second: Any) -> tuple[Tensor, ShardedGraph]:
        """Return rows and graph, which come in either order; rows that autocast has made narrow in float32.

        Raises
        ------
        InputError
            For others.
        """
        x, graph = (second, first) if isinstance(first, ShardedGraph) else (first, second)
        if not isinstance(graph, ShardedGraph) or not isinstance(x, Tensor):
            raise InputError(
                f"{type(self).__name__}: expected rows and an hr.sar.ShardedGraph, got {type(first).__name__} and "
                f"{type(second).__name__}; hr.sar.wrap has replaced this layer, which took an edge_index or a DGLGraph"
            )
        if x.dim() != 2 or not x.is_floating_point():
            raise InputError(f"{type(self).__name__}: expected rows of [num_src, num_features], got {list(x.shape)}")
        return widened(x), graph


def scaled(rows: Tensor, by: Tensor) -> Tensor:
    """Return rows, each multiplied by its number."""
    return rows * by.view(-1, *(1 for _ in rows.shape[1:]))


def scores(rows: Tensor, weight: Tensor, vectors: Tensor) -> Tensor:
    """Return the products of transformed rows and the vector of each head, without the transformed rows.

    Parameters
    ----------
    rows: [n, num_in]
    weight: [heads * num_out, num_in]
        Of the transformation.
    vectors: [1, heads, num_out]
    """
    heads, width = vectors.shape[1:]
    return rows @ torch.einsum("hc,hcd->dh", vectors[0], weight.view(heads, width, -1))


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
