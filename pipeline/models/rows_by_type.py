"""Rows by node type on cooperative batches: they reach other ranks together, as one table of all types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from torch import Tensor, nn

from headrace.ops.errors import InputError
from headrace.pipeline.data import TypeName
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.types import TypedIds

#: Rows of nodes by their type, each [number of nodes of the type, ...].
RowsByType: TypeAlias = Mapping[TypeName, Tensor]


def is_by_type(argument: Any) -> bool:
    """Whether an argument has rows by node type: of floating point, under names of types."""
    return isinstance(argument, Mapping) and any(
        isinstance(name, str) and isinstance(one, Tensor) and one.is_floating_point() for name, one in argument.items()
    )


def exchange_by_type(batch: MiniBatch, layer: int, rows: RowsByType) -> dict[TypeName, Tensor]:
    """Send rows of a layer's nodes from their owners to the ranks that need them, all types in one collective.

    Parameters
    ----------
    batch
        The batch.
    layer
        As of `MiniBatch.exchange`.
    rows: by type, [num_owned or more, ...]
        Of the nodes that this rank owns, the first ones: a layer returns rows of its sources.

    Returns
    -------
    dict
        By type, [num_wanted, ...].

    Raises
    ------
    InputError
        For fewer rows than nodes, or rows of different dtypes.
    """
    exchange, types = batch.exchanges[layer], types_of(batch)
    owned, wanted = types.of(exchange.owned), types.of(exchange.wanted)
    dtypes = {one.dtype for one in rows.values()}
    if len(dtypes) > 1:
        raise InputError(
            f"cooperative: expected rows of all types in one dtype, got {', '.join(sorted(map(str, dtypes)))}"
        )
    flat = {}
    for name, one in rows.items():
        number = owned.count(name)
        if len(one) < number:
            raise InputError(
                f"cooperative: expected rows of {name!r} for each of this rank's {number} nodes of layer {layer}, got "
                f"{len(one)}"
            )
        flat[name] = one[:number].reshape(number, math.prod(one.shape[1:]))
    width = max((one.shape[1] for one in flat.values()), default=0)
    like = next(iter(rows.values()))
    table = like.new_zeros(len(owned.ids), width)
    for name, one in flat.items():
        table = table.index_copy(0, owned.places(name), nn.functional.pad(one, (0, width - one.shape[1])))
    came = batch.exchange(layer, table)
    return {
        name: came[wanted.places(name)][:, : flat[name].shape[1]].reshape(wanted.count(name), *one.shape[1:])
        for name, one in rows.items()
    }


def types_of(batch: MiniBatch) -> TypedIds:
    """Return the types of a batch's nodes.

    Raises
    ------
    InputError
        If it has none.
    """
    if batch.types is None:
        raise InputError("cooperative: expected a batch of a graph with types where rows come by type, got one without")
    return batch.types


def numbers_by_type(batch: MiniBatch) -> set[int]:
    """Return how many nodes of a type there may be rows of."""
    if batch.types is None or not batch.exchanges:
        return set()
    typed = [batch.types.of(ids) for one in batch.exchanges for ids in (one.owned, one.wanted)]
    return {one.count(name) for one in typed for name in one.node_types.names}
