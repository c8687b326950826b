"""What a minibatch holds: its tensors under names, its numbers, and both as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.names import Named
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.by_type import ByType
from headrace.pipeline.data.typed_items import LinkTypes
from headrace.pipeline.data.types import TypedIds, TypeName

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch


#: Fields of a batch that hold several values, first those by name.
_BY_NAME = frozenset({"node", "edge"})
COLLECTIONS = _BY_NAME | {"y", "blocks", "num_sampled_nodes", "num_sampled_edges", "exchanges"}


class _Fetched(Named[Any, Any]):
    """Features by name, called "node" or "edge"; the error for one that is not there says how it is fetched."""

    def __missing__(self, name: object) -> NoReturn:
        raise InputError(
            f"MiniBatch.{self._what}: expected one of the fetched {self._what} features, {list(self) or 'none'}, got "
            f"{name!r}; fetch it with .fetch_feature(store, {self._what}=[...])"
        )


def no_ids() -> Tensor:
    """Return an empty list of ids."""
    return torch.empty(0, dtype=torch.int64, device="cpu")


def freeze(fields: dict[str, Any], names: Iterable[str]) -> None:
    """Make those fields of a batch read-only that were given as dictionaries or lists.

    Raises
    ------
    InputError
        For a field that is neither.
    """
    for name in names:
        value = fields[name]
        if name not in COLLECTIONS or (type(value) is tuple and name not in _BY_NAME):
            continue  # as stages give them, for every batch
        try:
            if name == "edge":
                fields[name] = MappingProxyType(_Fetched(name, {key: tuple(rows) for key, rows in value.items()}))
            elif name == "node":
                fields[name] = MappingProxyType(_Fetched(name, value))
            elif name == "y" and isinstance(value, Mapping):  # labels by type
                fields[name] = MappingProxyType(Named("MiniBatch.y", value))
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


def kept_tensors(batch: MiniBatch) -> Iterator[Tensor]:
    """Yield every tensor of the batch, and those that its types and blocks have computed and keep."""
    if batch.types is not None:
        return _tensors_in(vars(batch))
    unnamed = () if batch.seed_slot is None else (batch.seed_slot,)  # no part of a digest
    return chain((tensor for _, tensor in named_tensors(batch)), unnamed)


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors that a value of a batch holds."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _tensors_in(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors_in(one)
    elif isinstance(value, ByType):
        yield from value.tensors
    elif hasattr(value, "named_tensors") or isinstance(value, TypedIds | LinkTypes):
        yield from _tensors_in(vars(value))


def mapped(value: Tensor | Mapping[TypeName, Tensor] | LinkTypes, of_tensor: Callable[[Tensor], Tensor]) -> Any:
    """Return what a function makes of a tensor, or of each of those that a value holds."""
    if isinstance(value, LinkTypes):
        return value.map(of_tensor)
    if isinstance(value, Mapping):
        return {name: of_tensor(rows) for name, rows in value.items()}
    return of_tensor(value)


def text_of(batch: MiniBatch) -> str:
    """Return what a batch holds, a line for each field that has something."""
    lines = [f"MiniBatch(epoch={batch.epoch}, index={batch.index}, seeds={describe(batch.seeds)}"]
    if isinstance(batch.y, Mapping):
        lines += [f"  y[{name!r}]={describe(rows)}" for name, rows in batch.y.items()]
    elif batch.y is not None:
        lines.append(f"  y={describe(batch.y)}")
    if batch.blocks:
        lines.append(f"  n_id={describe(batch.n_id)}")
    lines += [
        f"  {name}={describe(one)}" for name in ("slot", "seed_time") if (one := getattr(batch, name)) is not None
    ]
    lines += [f"  node[{name!r}]={describe(tensor)}" for name, tensor in batch.node.items()]
    lines += [f"  edge[{name!r}]={', '.join(map(describe, tensors))}" for name, tensors in batch.edge.items()]
    lines += [f"  blocks[{layer}]={block!r}" for layer, block in enumerate(batch.blocks)]
    lines += [f"  exchanges[{layer}]={exchange!r}" for layer, exchange in enumerate(batch.exchanges)]
    return ",\n".join(lines) + ")"


def _num_positives(batch: MiniBatch) -> tuple[int, ...]:
    return () if batch.num_positives is None else (batch.num_positives,)


def integers_of(batch: MiniBatch) -> list[tuple[str, Tensor]]:
    """Return counts, sizes and the place of a batch under names, int64 each, as its digest takes them in."""
    counts = {
        "num_sampled_nodes": batch.num_sampled_nodes,
        "num_sampled_edges": batch.num_sampled_edges,
        "block_sizes": tuple(size for block in batch.blocks for size in (block.num_src, block.num_dst)),
        "exchanges": tuple(
            count for one in batch.exchanges for count in (one.num_own, *one.send_counts, *one.receive_counts)
        ),
        "position": (batch.epoch, batch.index, batch.num_global_seeds, *_num_positives(batch)),
    }
    return [(name, torch.tensor(values, dtype=torch.int64, device="cpu")) for name, values in counts.items()]
