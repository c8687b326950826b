"""A block with padding: rows and edges that fill it up to sizes that batches share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headrace.ops.forks import cached_property
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.block_tree import register
from headrace.pipeline.data.checks import trusted
from headrace.pipeline.data.types import TypedIds, TypeName, TypeOffsets, type_number


@dataclass(frozen=True, eq=False, repr=False)
class PaddedBlock(Block):
    """A `Block` whose sources and destinations are not all nodes; the others are padding, which only padding reads.

    Layers of `hr.nn` read 0 where a source or an edge is padding, so that its rows may hold anything. `aggregate` and
    `attend` do so with weights and scores of edges.

    Parameters
    ----------
    src_mask: bool[num_src]
        Which sources are real.
    dst_mask: bool[num_dst]
        Which destinations are real.
    """

    src_mask: Tensor = field(kw_only=True)
    dst_mask: Tensor = field(kw_only=True)

    @cached_property
    def edge_types(self) -> Tensor:
        """Return the number of each edge's type, int64[num_edges], also of padding; see `Block.edge_types`."""
        if self.edge_ids is None or self.types is None:
            return super().edge_types
        return torch.where(self.edge_ids < 0, -1 - self.edge_ids, self.types.edge_types.numbers_of(self.edge_ids))

    def relation(self, edge_type: TypeName) -> PaddedBlock:
        """Return the edges of one type, and the padding of the type, as a bipartite block; see `Block.relation`."""
        block, types = super().relation(edge_type), self.types
        assert types is not None
        name = types.edge_types.names[type_number(types.edge_types, edge_type)]
        masks = self.src_mask[types.places(name[0])], self.dst_mask[types.first(self.num_dst).places(name[2])]
        return trusted(_made(block.__reduce__()[1], *masks), like=block)

    @property
    def _real_sources(self) -> Tensor:
        return self.src_mask

    @property
    def _real_destinations(self) -> Tensor:
        return self.dst_mask

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors under their names, in a fixed order."""
        yield from super().named_tensors()
        yield from (("src_mask", self.src_mask), ("dst_mask", self.dst_mask))

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        _, plain = super().__reduce__()
        return _made, (plain, self.src_mask, self.dst_mask)

    def __repr__(self) -> str:
        return f"Padded{super().__repr__()}"


@dataclass(frozen=True, eq=False, repr=False)
class PaddedIds(TypedIds):
    """Ids with those of padding among them: -1 less the number of its type."""

    @cached_property
    def types(self) -> Tensor:
        """The place of each id's type among the names, int64[num_ids]."""
        return torch.where(self.ids < 0, -1 - self.ids, self.node_types.numbers_of(self.ids))

    def within(self, name: TypeName) -> Tensor:
        """Return the ids of a type as they count within it, int64[n], and -1 for padding."""
        ids = self.ids[self.places(name)]
        return torch.where(ids < 0, -1, ids - self.node_types.id_range(name).start)

    def of_edges(self, edge_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return types of edges, and edges within them: -1 for padding, whose id is -1 less the number of its type."""
        numbers, within = super().of_edges(edge_ids.clamp(min=0))
        return torch.where(edge_ids < 0, -1 - edge_ids, numbers), torch.where(edge_ids < 0, -1, within)

    def of(self, ids: Tensor) -> PaddedIds:
        """Return other ids with these types."""
        return PaddedIds(self.node_types, self.edge_types, ids)

    def __reduce__(self) -> tuple[type[PaddedIds], tuple[TypeOffsets, TypeOffsets, Tensor]]:
        return PaddedIds, (self.node_types, self.edge_types, self.ids)


def _made(plain: tuple[Any, ...], src_mask: Tensor, dst_mask: Tensor) -> PaddedBlock:
    return PaddedBlock(*plain, src_mask=src_mask, dst_mask=dst_mask)


register(PaddedBlock, PaddedIds, "headrace.PaddedBlock")
