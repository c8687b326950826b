"""Blocks as pytrees of torch: what walks over arguments, such as torch.export and torch.func, finds their tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from headrace.pipeline.data.block import Block


def flattened(block: Block) -> tuple[list[Tensor], tuple[Any, ...]]:
    """Return the tensors of a block, and everything else."""
    named, types = dict(block.named_tensors()), block.types
    leaves = [*named.values(), *(() if types is None else (types.ids,))]
    offsets = None if types is None else (type(types), types.node_types, types.edge_types)
    return leaves, (type(block), tuple(named), block.num_src, block.num_dst, block.bipartite, offsets)


def unflattened(leaves: Iterable[Any], context: tuple[Any, ...]) -> Block:
    """Return a block of them, without a copy, and without a check: leaves may be anything while torch walks."""
    kind, names, num_src, num_dst, bipartite, offsets = context
    block: Block = object.__new__(kind)
    found = list(leaves)
    types = None if offsets is None else offsets[0](*offsets[1:], found[-1])
    fields = {"edge_ids": None, "weight": None, **dict(zip(names, found, strict=False))}
    vars(block).update(fields, num_src=num_src, num_dst=num_dst, types=types, bipartite=bipartite)
    return block
