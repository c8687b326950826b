"""What a block refuses to be made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.typed_ids import TypedIds

if TYPE_CHECKING:
    from headrace.pipeline.data.block import Block

_IDS = (torch.int32, torch.int64)


def check_block(block: Block) -> None:
    """Check classes, dtypes and lengths; values are not read, as blocks may live on any device.

    Raises
    ------
    InputError
        If they do not fit together.
    """
    if not isinstance(block.num_src, int) or not isinstance(block.num_dst, int):
        kinds = f"{type(block.num_src).__name__} and {type(block.num_dst).__name__}"
        raise InputError(f"Block: expected num_src and num_dst to be integers, got {kinds}")
    if (
        not isinstance(block.indptr, Tensor)
        or block.indptr.dtype != torch.int64
        or block.indptr.shape != (block.num_dst + 1,)
    ):
        raise InputError(f"Block: expected indptr of int64[{block.num_dst + 1}], got {describe(block.indptr)}")
    if not isinstance(block.indices, Tensor) or block.indices.dtype not in _IDS or block.indices.ndim != 1:
        raise InputError(f"Block: expected indices of int32 or int64[num_edges], got {describe(block.indices)}")
    if not (0 <= block.num_dst <= block.num_src or block.bipartite):
        raise InputError(
            f"Block: expected 0 <= num_dst <= num_src, got num_dst={block.num_dst}, num_src={block.num_src}; "
            "destinations come first among the sources"
        )
    ids, weight, num_edges = block.edge_ids, block.weight, block.indices.shape
    if ids is not None and (not isinstance(ids, Tensor) or ids.dtype != torch.int64 or ids.shape != num_edges):
        raise InputError(f"Block: expected edge_ids of int64[{block.num_edges}], got {describe(ids)}")
    if weight is not None and (not isinstance(weight, Tensor) or weight.shape != num_edges):
        raise InputError(f"Block: expected weight of [{block.num_edges}], got {describe(weight)}")
    if not isinstance(block.bipartite, bool) or not isinstance(block.types, TypedIds | None):
        kinds = f"{type(block.types).__name__} and {type(block.bipartite).__name__}"
        raise InputError(f"Block: expected types to be TypedIds or None, and bipartite a bool, got {kinds}")
