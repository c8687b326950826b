"""Partitions: which of several ranks owns each vertex."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.partition import hash_owners, positions_in_parts
from headrace.pipeline.arrays import as_cpu_tensor, whole_number
from headrace.pipeline.digest import exact_digest

MOST_PARTS = 1 << 16


class Partition(ABC):
    """Assign every vertex of a graph to one of `num_parts` owners.

    Make one with :meth:`range`, :meth:`hash` or :meth:`of`.

    >>> import headrace as hr
    >>> partition = hr.Partition.range(10, 4)
    >>> partition.owner(torch.arange(10)).tolist()
    [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]

    Parameters
    ----------
    num_nodes
        Vertices of the graph.
    num_parts
        Owners; as many as there are ranks.

    Raises
    ------
    InputError
        For numbers that are not integers, are negative, or for no part.
    """

    def __init__(self, num_nodes: int, num_parts: int) -> None:
        self.num_nodes = whole_number(num_nodes, "Partition: num_nodes", 0, InputError)
        self.num_parts = whole_number(num_parts, "Partition: num_parts", 1, InputError, MOST_PARTS)

    @staticmethod
    def range(num_nodes: int, num_parts: int) -> Partition:
        """Cut the ids into contiguous ranges whose sizes differ by one at most.

        Good after a reordering that puts vertices that belong together side by side.
        """
        return RangePartition(num_nodes, num_parts)

    @staticmethod
    def hash(num_nodes: int, num_parts: int) -> Partition:
        """Scatter the vertices over the parts by a hash of their ids: even loads on any graph, and no table."""
        return HashPartition(num_nodes, num_parts)

    @staticmethod
    def of(owners: Any, num_parts: int | None = None) -> Partition:
        """Use a table of owners, such as one that METIS returned.

        Parameters
        ----------
        owners: integer[num_nodes]
            The part of each vertex.
        num_parts
            Number of parts; by default one more than the largest owner.

        Raises
        ------
        InputError
            If the owners are not one-dimensional integers in [0, num_parts).
        """
        return TablePartition(owners, num_parts)

    @abstractmethod
    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners, int32[n], of the vertices ``ids``, int64[n] in [0, num_nodes)."""

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of vertices that each part owns."""
        return tuple(torch.bincount(self._owners, minlength=self.num_parts).tolist())

    def owned(self, part: int) -> Tensor:
        """Return the vertices that a part owns, int64[sizes[part]] ascending."""
        return (self._owners == part).nonzero().reshape(-1)

    def position(self, ids: Tensor) -> Tensor:
        """Return where vertices, int64[n], are among those that their owner owns: ``owned(owner)[position]``."""
        return self._positions[ids]

    @property
    def _owners(self) -> Tensor:
        """The owners of all vertices, int32[num_nodes]."""
        return self.owner(torch.arange(self.num_nodes))

    @cached_property
    def _positions(self) -> Tensor:
        return positions_in_parts(self._owners, self.num_parts)

    def content_digest(self) -> str:
        """Return a fingerprint of the assignment."""
        return exact_digest([("owners", self._owners)])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Partition):
            return NotImplemented
        same_size = (self.num_nodes, self.num_parts) == (other.num_nodes, other.num_parts)
        return same_size and torch.equal(self._owners, other._owners)

    def __hash__(self) -> int:
        return hash((self.num_nodes, self.num_parts))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_nodes:,} nodes, {self.num_parts} parts)"


class RangePartition(Partition):
    """Contiguous ranges of ids; part p owns [bounds[p], bounds[p + 1])."""

    def __init__(self, num_nodes: int, num_parts: int) -> None:
        super().__init__(num_nodes, num_parts)
        self.bounds = torch.tensor([self.num_nodes * part // self.num_parts for part in range(self.num_parts + 1)])

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of vertices."""
        return torch.bucketize(ids, self.bounds[1:], right=True, out_int32=True)

    def owned(self, part: int) -> Tensor:
        """Return the vertices of a part."""
        return torch.arange(int(self.bounds[part]), int(self.bounds[part + 1]))

    def position(self, ids: Tensor) -> Tensor:
        """Return the places of vertices in their part."""
        return ids - self.bounds[self.owner(ids)]


class HashPartition(Partition):
    """Owners by a hash of the id."""

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of vertices."""
        return hash_owners(ids, self.num_parts)


class TablePartition(Partition):
    """Owners from a table."""

    def __init__(self, owners: Any, num_parts: int | None) -> None:
        table = as_cpu_tensor(owners, "owners", InputError)
        if table.dim() != 1 or table.is_floating_point() or table.is_complex() or table.dtype == torch.bool:
            raise InputError(f"Partition.of: owners must be integer[num_nodes]; {table.dtype}{list(table.shape)} came")
        smallest, largest = (int(table.min()), int(table.max())) if len(table) else (0, 0)
        super().__init__(len(table), largest + 1 if num_parts is None else num_parts)
        if smallest < 0 or largest >= self.num_parts:
            raise InputError(
                f"Partition.of: owners must be in [0, {self.num_parts}); they lie in [{smallest}, {largest}]"
            )
        self._table = table.to(torch.int32, copy=True)

    @property
    def _owners(self) -> Tensor:
        return self._table

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of vertices."""
        return self._table[ids]
