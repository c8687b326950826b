"""Kinds of partitions: ranges of ids, a hash of the id, a table of owners, one type of the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from headrace.ops import InputError, hash_owners
from headrace.ops.forks import cached_property
from headrace.pipeline.data import as_cpu_tensor, as_list, whole_number
from headrace.pipeline.data.digest import exact_digest
from headrace.pipeline.data.integers import as_int64, is_whole
from headrace.pipeline.partition.limits import MOST_CLUSTERS, MOST_NODES
from headrace.pipeline.partition.node_owners import num_before, places_of
from headrace.pipeline.partition.partition import Partition

#: Nodes whose owners are computed at a time where there is no table of them.
CHUNK = 1 << 20


class RangePartition(Partition):
    """Contiguous ranges of ids; part p owns [bounds[p], bounds[p + 1])."""

    def __init__(self, sizes: Sequence[int]) -> None:
        listed = as_list(sizes, "Partition.range_of: sizes", "numbers of nodes")
        counts = [whole_number(size, "Partition.range_of: a size", 0, InputError, MOST_NODES) for size in listed]
        super().__init__(sum(counts), len(counts))
        self.bounds = torch.tensor([0, *counts], device="cpu").cumsum(0)

    @property
    def _deciding(self) -> tuple[int, ...]:
        return self.sizes

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of nodes."""
        return torch.bucketize(ids, self._copies.beside(ids, self.bounds)[1:], right=True, out_int32=True)

    def owned(self, part: int) -> Tensor:
        """Return the nodes of a part."""
        part = whole_number(part, "Partition.owned: part", 0, InputError, self.num_parts - 1)
        return torch.arange(int(self.bounds[part]), int(self.bounds[part + 1]), device="cpu")

    def position(self, ids: Tensor) -> Tensor:
        """Return the places of nodes in their part."""
        return ids - self._copies.beside(ids, self.bounds)[self.owner(ids)]


class HashPartition(Partition):
    """Owners by a hash of the id.

    What all owners are needed for is computed once in a process, however many equal partitions there are, and without
    a table of them.
    """

    @property
    def _deciding(self) -> tuple[int, ...]:
        return self.num_nodes, self.num_parts

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of nodes."""
        return hash_owners(ids, self.num_parts)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of nodes that each part owns."""
        return _hash_sizes(self.num_nodes, self.num_parts)

    def owned(self, part: int) -> Tensor:
        """Return the nodes of a part."""
        part = whole_number(part, "Partition.owned: part", 0, InputError, self.num_parts - 1)
        found = [ids[self.owner(ids) == part] for ids in _chunks(self.num_nodes)]
        return torch.cat([torch.empty(0, dtype=torch.int64, device="cpu"), *found])

    @cached_property
    def _content_digest(self) -> str:
        return _hash_digest(self.num_nodes, self.num_parts)


class TablePartition(Partition):
    """Owners from a table."""

    _most_parts = MOST_CLUSTERS

    def __init__(self, owners: Any, num_parts: int | None, *, copy: bool = True) -> None:
        table = as_cpu_tensor(owners, "owners")
        if table.dim() != 1 or not is_whole(table.dtype):
            came = f"{table.dtype}{list(table.shape)}"
            raise InputError(f"Partition.of: expected owners to be integer[num_nodes], got {came}")
        if table.dtype != torch.int32:
            table = as_int64(table, "Partition.of: owners")
        smallest, largest = (int(table.min()), int(table.max())) if len(table) else (0, 0)
        super().__init__(len(table), largest + 1 if num_parts is None else num_parts)
        if smallest < 0 or largest >= self.num_parts:
            raise InputError(
                f"Partition.of: expected owners to be in [0, {self.num_parts}), got {smallest} to {largest}"
            )
        self._table = table.to(torch.int32, copy=copy)

    @property
    def _owners(self) -> Tensor:
        return self._table

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of nodes."""
        return self._copies.beside(ids, self._table)[ids]


@lru_cache
def _hash_sizes(num_nodes: int, num_parts: int) -> tuple[int, ...]:
    sizes = torch.zeros(num_parts, dtype=torch.int64, device="cpu")
    for ids in _chunks(num_nodes):
        sizes += torch.bincount(hash_owners(ids, num_parts), minlength=num_parts)
    return tuple(sizes.tolist())


@lru_cache
def _hash_digest(num_nodes: int, num_parts: int) -> str:
    return exact_digest([("owners", hash_owners(torch.arange(num_nodes, device="cpu"), num_parts))])


def _chunks(num_nodes: int) -> Iterator[Tensor]:
    """Yield the ids of all nodes, some at a time."""
    for start in range(0, num_nodes, CHUNK):
        yield torch.arange(start, min(start + CHUNK, num_nodes), device="cpu")


class TypePartition(Partition):
    """Owners of a range of nodes, by their numbers in it: `Partition.of_type` makes it.

    Every answer is that of the partition of all nodes, so a rank owns a row of a type's feature where it owns the node,
    and no table is kept for each type.

    Parameters
    ----------
    whole
        The owners of all nodes.
    nodes
        Those of the type, by their ids among all.
    """

    def __init__(self, whole: Partition, nodes: range) -> None:
        super().__init__(len(nodes), whole.num_parts)
        self.whole = whole
        self.nodes = nodes

    def owner(self, ids: Tensor) -> Tensor:
        """Return the owners of nodes."""
        return self.whole.owner(ids + self.nodes.start)

    def owned(self, part: int) -> Tensor:
        """Return the nodes of a part."""
        owned = self.whole.owned(part)
        low, high = torch.searchsorted(owned, torch.tensor([self.nodes.start, self.nodes.stop], device="cpu")).tolist()
        return owned[low:high] - self.nodes.start

    def position(self, ids: Tensor) -> Tensor:
        """Return the places of nodes in their part."""
        nodes = ids + self.nodes.start
        return self.whole.position(nodes) - self._copies.beside(ids, self._before)[self.whole.owner(nodes)]

    def _places(self, ids: Tensor) -> Tensor:
        """Return the places of nodes in their part, as far as they are known."""
        nodes = ids + self.nodes.start
        places = places_of(self.whole, nodes)
        return torch.where(places < 0, places, places - self._copies.beside(ids, self._before)[self.whole.owner(nodes)])

    def _num_owned(self, part: int) -> int:
        """Return how many nodes a part owns."""
        return int(num_before(self.whole, self.nodes.stop)[part] - self._before[part])

    @cached_property
    def _before(self) -> Tensor:
        """How many nodes before the type each part owns, int64[num_parts]."""
        return num_before(self.whole, self.nodes.start)
