"""The edges of a part, by their ids among those of the whole graph."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.ops import InputError
from headrace.ops.forks import cached_property
from headrace.ops.graphs.ranks import Ranks
from headrace.pipeline.data import whole_number
from headrace.pipeline.partition.partition import Partition


class PartEdges(Partition):
    """The owners of edges, which are those of their destinations, as one part of a graph knows them.

    A part knows which edges are its own. Whose another one is, its destination tells: `nodes` has the owners of these.

    Parameters
    ----------
    nodes
        The owner of each node.
    part
        The part.
    edge_ids: int32[num_own] or int64[num_own]
        Its edges, in any order. Their places in the part are those of their ids in ascending order.
    num_edges
        The number of edges of all parts.
    """

    def __init__(self, nodes: Partition, part: int, edge_ids: Tensor, num_edges: int) -> None:
        super().__init__(num_edges, nodes.num_parts)
        self.nodes = nodes
        self.part = part
        self._edge_ids = edge_ids

    @cached_property
    def _ranks(self) -> Ranks:
        ascending = self._edge_ids.to(torch.int64, copy=True).numpy()
        ascending.sort()  # in place, as parts are large
        return Ranks.of(ascending, self.num_nodes)

    @property
    def _needs_entries(self) -> bool:
        """Whether something may have an entry for each edge."""
        return False

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of edges: this part, or -1 for edges of others."""
        return torch.where(self._places(ids) < 0, -1, self.part).int()

    def owned(self, part: int) -> Tensor:
        """Return the edges of this part, ascending.

        Raises
        ------
        InputError
            For another part.
        """
        part = whole_number(part, "Partition.owned: part", 0, InputError, self.num_parts - 1)
        self._check_is_own(part)
        return self._ranks.members()

    def position(self, ids: Tensor) -> Tensor:
        """Return the places of edges in this part.

        Raises
        ------
        InputError
            For edges of other parts.
        """
        places = self._places(ids)
        if len(places) and int(places.min()) < 0:
            foreign = int(ids[int((places < 0).nonzero()[0])])
            raise InputError(
                f"Partition.position: expected edges of part {self.part}, got edge {foreign} of another part"
            )
        return places

    def _places(self, ids: Tensor) -> Tensor:
        """Return the places of edges in this part, int64[n]; -1 for edges of others."""
        if ids.device == self._ranks.blocks.device:
            return self._ranks.find(ids)
        return Ranks(self._copies.beside(ids, self._ranks.blocks), self.num_nodes).find(ids)

    def _num_owned(self, part: int) -> int:
        """Return how many edges this part has."""
        self._check_is_own(part)
        return len(self._edge_ids)

    def _num_before(self, node: int) -> Tensor:
        """Return how many edges before one this part has, and 0 for others, int64[num_parts]."""
        counts = torch.zeros(self.num_parts, dtype=torch.int64, device="cpu")
        counts[self.part] = self._ranks.num_below(node)
        return counts

    def _check_is_own(self, part: int) -> None:
        if part != self.part:
            raise InputError(
                f"ShardedFeature: expected part {self.part}, whose edges these are, got {part}; take the edges of that "
                "part, shard.edges"
            )

    def content_digest(self) -> str:
        """Return a fingerprint that is the same for all parts of one cut."""
        return f"{self.num_nodes} edges at {self.nodes.content_digest()}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartEdges):
            return NotImplemented
        known = (self.part, self.num_nodes, self.nodes) == (other.part, other.num_nodes, other.nodes)
        return known and torch.equal(self._ranks.blocks, other._ranks.blocks)

    def __hash__(self) -> int:
        return hash((self.num_nodes, self.nodes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_nodes:,} edges, {self.num_parts} parts)"
