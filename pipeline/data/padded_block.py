"""A block with padding: rows and edges that fill it up to sizes that batches share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.utils._pytree import register_pytree_node

from headrace.pipeline.data.block import Block
from headrace.pipeline.data.block_tree import flattened, unflattened


@dataclass(frozen=True, eq=False, repr=False)
class PaddedBlock(Block):
    """A `Block` whose sources and destinations are not all nodes; the others are padding, which only padding reads.

    Layers of `hr.nn` read 0 where a source is padding, so that rows of padding may hold anything.

    Parameters
    ----------
    src_mask: bool[num_src]
        Which sources are real.
    dst_mask: bool[num_dst]
        Which destinations are real.
    """

    src_mask: Tensor = field(kw_only=True)
    dst_mask: Tensor = field(kw_only=True)

    @property
    def _real_sources(self) -> Tensor:
        return self.src_mask

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors under their names, in a fixed order."""
        yield from super().named_tensors()
        yield from (("src_mask", self.src_mask), ("dst_mask", self.dst_mask))

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        _, plain = super().__reduce__()
        return _made, (plain, self.src_mask, self.dst_mask)

    def __repr__(self) -> str:
        return f"Padded{super().__repr__()}"


def _made(plain: tuple[Any, ...], src_mask: Tensor, dst_mask: Tensor) -> PaddedBlock:
    return PaddedBlock(*plain, src_mask=src_mask, dst_mask=dst_mask)


register_pytree_node(PaddedBlock, flattened, unflattened, serialized_type_name="headrace.PaddedBlock")
