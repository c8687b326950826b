"""Layers that several ranks run on blocks whose nodes they share: each is watched at its first call in a mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from traceback import format_exception
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from headrace.ops.aggregate.compiling import uncompiled
from headrace.ops.errors import InputError
from headrace.pipeline.data.block import Block
from headrace.pipeline.models.bound_block import BoundBlock
from headrace.pipeline.models.by_parts.edge_lists import DESTINATIONS, EDGES, NODES
from headrace.pipeline.models.by_parts.layer_watch import LayerWatch
from headrace.pipeline.models.by_parts.row_counts import tensors_within
from headrace.pipeline.models.by_parts.row_watch import running_watch
from headrace.pipeline.models.by_parts.users_frames import run_watched
from headrace.pipeline.models.cooperative_modules import CooperativeBatchNorm, CooperativeDropout
from headrace.pipeline.models.running_batch import RUNNING, RunningBatch

_WATCHED = "_is_exact_on_ranks"  # of layers that were watched: in which modes, training or not

_ADVICE = (
    "a graph convolution takes hr.gcn_norm(graph), fetched as a feature of edges, as edge_weight, with normalize=False "
    "(norm='none' in DGL), once for each block; a norm over all nodes is nn.BatchNorm1d, between layers"
)

#: Aggregations of PyG that sort the edges of a destination, or pad them to sequences.
_OF_WHOLE_ROWS = {"MedianAggregation", "QuantileAggregation", "LSTMAggregation", "GRUAggregation", "SortAggregation"}


def watch_layers(layers: Iterable[nn.Module]) -> None:
    """Watch layers until a call in each mode was enough."""
    for layer in layers:
        is_seen = isinstance(layer, torch.jit.ScriptModule) or _is_exact(layer)  # of TorchScript nothing can be seen
        if not is_seen and len(getattr(layer, _WATCHED, ())) < 2 and not isinstance(layer.forward, _Watched):
            vars(layer)["forward"] = _Watched(layer)


class _Watched:
    """Stands in a layer for its `forward`. A copy of the layer has its own."""

    def __init__(self, layer: nn.Module) -> None:
        self._layer = layer
        self._own = vars(layer).get("forward")
        self._plain: Callable[..., Any] = layer.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        running, layer = RUNNING.get(), self._layer
        watched: frozenset[bool] = getattr(layer, _WATCHED, frozenset())
        if running is None or not running.shares_nodes or layer.training in watched or running_watch() is not None:
            return self._plain(*args, **kwargs)
        assert running.layer is not None
        block = running.batch.blocks[running.layer]
        if running.relation is not None or not watches(layer, block, (*args, *kwargs.values())) or not block.num_dst:
            return self._plain(*args, **kwargs)
        return self._watch(running, block, args, kwargs)

    @uncompiled  # compiled operations cannot be watched
    def _watch(self, running: RunningBatch, block: Block, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        layer = self._layer
        watch = LayerWatch(layer, _ends(block), block.num_src, block.num_dst, running.layer or 0, _ADVICE)
        try:
            out = _inside(watch, layer, block, self._plain, args, kwargs)
        except InputError as error:
            assert running.comm is not None
            running.comm.fail("".join(format_exception(error)))
            raise
        finally:
            watch.close()
        if watch.is_sure:
            watched = {*getattr(layer, _WATCHED, ()), layer.training}
            object.__setattr__(layer, _WATCHED, frozenset(watched))
            if len(watched) == 2:
                del vars(layer)["forward"]
                vars(layer).update({} if self._own is None else {"forward": self._own})
        return out

    def __reduce__(self) -> tuple[Any, tuple[nn.Module, str]]:
        return getattr, (self._layer, "forward")


def _ends(block: Block) -> tuple[Tensor, Tensor]:
    sources, destinations = block.edge_index
    return sources, destinations


def _inside(
    watch: LayerWatch,
    layer: nn.Module,
    block: Block,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    rows = next((one for one in (*args, *kwargs.values()) if _are_rows(one)), None)
    for one in tree_leaves(rows):
        watch.enter_rows(one)
    watch.enter_arguments(tensors_within((args, dict(kwargs), dict(block.named_tensors()), block.edge_index)))
    with ExitStack() as stack:
        for module in layer.modules():
            if module is not layer:
                stack.enter_context(_known_module(module, watch))
        with watch:
            out = run_watched(partial(forward, *args, **kwargs))
    watch.check(out)
    return out


def watches(layer: nn.Module, block: Any, arguments: Iterable[Any]) -> bool:
    """Whether a layer is watched on a block: it takes edges, not a block, of DGL or ours, whose methods are not seen.

    Where ranks share the edges of a block, what layers ask of it is exact by itself. PyG's `RGCNConv` and
    `HeteroLinear` read the numbers of edges or nodes of each type, though only to choose a kernel.
    """
    if not isinstance(block, Block) or block.types is not None or any(map(_is_block, arguments)):
        return False
    return all(type(one).__name__ not in ("RGCNConv", "HeteroLinear") for one in layer.modules())


def is_dgl_block(argument: Any) -> bool:
    """Whether an argument of a layer is a block of DGL."""
    return bool(getattr(argument, "is_block", False))


def _is_block(argument: Any) -> bool:
    return isinstance(argument, Block | BoundBlock) or is_dgl_block(argument)


def _are_rows(value: Any) -> bool:
    tensors = value if type(value) is tuple else (value,)
    return all(isinstance(one, Tensor) and one.is_floating_point() and one.dim() > 1 for one in tensors)


def _is_exact(module: nn.Module) -> bool:
    """Whether a module is exact on blocks as a whole."""
    return type(module).__module__.startswith("headrace.pipeline.models.nn")


@contextmanager
def _known_module(module: nn.Module, watch: LayerWatch) -> Iterator[None]:
    """Take a module in a layer as one step of it, if it is known as a whole."""
    is_local = isinstance(module, CooperativeBatchNorm | CooperativeDropout)
    kind = type(module)
    is_of_pyg = kind.__module__.startswith("torch_geometric.nn.aggr") and kind.__name__ in _OF_WHOLE_ROWS
    if not (is_local or is_of_pyg or _is_exact(module)):
        yield
        return
    own, plain = vars(module).get("forward"), module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        call = partial(plain, *args, **kwargs)
        if is_local:
            return watch.row_by_row(call, args[0])
        if is_of_pyg:
            names = dict(zip(("x", "index", "ptr", "dim_size", "dim"), args, strict=False)) | kwargs
            return watch.aggregated(call, names["x"], names.get("index"), names.get("dim", -2))
        values = [(one, {NODES, EDGES}) for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        return watch.step(call, values, DESTINATIONS)

    vars(module)["forward"] = forward
    try:
        yield
    finally:
        vars(module).pop("forward")
        vars(module).update({} if own is None else {"forward": own})
