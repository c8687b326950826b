"""The tensors of a minibatch: all of them under names, and those that may come by type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.link_types import LinkTypes
from headrace.pipeline.data.type_offsets import TypeName

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch


def freeze(fields: dict[str, Any], names: Iterable[str]) -> None:
    """Make fields of a batch read-only that were given as dictionaries or lists.

    Raises
    ------
    InputError
        For a field that is neither.
    """
    for name in names:
        value = fields[name]
        try:
            if name == "edge":
                fields[name] = MappingProxyType({key: tuple(rows) for key, rows in value.items()})
            elif name == "node" or (name == "y" and isinstance(value, Mapping)):  # labels by type
                fields[name] = MappingProxyType(dict(value))
            elif name != "y":
                fields[name] = tuple(value)
        except (AttributeError, TypeError, ValueError) as cause:
            kind = {"node": "tensors by name", "edge": "lists of tensors by name"}.get(name, "a tuple")
            raise InputError(f"MiniBatch: expected {name} to be {kind}, got {type(value).__name__}") from cause


def named_tensors(batch: MiniBatch) -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor of the batch under a name, in a fixed order."""
    for name in ("seeds", "seed_index", "item_index", "n_id"):
        yield name, getattr(batch, name)
    if isinstance(batch.y, Mapping):
        yield from ((f"y/{name}", batch.y[name]) for name in sorted(batch.y, key=str))
    for name in ("y", "slot", "seed_time"):
        if isinstance(getattr(batch, name), Tensor):
            yield name, getattr(batch, name)
    if batch.link_types is not None:
        yield f"link_types/{batch.link_types.names}", batch.link_types.numbers
    for feature in sorted(batch.node, key=str):
        yield f"node/{feature}", batch.node[feature]
    for feature in sorted(batch.edge, key=str):
        yield from ((f"edge/{feature}/{layer}", tensor) for layer, tensor in enumerate(batch.edge[feature]))
    for layer, block in enumerate(batch.blocks):
        yield from ((f"blocks/{layer}/{name}", tensor) for name, tensor in block.named_tensors())
    for layer, exchange in enumerate(batch.exchanges):
        yield from ((f"exchanges/{layer}/{name}", tensor) for name, tensor in exchange.named_tensors())


def mapped(value: Tensor | Mapping[TypeName, Tensor] | LinkTypes, of_tensor: Callable[[Tensor], Tensor]) -> Any:
    """Return what a function makes of a tensor, or of each of those that a value holds."""
    if isinstance(value, LinkTypes):
        return value.map(of_tensor)
    if isinstance(value, Mapping):
        return {name: of_tensor(rows) for name, rows in value.items()}
    return of_tensor(value)
