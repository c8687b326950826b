"""The sizes of batches with padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headrace.pipeline.data.types import count_by_hop

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch

#: For each hop the number of each type.
ByHop = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Sizes:
    """How many seeds, nodes and edges a batch has, from the seeds outward.

    Parameters
    ----------
    num_seeds
        Entries of ``batch.seeds``.
    nodes
        Of each type, distinct seeds, then the nodes that each hop found first. Without types there is one.
    edges
        Of each type, the edges of each hop.
    """

    num_seeds: int
    nodes: ByHop
    edges: ByHop

    @classmethod
    def plain(cls, num_seeds: int, num_nodes: tuple[int, ...], num_edges: tuple[int, ...]) -> Sizes:
        """Return those of a batch without types."""
        return cls(num_seeds, tuple((count,) for count in num_nodes), tuple((count,) for count in num_edges))

    @classmethod
    def of(cls, batch: MiniBatch) -> Sizes:
        """Return those of a batch, without padding."""
        types = batch.types
        if types is None:
            return cls.plain(batch.num_seeds, batch.num_sampled_nodes, batch.num_sampled_edges)
        numbers = torch.cat([block.edge_types for block in reversed(batch.blocks)])
        nodes = count_by_hop(types.types, types.node_types.num_types, batch.num_sampled_nodes)
        edges = count_by_hop(numbers, types.edge_types.num_types, batch.num_sampled_edges)
        return cls(batch.num_seeds, tuple(zip(*nodes, strict=True)), tuple(zip(*edges, strict=True)))

    @property
    def num_nodes(self) -> tuple[int, ...]:
        """Distinct seeds, then the nodes that each hop found first, of all types."""
        return tuple(map(sum, self.nodes))

    @property
    def num_edges(self) -> tuple[int, ...]:
        """The edges of each hop, of all types."""
        return tuple(map(sum, self.edges))

    @property
    def with_room(self) -> Sizes:
        """The least sizes of a padded batch: padding edges need a padding row at both ends, in each hop."""
        return Sizes(self.num_seeds + 1, tuple(tuple(count + 1 for count in hop) for hop in self.nodes), self.edges)

    def fits(self, other: Sizes) -> bool:
        """Whether none is larger than that of another batch."""
        return all(count <= size for count, size in zip(self._all(), other._all(), strict=True))

    def seeds_fit(self, other: Sizes) -> bool:
        """Whether its seeds are not more than those of another batch."""
        distinct = zip(self.nodes[0], other.nodes[0], strict=True)
        return self.num_seeds <= other.num_seeds and all(count <= size for count, size in distinct)

    def larger(self, other: Sizes) -> Sizes:
        """Return the larger of each and that of another batch."""
        nodes, edges = (
            tuple(tuple(map(max, *hops)) for hops in zip(mine, theirs, strict=True))
            for mine, theirs in ((self.nodes, other.nodes), (self.edges, other.edges))
        )
        return Sizes(max(self.num_seeds, other.num_seeds), nodes, edges)

    def _all(self) -> tuple[int, ...]:
        return (self.num_seeds, *sum(self.nodes, ()), *sum(self.edges, ()))
