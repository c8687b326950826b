"""Layers of models on cooperative batches: hooks, which exchange the rows of their sources between ranks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from traceback import format_exception
from typing import Any

from torch import Tensor, nn

from headrace.ops.errors import InputError
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.exchange import Exchange
from headrace.pipeline.models.adapters.pyg_functions import known_functions
from headrace.pipeline.models.cooperative_trial import try_layer
from headrace.pipeline.models.recomputation import is_recomputing
from headrace.pipeline.models.rows_by_type import is_by_type
from headrace.pipeline.models.running_batch import RUNNING, RunningBatch, cannot_be_recomputed
from headrace.pipeline.models.watched_layers import is_dgl_block, watches

_MARK = "_exchanges_rows"  # of layers that have hooks
_EXCHANGED = "_has_exchanged_rows"  # of layers whose last call took part in an exchange
_TRIED = "_is_tried_on_ranks"  # of layers of which a batch has told: in which modes, training or not


def exchange_rows_of(number: int, layer: nn.Module) -> None:
    """Let a layer exchange the rows of its sources whenever it is called.

    Raises
    ------
    InputError
        If it does so already.
    """
    if hasattr(layer, _MARK):
        raise InputError(
            f"cooperative: layer {number} exchanges rows already; wrap a model once, and give every layer a "
            "module of its own"
        )
    object.__setattr__(layer, _MARK, True)
    layer.register_forward_pre_hook(_exchange_input(number), with_kwargs=True)
    layer.register_forward_hook(_leave(number), always_call=True)
    for relation, conv in layers_by_relation(layer).items():
        conv.register_forward_pre_hook(_enter_relation(number, relation), with_kwargs=True)
        conv.register_forward_hook(_leave_relation, always_call=True)


def check_layers(model: nn.Module, layers: Sequence[nn.Module]) -> None:
    """Refuse layers that the model cannot call."""
    within = set(model.modules())
    for module in within:
        if hasattr(module, "get_attention_loss"):
            raise InputError(
                f"cooperative: {type(module).__module__}.{type(module).__name__} has a loss of its own over the edges "
                "of a batch, of which each rank has some; use GATConv or GATv2Conv"
            )
        if getattr(module, "cached", False) is True:
            raise InputError(
                f"cooperative: expected cached=False, got {type(module).__module__}.{type(module).__name__} with "
                "cached=True, which keeps the edges of its first batch"
            )
    for number, layer in enumerate(layers):
        if not isinstance(layer, nn.Module):
            raise InputError(f"cooperative: expected modules as layers, got {type(layer).__name__} as layer {number}")
        if layer not in within:
            raise InputError(
                f"cooperative: expected layers of the model, got a {type(layer).__name__} as layer {number} that is "
                "none of its modules; pass those that it calls, cooperative(model, layers=[model.first, ...])"
            )


def num_rows_before(batch: MiniBatch, layer: int) -> int:
    """Return how many rows this rank has before a layer, or behind the last one."""
    if batch.exchanges:
        return len(batch.exchanges[layer].owned)
    blocks = batch.blocks
    if not blocks:
        return len(batch.n_id)
    return blocks[layer].num_src if layer < len(blocks) else blocks[-1].num_dst


def _exchange_input(number: int) -> Any:
    """Return a hook that exchanges the input rows of a layer, wherever they are among its arguments."""

    def hook(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any] | None:
        running = RUNNING.get()
        if running is None:
            if getattr(layer, _EXCHANGED, False) and is_recomputing():
                raise cannot_be_recomputed()
            return None
        running.enter(number)
        comm = running.comm
        if running.shares_nodes:
            running.functions = _with_degrees(layer)
        exchanged = comm is not None and not running.batch.exchanges[number].stays
        object.__setattr__(layer, _EXCHANGED, exchanged)
        with _told_to_all(comm):
            args, kwargs = _of_sources(running, number, args, kwargs, takes_types=bool(layers_by_relation(layer)))
        if comm is None:
            return args, kwargs
        is_watched = watches(layer, running.batch.blocks[number], (*args, *kwargs.values()))
        if comm.world_size > 1 and not is_watched and not layers_by_relation(layer):
            _try_once(number, layer, args, kwargs, running)
        exchange = running.batch.exchanges[number]
        args = tuple(_counting_on_all_ranks(argument, exchange, comm) for argument in args)
        return args, {name: _counting_on_all_ranks(argument, exchange, comm) for name, argument in kwargs.items()}

    return hook


def _try_once(
    number: int, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], running: RunningBatch
) -> None:
    """Refuse a layer that is not exact and cannot be watched, in the first batch of each mode that tells."""
    tried = _modes_tried(layer)
    if layer.training not in tried:
        with _told_to_all(running.comm):
            if try_layer(number, layer, args, kwargs, running):
                object.__setattr__(layer, _TRIED, tried | {layer.training})


def _modes_tried(layer: nn.Module) -> frozenset[bool]:
    modes: frozenset[bool] = getattr(layer, _TRIED, frozenset())
    return modes


def layers_by_relation(layer: nn.Module) -> dict[tuple[str, str, str], nn.Module]:
    """Return the layers that a `HeteroConv` of PyG consists of; none of another module."""
    kind = type(layer)
    if kind.__name__ != "HeteroConv" or not kind.__module__.startswith("torch_geometric."):
        return {}
    convs: Any = layer.convs
    return dict(convs.items())


def _enter_relation(number: int, relation: tuple[str, str, str]) -> Any:
    """Return a hook of a layer of a `HeteroConv`, which passes messages of one relation, and is tried in it."""

    def hook(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running = RUNNING.get()
        if running is None or not running.shares_nodes or running.is_trial:
            return
        running.relation = relation
        if layer.training in _modes_tried(layer):
            return
        blocks = running.batch.blocks
        block = blocks[number].relation(relation)
        alone = running.batch.replace(blocks=(*blocks[:number], block, *blocks[number + 1 :]))
        inside = replace(running, batch=alone, nodes=running.nodes[: block.num_src])
        # Of the destinations' type there are rows of all sources: tried are those that the relation leads to.
        pairs = {name: _trimmed(one, block.num_dst) for name, one in kwargs.items()}
        _try_once(number, layer, tuple(_trimmed(one, block.num_dst) for one in args), pairs, inside)

    return hook


def _trimmed(argument: Any, num_dst: int) -> Any:
    """Return a pair of rows of sources and destinations with those of the first destinations."""
    is_pair = type(argument) is tuple and len(argument) == 2 and all(isinstance(one, Tensor) for one in argument)
    return (argument[0], argument[1][:num_dst]) if is_pair else argument


def _leave_relation(layer: nn.Module, args: tuple[Any, ...], out: Any) -> None:
    del layer, args, out
    running = RUNNING.get()
    if running is not None and not running.is_trial:
        running.relation = None


def _with_degrees(layer: nn.Module) -> ExitStack:
    """Let PyG's layers have the degrees of sources from the ranks that own these, until the stack is closed."""
    stack = ExitStack()
    for kind in {type(one) for one in layer.modules()}:
        if hasattr(sys.modules.get(kind.__module__), "gcn_norm"):
            stack.enter_context(known_functions(kind))
    return stack


def _of_sources(
    running: RunningBatch, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], *, takes_types: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a layer with the rows of all its sources.

    Raises
    ------
    InputError
        If there are none of this rank's nodes among them.
    """
    by_type = next((one for one in (*args, *kwargs.values()) if is_by_type(one)), None)
    if by_type is not None and (not takes_types or running.batch.types is None):
        raise _no_dictionaries(number, by_type)
    if not running.needs_exchange(number):
        return args, kwargs
    if by_type is not None:
        rows = running.exchange_by_type(number, by_type)
        return tuple(rows if one is by_type else one for one in args), {
            name: rows if one is by_type else one for name, one in kwargs.items()
        }
    for argument in (*args, *kwargs.values()):
        rows = _exchanged(running, number, argument)
        if rows is not None:  # the same rows may be there twice, as in GCN2Conv
            return (
                tuple(rows if one is argument else one for one in args),
                {name: rows if one is argument else one for name, one in kwargs.items()},
            )
    raise InputError(
        f"cooperative: no argument of layer {number} has a row for each of this rank's "
        f"{num_rows_before(running.batch, number)} nodes; expected h, or a pair (h, h[:num_dst])"
    )


def _no_dictionaries(number: int, rows: Mapping[Any, Any]) -> InputError:
    """Return the error for rows and edges by type, which a user's layer takes: how it uses them cannot be seen."""
    return InputError(
        f"cooperative: expected the rows of layer {number} in one tensor, in the order of batch.n_id, or a HeteroConv "
        f"of PyG, got a dictionary of {', '.join(map(str, rows))}; fetch all types as one feature and take RGCNConv, "
        "conv((h, h[:block.num_dst]), block.edge_index, block.edge_types), or a module of your own as the layer, "
        "which takes h and the block, calls HeteroConv with {name: h[block.types.places(name)]} and "
        "block.edge_index_dict, and returns its rows in one tensor"
    )


@contextmanager
def _told_to_all(comm: Comm | None) -> Iterator[None]:
    """Let the other ranks know of an error here, who would wait for this one in their next exchange."""
    try:
        yield
    except InputError as error:
        if comm is not None:
            comm.fail("".join(format_exception(error)))
        raise


def _leave(number: int) -> Any:
    """Return a hook that notes the end of a layer."""

    def hook(layer: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        del layer, args, out
        running = RUNNING.get()
        if running is not None:
            running.leave(number)

    return hook


def _exchanged(running: RunningBatch, number: int, argument: Any) -> Any:
    """Return the exchanged form of an argument that holds a layer's input rows, else None."""
    num_owned = num_rows_before(running.batch, number)
    if isinstance(argument, Tensor):
        rows = argument.is_floating_point() and argument.dim() > 1 and len(argument) == num_owned
        return running.exchange(number, argument) if rows else None
    if isinstance(argument, tuple) and len(argument) == 2 and isinstance(argument[0], Tensor):
        # The destinations are the first nodes in both orders: their rows need no exchange.
        source = _exchanged(running, number, argument[0])
        return None if source is None else (source, argument[1])
    return None


def _counting_on_all_ranks(argument: Any, exchange: Exchange, comm: Comm) -> Any:
    """Return a DGL block whose ``out_degrees`` are those of one process's block; anything else as it is.

    DGL's `GraphConv` divides by them (``norm="both"``, its default, and ``"left"``). In-degrees need no help: a rank
    has all sampled in-edges of the destinations that it owns. Every rank calls a layer, so every rank comes to the
    count, which takes two collectives and is made only if the layer asks.

    Parameters
    ----------
    argument
        An argument of a layer. A block of the user is not changed: the layer gets a copy that shares its edges.
    exchange
        That of the layer's sources.
    comm
        The channel of the model.
    """
    if not is_dgl_block(argument):
        return argument

    def out_degrees(u: Any = None, etype: Any = None) -> Tensor:
        own: Tensor = argument.out_degrees(etype=etype)
        total = own.new_zeros(len(exchange.owned))
        total.index_add_(0, exchange.asked_rows, exchange.collect(own, comm))
        degrees = exchange.deliver(total, comm)
        return degrees if u is None else degrees[u]

    counting = argument.local_var()
    counting.out_degrees = out_degrees
    return counting
