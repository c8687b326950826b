"""Blocks as pytrees of torch: what walks over arguments, such as torch.export, finds their tensors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils import _pytree

from headrace.pipeline.data.types import TypedIds, TypeName, TypeOffsets

if TYPE_CHECKING:
    from headrace.pipeline.data.block import Block


def register(kind: type[Block], kind_of_ids: type[TypedIds], name: str) -> None:
    """Let torch walk over blocks of a class, whose types are ids of a class; `name` is that in exported programs."""
    keys = {"flatten_with_keys_fn": _with_keys} if hasattr(_pytree, "GetAttrKey") else {}  # from torch 2.3 on
    load = partial(_loaded, kind, kind_of_ids)
    _pytree.register_pytree_node(
        kind,
        _flattened,
        _unflattened,
        serialized_type_name=name,
        to_dumpable_context=_dumped,
        from_dumpable_context=load,
        **keys,
    )


def _flattened(block: Block) -> tuple[list[Tensor], tuple[Any, ...]]:
    """Return the tensors of a block, and everything else."""
    named, types = dict(block.named_tensors()), block.types
    leaves = [*named.values(), *(() if types is None else (types.ids,))]
    offsets = None if types is None else (type(types), types.node_types, types.edge_types)
    return leaves, (type(block), tuple(named), block.num_src, block.num_dst, block.bipartite, offsets)


def _with_keys(block: Block) -> tuple[list[tuple[Any, Tensor]], tuple[Any, ...]]:
    """Return the same, each tensor with the name of its attribute."""
    leaves, context = _flattened(block)
    names = [*context[1], *(() if block.types is None else ("types",))]
    return [(_pytree.GetAttrKey(name), leaf) for name, leaf in zip(names, leaves, strict=True)], context


def _unflattened(leaves: Iterable[Any], context: tuple[Any, ...]) -> Block:
    """Return a block of them, without a copy, and without a check: leaves may be anything while torch walks."""
    kind, names, num_src, num_dst, bipartite, offsets = context
    block: Block = object.__new__(kind)
    found = list(leaves)
    types = None if offsets is None else offsets[0](*offsets[1:], found[-1])
    fields = {"edge_ids": None, "weight": None, **dict(zip(names, found, strict=False))}
    vars(block).update(fields, num_src=num_src, num_dst=num_dst, types=types, bipartite=bipartite)
    return block


def _dumped(context: tuple[Any, ...]) -> str:
    """Return all but the tensors as JSON."""
    _, *plain, offsets = context
    types = [] if offsets is None else [(one.names, one.offsets.diff().tolist()) for one in offsets[1:]]
    return json.dumps([*plain, types])


def _loaded(kind: type[Block], kind_of_ids: type[TypedIds], text: str) -> tuple[Any, ...]:
    names, *plain, types = json.loads(text)
    offsets = (kind_of_ids, *(TypeOffsets.from_counts(_counts(*one)) for one in types)) if types else None
    return kind, tuple(names), *plain, offsets


def _counts(names: list[Any], counts: list[int]) -> dict[TypeName, int]:
    """Return the counts by type; JSON has lists for tuples."""
    return dict(zip((tuple(one) if isinstance(one, list) else one for one in names), counts, strict=True))
