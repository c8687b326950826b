"""A block as a sparse matrix of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import describe

if TYPE_CHECKING:
    from headrace.pipeline.data.block import Block


def adj_t_of(block: Block, values: Tensor | None) -> Tensor:
    """Return a ``torch.sparse_csr`` matrix [num_dst, num_src]; see `Block.adj_t`."""
    if values is None:
        values = torch.ones(block.num_edges, dtype=torch.float32, device=block.indices.device)
    if not isinstance(values, Tensor) or values.shape != block.indices.shape:
        raise InputError(f"Block.adj_t: expected values of [{block.num_edges}], got {describe(values)}")
    if block.indices.device.type == "cpu":
        _check_bounds(block)
    # Both index arrays are of one dtype: the narrow one costs nothing, as long as it can count the edges.
    narrow = block.indices.dtype == torch.int32 and block.num_edges <= torch.iinfo(torch.int32).max
    dtype = torch.int32 if narrow else torch.int64
    return torch.sparse_csr_tensor(
        block.indptr.to(dtype),
        block.indices.to(dtype),
        values,
        size=(block.num_dst, block.num_src),
        device=values.device,
        check_invariants=False,  # sorted columns are one of them
    )


def _check_bounds(block: Block) -> None:
    """Refuse what a product with the matrix would follow into foreign memory."""
    rows = block.indptr
    ends = int(rows[0]) == 0 and int(rows[-1]) == block.num_edges
    if not ends or bool((rows[1:] < rows[:-1]).any()):
        raise InputError(
            f"Block.adj_t: expected indptr to rise from 0 to num_edges = {block.num_edges}, got {rows.tolist()[:9]}"
        )
    if block.num_edges:
        least, most = (int(end) for end in block.indices.aminmax())
        if least < 0 or most >= block.num_src:
            raise InputError(f"Block.adj_t: expected indices in [0, num_src = {block.num_src}), got {least} to {most}")
