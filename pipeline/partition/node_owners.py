"""Who owns each node: what a kind of partition tells, and what follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from headrace.ops import Compactor, InputError, positions_in_parts
from headrace.ops.forks import cached_property
from headrace.pipeline.data.arrays import describe, whole_number
from headrace.pipeline.data.digest import exact_digest
from headrace.pipeline.partition.device_copies import DeviceCopies
from headrace.pipeline.partition.limits import MOST_NODES, MOST_PARTS


class NodeOwners(ABC):
    """Owners of nodes, by a function of their ids; `Partition` adds how they are made."""

    _most_parts: ClassVar[int] = MOST_PARTS

    def __init__(self, num_nodes: int, num_parts: int) -> None:
        self.num_nodes = whole_number(num_nodes, "Partition: num_nodes", 0, InputError, MOST_NODES)
        self.num_parts = whole_number(num_parts, "Partition: num_parts", 1, InputError, self._most_parts)

    @abstractmethod
    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners, int32[n], of the nodes ``ids``, int64[n] in [0, num_nodes)."""

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of nodes that each part owns."""
        return tuple(self.bounds.diff().tolist())

    @cached_property
    def bounds(self) -> Tensor:
        """Where the nodes of each part begin and end in `order`, int64[num_parts + 1]."""
        counts = torch.bincount(self._owners, minlength=self.num_parts)
        return torch.cat([counts.new_zeros(1), counts.cumsum(0)])

    def owned(self, part: int) -> Tensor:
        """Return the nodes that a part owns, int64[sizes[part]] ascending."""
        part = whole_number(part, "Partition.owned: part", 0, InputError, self.num_parts - 1)
        return (self._owners == part).nonzero().reshape(-1)

    def position(self, ids: Tensor) -> Tensor:
        """Return the positions of nodes, int64[n], among the nodes of their owner: ``owned(owner)[position]``."""
        try:
            return self._copies.beside(ids, self._positions)[ids]
        except (AttributeError, IndexError, TypeError) as cause:
            raise InputError(
                f"Partition.position: expected ids of nodes in [0, {self.num_nodes}), int64[n], got {describe(ids)}"
            ) from cause

    def _places(self, ids: Tensor) -> Tensor:
        """Return the positions of nodes, as far as they are known: `places_of` documents it."""
        return self.position(ids)

    def _num_owned(self, part: int) -> int:
        """Return how many nodes a part owns."""
        return self.sizes[part]

    def _num_before(self, node: int) -> Tensor:
        """Return how many nodes before one each part owns, int64[num_parts]."""
        return torch.bincount(self.owner(torch.arange(node, device="cpu")), minlength=self.num_parts)

    @property
    def _needs_entries(self) -> bool:
        """Whether something may have an entry for each node."""
        return True

    @cached_property
    def _copies(self) -> DeviceCopies:
        return DeviceCopies()

    @property
    def _deciding(self) -> tuple[int, ...] | None:
        """Numbers that decide all owners, so that comparing these is enough; None if there are none but the owners."""
        return None

    @property
    def _owners(self) -> Tensor:
        """The owners of all nodes, int32[num_nodes]."""
        return self.owner(torch.arange(self.num_nodes, device="cpu"))

    @cached_property
    def _positions(self) -> Tensor:
        return positions_in_parts(self._owners, self.num_parts)

    @cached_property
    def _compactor(self) -> Compactor:
        return Compactor(self.num_nodes, dense=self._needs_entries)

    def __getstate__(self) -> dict[str, Any]:
        # What can be made again need not travel, and the compactor cannot.
        made_again = ("_compactor", "sizes", "_positions", "_content_digest")
        return {name: value for name, value in self.__dict__.items() if name not in made_again}

    def content_digest(self) -> str:
        """Return a fingerprint of the assignment."""
        return self._content_digest

    @cached_property
    def _content_digest(self) -> str:
        return exact_digest([("owners", self._owners)])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, NodeOwners):
            return NotImplemented
        if (self.num_nodes, self.num_parts) != (other.num_nodes, other.num_parts):
            return False
        if type(self) is type(other) and self._deciding is not None:
            return self._deciding == other._deciding
        if not (self._needs_entries and other._needs_entries):
            return self.content_digest() == other.content_digest()
        return torch.equal(self._owners, other._owners)

    def __hash__(self) -> int:
        return hash((self.num_nodes, self.num_parts))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_nodes:,} nodes, {self.num_parts} parts)"


def places_of(owners: NodeOwners, ids: Tensor) -> Tensor:
    """Return the positions of nodes among those of their owners, int64[n]; -1 where another part alone knows them."""
    return owners._places(ids)  # noqa: SLF001 - of this module


def num_owned(owners: NodeOwners, part: int) -> int:
    """Return how many nodes a part owns."""
    return owners._num_owned(part)  # noqa: SLF001 - of this module


def num_before(owners: NodeOwners, node: int) -> Tensor:
    """Return how many nodes before one each part owns, int64[num_parts]; 0 where that part alone knows it."""
    return owners._num_before(node)  # noqa: SLF001 - of this module


def compactor_of(owners: NodeOwners) -> Compactor:
    """Return the kernel that renumbers nodes that ranks exchange; exchanges by one partition share its memory."""
    return owners._compactor  # noqa: SLF001 - of this module
