"""Routers: where the row of an id is, for those who read it and for those who ask others for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headrace.ops.forks import cached_property
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.partition.device_copies import DeviceCopies
from headrace.pipeline.partition.node_owners import places_of
from headrace.pipeline.partition.partition import Partition


class Located(NamedTuple):
    """Where rows are.

    Parameters
    ----------
    place: int32[num_ids]
        Which of the router's places has the row of each id.
    row: int64[num_ids]
        Which row it is there; -1 of another rank whose rows are not known here.
    """

    place: Tensor
    row: Tensor


class Router(ABC):
    """Answer where the row of an id is, as one process sees it."""

    @property
    @abstractmethod
    def places(self) -> tuple[Place, ...]:
        """Where there are rows: `Located.place` counts these. One place may come twice, with different rows."""

    @abstractmethod
    def locate(self, ids: Tensor) -> Located:
        """Return where the rows of ids, int64[num_ids], are."""


class RankRouter(Router):
    """Rows are at the ranks that own them, and some have a copy here.

    The first places are the ranks; behind them stands the memory of this process, with the rows of `copies`.

    Parameters
    ----------
    partition
        Who owns each node, and by that the row of the same number.
    rank, copies: int64[num_copies] ascending, optional
        This rank, and nodes of others that it has a copy of. Without copies all ranks have the same router.
    """

    def __init__(self, partition: Partition, rank: int | None = None, copies: Tensor | None = None) -> None:
        self.partition = partition
        self._rank = rank
        self._copies = None if rank is None or copies is None or not len(copies) else copies
        self._copies_on = DeviceCopies()

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The ranks, then CPU memory for the copies."""
        ranks = (Place("rank", rank) for rank in range(self.partition.num_parts))
        return (*ranks, CPU)

    def locate(self, ids: Tensor) -> Located:
        """Return where rows are: in a copy if there is one, else at their owner, in the order of what it owns."""
        owners, positions = self.partition.owner(ids), places_of(self.partition, ids)
        if self._copies is None:
            return Located(owners, positions)
        slots, copied = self._find(ids)
        return Located(owners.masked_fill(copied, self.partition.num_parts), torch.where(copied, slots, positions))

    def rank_of(self, ids: Tensor) -> Tensor:
        """Return the rank that this one gets each row from, int32[num_ids]: itself where it has a copy."""
        owners = self.partition.owner(ids)
        if self._copies is None or self._rank is None:
            return owners
        return owners.masked_fill(self._find(ids)[1], self._rank)

    def num_copies(self, ids: Tensor) -> int:
        """Return how many of the nodes this rank has copies of, and so asks nobody for."""
        return 0 if self._copies is None else int(self._find(ids)[1].sum())

    def _find(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return where ids are among the copies, of which there are some, and whether they are."""
        assert self._copies is not None
        copies = self._copies_on.beside(ids, self._copies)
        slots = torch.searchsorted(copies, ids).clamp(max=len(copies) - 1)
        return slots, copies[slots] == ids

    def content_digest(self) -> str:
        """Return the fingerprint of the owners, which is the same on every rank."""
        return self.partition.content_digest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RankRouter):
            return NotImplemented
        if self.partition != other.partition or (self._copies is None) != (other._copies is None):
            return False
        if self._copies is None or other._copies is None:
            return True
        return self._rank == other._rank and torch.equal(self._copies, other._copies)

    def __hash__(self) -> int:
        return hash(self.partition)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "places"}  # made again when asked for

    def __repr__(self) -> str:
        return repr(self.partition)  # the same on every rank, whatever it has copies of
