"""The owners of nodes and edges as one part of a graph knows them: no array has an entry for each node or edge."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from headrace.ops import InputError
from headrace.ops.forks import cached_property
from headrace.ops.graphs.ranks import Ranks
from headrace.pipeline.data import whole_number
from headrace.pipeline.partition.device_copies import DeviceCopies
from headrace.pipeline.partition.kinds import TablePartition
from headrace.pipeline.partition.partition import Partition

#: Nodes whose owners are packed, or looked at, at a time: a multiple of those of a word.
CHUNK = 1 << 20


class Owning(Protocol):
    """Tells owners: ranges, a hash, or packed words."""

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of nodes, int32[n]."""
        ...


class PackedOwners:
    """Owners in words of 64 bits, with 1, 2, 4, 8 or 16 bits for each.

    Parameters
    ----------
    words: int64[num_words(num_nodes, num_parts)]
        Those of the first nodes have the lowest bits.
    num_parts
        Parts.
    """

    def __init__(self, words: Tensor, num_parts: int) -> None:
        self._words = words
        self._bits = bits_of_owner(num_parts)
        self._copies = DeviceCopies()

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of nodes, int32[n]."""
        words = self._copies.beside(ids, self._words)
        places = ids.long() * self._bits
        return ((words[places >> 6] >> (places & 63)) & ((1 << self._bits) - 1)).int()


class _KnownByPart(Partition):
    """Owners of which one part knows the places of its own alone.

    Parameters
    ----------
    num_ids
        The number of nodes, or edges, of all parts.
    num_parts
        Parts.
    part
        The part that knows.
    """

    #: What has owners, for messages.
    _WHAT: ClassVar[str]

    def __init__(self, num_ids: int, num_parts: int, part: int) -> None:
        super().__init__(num_ids, num_parts)
        self.part = part

    @property
    @abstractmethod
    def _ranks(self) -> Ranks:
        """Which ids are those of this part."""

    @property
    def _needs_entries(self) -> bool:
        """Whether something may have an entry for each id."""
        return False

    def position(self, ids: Tensor) -> Tensor:
        """Return the places of nodes, or edges, in this part.

        Raises
        ------
        InputError
            For those of other parts, whose places are not known here.
        """
        places = self._places(ids)
        if len(places) and int(places.min()) < 0:
            foreign = int(ids[int((places < 0).nonzero()[0])])
            raise InputError(
                f"Partition.position: expected {self._WHAT}s of part {self.part}, got {self._WHAT} {foreign} of "
                "another part, whose place that part alone knows"
            )
        return places

    def _places(self, ids: Tensor) -> Tensor:
        """Return the places of ids in this part, int64[n]; -1 for those of other parts."""
        if ids.device == self._ranks.blocks.device:
            return self._ranks.find(ids)
        return Ranks(self._copies.beside(ids, self._ranks.blocks), self.num_nodes).find(ids)

    def _num_before(self, node: int) -> Tensor:
        """Return how many ids before one this part has, and 0 for others, int64[num_parts]."""
        counts = torch.zeros(self.num_parts, dtype=torch.int64, device="cpu")
        counts[self.part] = self._ranks.num_below(node)
        return counts


class PartOwners(_KnownByPart):
    """The owners of all nodes.

    Parameters
    ----------
    owners
        Tells the owner of each node.
    part, own_nodes: int64[num_own] ascending
        The part, and the nodes that it owns.
    sizes
        The number of nodes that each part owns.
    digest
        The fingerprint of all owners, `Partition.content_digest`.
    """

    _WHAT = "node"

    def __init__(self, owners: Owning, part: int, own_nodes: Tensor, sizes: Sequence[int], digest: str) -> None:
        super().__init__(sum(sizes), len(sizes), part)
        self._by = owners
        self._own_nodes = own_nodes
        self._sizes = tuple(sizes)
        self._digest = digest

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of nodes that each part owns."""
        return self._sizes

    @property
    def bounds(self) -> Tensor:
        """Where the nodes of each part begin and end in `order`, int64[num_parts + 1]."""
        return torch.tensor([0, *self._sizes], device="cpu").cumsum(0)

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of nodes."""
        return self._by.owner(ids)

    def owned(self, part: int) -> Tensor:
        """Return the nodes of a part."""
        part = whole_number(part, "Partition.owned: part", 0, InputError, self.num_parts - 1)
        return self._own_nodes if part == self.part else owned_by(self._by, self.num_nodes, part)

    @cached_property
    def _ranks(self) -> Ranks:
        return Ranks.of(self._own_nodes, self.num_nodes)

    def content_digest(self) -> str:
        """Return a fingerprint of the assignment."""
        return self._digest

    def __repr__(self) -> str:
        # As of the partition that was cut by, wherever its parts are.
        kind = type(self._by).__name__ if isinstance(self._by, Partition) else TablePartition.__name__
        return f"{kind}({self.num_nodes:,} nodes, {self.num_parts} parts)"


class PartEdges(_KnownByPart):
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
    num_columns
        Of the grid, where the graph is cut by edges (`EdgePartition`): their owners are not those of `nodes` then.
    """

    _WHAT = "edge"

    def __init__(
        self, nodes: Partition, part: int, edge_ids: Tensor, num_edges: int, num_columns: int | None = None
    ) -> None:
        super().__init__(num_edges, nodes.num_parts, part)
        self.nodes = nodes
        self.num_columns = num_columns
        self._edge_ids = edge_ids

    @cached_property
    def _ranks(self) -> Ranks:
        ascending = self._edge_ids.to(torch.int64, copy=True).numpy()
        ascending.sort()  # in place, as parts are large
        return Ranks.of(ascending, self.num_nodes)

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

    def _num_owned(self, part: int) -> int:
        """Return how many edges this part has."""
        self._check_is_own(part)
        return len(self._edge_ids)

    def _check_is_own(self, part: int) -> None:
        if part != self.part:
            raise InputError(
                f"ShardedFeature: expected part {self.part}, whose edges these are, got {part}; take the edges of that "
                "part, shard.edges"
            )

    def content_digest(self) -> str:
        """Return a fingerprint that is the same for all parts of one cut."""
        on_grid = "" if self.num_columns is None else f" on {self.num_columns} columns"
        return f"{self.num_nodes} edges at {self.nodes.content_digest()}{on_grid}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartEdges):
            return NotImplemented
        mine, theirs = ((one.part, one.num_nodes, one.num_columns, one.nodes) for one in (self, other))
        return mine == theirs and torch.equal(self._ranks.blocks, other._ranks.blocks)

    def __hash__(self) -> int:
        return hash((self.num_nodes, self.nodes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_nodes:,} edges, {self.num_parts} parts)"


def bits_of_owner(num_parts: int) -> int:
    """Return the bits by which owners of a number of parts are packed."""
    return next(bits for bits in (1, 2, 4, 8, 16) if num_parts <= 1 << bits)


def num_words(num_nodes: int, num_parts: int) -> int:
    """Return the words that the owners of nodes are packed in."""
    return -(-num_nodes * bits_of_owner(num_parts) // 64)


def packed(partition: Partition) -> Iterator[Tensor]:
    """Yield the owners of a partition packed, int64[num_words] in pieces."""
    bits = bits_of_owner(partition.num_parts)
    shifts = torch.arange(0, 64, bits, device="cpu")
    for start in range(0, partition.num_nodes, CHUNK):
        ids = torch.arange(start, min(start + CHUNK, partition.num_nodes), device="cpu")
        owners = partition.owner(ids).long()
        room = owners.new_zeros(-(-len(owners) // len(shifts)) * len(shifts))
        room[: len(owners)] = owners
        yield (room.view(-1, len(shifts)) << shifts).sum(1)


def owned_by(owners: Owning, num_nodes: int, part: int) -> Tensor:
    """Return the nodes that a part owns, int64[num_own] ascending, some nodes looked at at a time."""
    found = [torch.empty(0, dtype=torch.int64, device="cpu")]
    for start in range(0, num_nodes, CHUNK):
        ids = torch.arange(start, min(start + CHUNK, num_nodes), device="cpu")
        found.append(ids[owners.owner(ids) == part])
    return torch.cat(found)


def counts_of_owners(owners: Owning, num_nodes: int, most: int) -> Tensor:
    """Return how many nodes each owner has, int64[most], some nodes at a time."""
    counts = torch.zeros(most, dtype=torch.int64, device="cpu")
    for start in range(0, num_nodes, CHUNK):
        ids = torch.arange(start, min(start + CHUNK, num_nodes), device="cpu")
        counts += torch.bincount(owners.owner(ids), minlength=most)[:most]
    return counts
