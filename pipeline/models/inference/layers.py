"""The layers of a model, as inference calls them: one by one, each for all nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from headrace.ops.errors import InputError
from headrace.pipeline.data import FeatureName, MiniBatch, describe
from headrace.pipeline.models.inference.rows import Kind, edge_arguments

#: ``layer(h, block, *edge_features)`` returns the rows of the block's destinations, as a tensor or by type.
Layer: TypeAlias = Callable[..., Any]


class Output(NamedTuple):
    """What a layer returns for a batch: rows of destinations by type (by None without types), and whether it did so."""

    rows: dict[Kind, Tensor]
    by_type: bool


def layers_of(model: nn.Module, layers: Sequence[Layer] | None, num_edge_features: int) -> list[Layer]:
    """Return the layers that were named, or those that the model says it has.

    Raises
    ------
    InputError
        If there are none, or something else than functions.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"inference: expected the first argument to be a torch.nn.Module, got {type(model).__name__}")
    if layers is None:
        says: Any = getattr(model, "inference_layers", None)
        if callable(says):
            layers = says()
        elif callable(getattr(model, "inference_per_layer", None)):
            layers = _of_pyg(model, num_edge_features)
        else:
            raise InputError(
                f"inference: expected a model with a method inference_layers(), got {type(model).__name__}; "
                "pass layers=[...], functions from (h, block) to the next h, with what stands "
                "between layers (a list of modules is not taken unasked: it does not tell what that is)"
            )
    if not isinstance(layers, Sequence | nn.ModuleList) or not layers or not all(map(callable, layers)):
        what = type(layers).__name__ if not isinstance(layers, Sequence) else f"{len(layers)}, {layers!r}"
        raise InputError(f"inference: expected a list of layers, functions from (h, block) to the next h, got {what}")
    return list(layers)


def _of_pyg(model: Any, num_edge_features: int) -> list[Layer]:
    """Return the layers of a model of ``torch_geometric.nn.models``, which has them from its class `BasicGNN`."""
    if getattr(model, "jk_mode", None) not in (None, "last") or num_edge_features:
        has = "features of edges" if num_edge_features else f"jk={model.jk_mode!r}"
        raise InputError(
            f"inference: expected a model of PyG that is one layer after another, got {type(model).__name__} with "
            f"{has}; pass layers=[...], functions from (h, block, *edge) to the next h"
        )

    def apply(number: int, h: Tensor, block: Any) -> Tensor:
        rows: Tensor = model.inference_per_layer(number, h, block.edge_index, block.num_dst)
        return rows

    return [partial(apply, number) for number in range(model.num_layers)]


def apply_layer(number: int, layer: Layer, h: Any, batch: MiniBatch, edge: tuple[FeatureName, ...]) -> Output:
    """Return the rows that a layer gives the destinations of the batch's only block.

    Raises
    ------
    InputError
        If it returns something else than a row for each of them.
    """
    (block,) = batch.blocks
    out: object = layer(h, block, *edge_arguments(batch, edge))
    for rows in out.values() if isinstance(out, Mapping) else (out,):
        if isinstance(rows, Tensor) and rows.layout != torch.strided:
            raise InputError(
                f"inference: expected layer {number} to return dense rows, got layout {rows.layout}; return "
                "rows.to_dense()"
            )
    if batch.types is not None and isinstance(out, Mapping):
        return Output(_of_destinations(number, out, batch), by_type=True)
    if not isinstance(out, Tensor) or out.shape[:1] != (block.num_dst,):
        came = describe(out) if isinstance(out, Tensor) else type(out).__name__
        raise InputError(
            f"inference: expected layer {number} to return a row for each of the block's {block.num_dst} destinations, "
            f"[num_dst, ...]{' or such by type' if batch.types else ''}, got {came} for {block.num_src} sources; the "
            "destinations are the first of the sources: return out[:block.num_dst], or call PyG's layers with "
            "(h, h[:block.num_dst])"
        )
    if batch.types is None:
        return Output({None: out}, by_type=False)
    destinations = batch.types.first(block.num_dst)
    return Output({kind: out[destinations.places(kind)] for kind in destinations.node_types.names}, by_type=False)


def _of_destinations(number: int, out: Mapping[Any, Any], batch: MiniBatch) -> dict[Kind, Tensor]:
    """Return the rows of the destinations of each type that a layer gave some.

    Layers of PyG give all sources rows if they get no others for destinations. Of each type destinations come first.
    """
    types = batch.types
    assert types is not None
    destinations = types.first(batch.blocks[0].num_dst)
    names = types.node_types.names
    unknown = [kind for kind in out if kind not in names]
    if unknown or all(rows is None for rows in out.values()):
        came = f"some of {unknown[0]!r}" if unknown else "none"
        raise InputError(f"inference: expected layer {number} to return rows by node type, {list(names)}, got {came}")
    rows: dict[Kind, Tensor] = {}
    for kind in names:
        of_kind = out.get(kind)
        if of_kind is None:  # so PyG's HGTConv says that a type gets no messages
            continue
        num_dst, num_src = destinations.count(kind), types.count(kind)
        if not isinstance(of_kind, Tensor) or of_kind.ndim == 0 or len(of_kind) not in (num_dst, num_src):
            came = describe(of_kind) if isinstance(of_kind, Tensor) else type(of_kind).__name__
            raise InputError(
                f"inference: expected layer {number} to return a row for each of the block's {num_dst} destinations of "
                f"type {kind!r} (or {num_src} sources, of which they are the first), got {came}"
            )
        rows[kind] = of_kind[:num_dst]
    return rows


@contextmanager
def evaluating(*modules: object) -> Iterator[None]:
    """Put the modules among these into the mode of evaluation, and each of their parts back into its own at the end."""
    roots = [one for one in modules if isinstance(one, nn.Module)]
    modes = {part: part.training for root in roots for part in root.modules()}
    try:
        for root in roots:
            root.eval()
        yield
    finally:
        for part, training in modes.items():
            part.training = training
