"""The layers of a model, as inference calls them: one by one, each for all nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from torch import Tensor, nn

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.batch import MiniBatch

#: ``layer(h, block, *edge_features)`` returns the rows of the block's destinations.
Layer: TypeAlias = Callable[..., Tensor]

#: The name under which a batch has the rows that a layer takes.
ROWS = "h"


def layers_of(model: nn.Module, layers: Sequence[Layer] | None, num_edge_features: int) -> list[Layer]:
    """Return the layers that were named, or those that the model says it has.

    Raises
    ------
    InputError
        If there are none, or something else than functions.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"inference: the first argument must be a torch.nn.Module; {type(model).__name__} came")
    if layers is None:
        says: Any = getattr(model, "inference_layers", None)
        if callable(says):
            layers = says()
        elif callable(getattr(model, "inference_per_layer", None)):
            layers = _of_pyg(model, num_edge_features)
        else:
            raise InputError(
                f"inference: expected a model that says its layers, got {type(model).__name__} without a method "
                "inference_layers(); pass layers=[...], functions from (h, block) to the next h, with what stands "
                "between layers (a list of modules is not taken unasked: it does not say what that is)"
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


def apply_layer(number: int, layer: Layer, h: Tensor, batch: MiniBatch, edge: Sequence[str]) -> Tensor:
    """Return the rows that a layer gives the destinations of the batch's only block.

    Raises
    ------
    InputError
        If it returns something else than a row for each of them.
    """
    (block,) = batch.blocks
    out: object = layer(h, block, *(batch.edge[name][0] for name in edge))
    if not isinstance(out, Tensor) or out.shape[:1] != (block.num_dst,):
        came = describe(out) if isinstance(out, Tensor) else type(out).__name__
        raise InputError(
            f"inference: expected layer {number} to return a row for each of the block's {block.num_dst} destinations, "
            f"[num_dst, ...], got {came} for {block.num_src} sources; the destinations are the first of the sources: "
            "return out[:block.num_dst], or call PyG's layers with (h, h[:block.num_dst])"
        )
    return out


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
