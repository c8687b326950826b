"""The sizes of batches with padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch


@dataclass(frozen=True)
class Sizes:
    """How many seeds, nodes and edges a batch has, from the seeds outward.

    Parameters
    ----------
    num_seeds
        Entries of ``batch.seeds``.
    num_nodes
        Distinct seeds, then the nodes that each hop found first.
    num_edges
        The edges of each hop.
    """

    num_seeds: int
    num_nodes: tuple[int, ...]
    num_edges: tuple[int, ...]

    @classmethod
    def of(cls, batch: MiniBatch) -> Sizes:
        """Return those of a batch, without padding."""
        return cls(batch.num_seeds, batch.num_sampled_nodes, batch.num_sampled_edges)

    @property
    def with_room(self) -> Sizes:
        """The least sizes of a padded batch: padding edges need a padding row of each hop at both ends."""
        return Sizes(self.num_seeds + 1, tuple(count + 1 for count in self.num_nodes), self.num_edges)

    def fits(self, other: Sizes) -> bool:
        """Whether none is larger than that of another batch."""
        mine, theirs = self._all(), other._all()
        return all(count <= size for count, size in zip(mine, theirs, strict=True))

    def seeds_fit(self, other: Sizes) -> bool:
        """Whether its seeds are not more than those of another batch."""
        return self.num_seeds <= other.num_seeds and self.num_nodes[0] <= other.num_nodes[0]

    def larger(self, other: Sizes) -> Sizes:
        """Return the larger of each and that of another batch."""
        return Sizes(
            max(self.num_seeds, other.num_seeds),
            tuple(map(max, self.num_nodes, other.num_nodes)),
            tuple(map(max, self.num_edges, other.num_edges)),
        )

    def _all(self) -> tuple[int, ...]:
        return (self.num_seeds, *self.num_nodes, *self.num_edges)
