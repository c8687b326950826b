"""Layer-wise rules over ranks: what they agree on about the sources of a hop, of which each has some destinations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.exchange import Exchange, Traffic, exchange_ids
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.partition.router import RankRouter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class RankReducer:
    """The :class:`~headrace.ops.LayerReducer` of one rank, for one hop.

    Every node has an owner among the ranks, who takes the maximum, or the sum, of what those say that have it among
    their candidates, and returns them.

    ============  ======  ===========  ===========================================================
    method        rounds  collectives  sends
    ============  ======  ===========  ===========================================================
    ``begin``     1       2            8 bytes per candidate that another rank owns
    ``counted``   1       1            1 byte per node and other rank that asked for it
    ``largest``   2       2            8 bytes per such candidate, 8 per such node and rank
    ``sums``      2       2            8 bytes per such candidate and number, and back
    ``total``     1       1            8 bytes per number and other rank
    ``gather``    1       2            8 bytes per number and other rank
    ============  ======  ===========  ===========================================================

    Parameters
    ----------
    partition
        The owner of each node; one part for each rank.
    comm
        The channel of the thread that samples.
    """

    def __init__(self, partition: Partition, comm: Comm) -> None:
        self.traffic = Traffic()
        self._router = RankRouter(partition)
        self._comm = comm
        self._exchange: Exchange | None = None

    def begin(self, candidates: NDArray[np.int64]) -> None:
        """Ask the owners of the candidates."""
        self._exchange = exchange_ids(torch.from_numpy(candidates), self._router, self._comm)
        self._count(1, 2, 8 * self._exchange.num_received)

    def counted(self) -> NDArray[np.bool_]:
        """Return which candidates this rank counts: the first that asked the owner for a node does."""
        exchange = self._begun()
        asked = torch.arange(len(exchange.asked_rows), device="cpu")
        first = torch.full((len(exchange.owned),), len(asked), device="cpu").scatter_reduce_(
            0, exchange.asked_rows, asked, "amin"
        )
        counted_here = exchange.answer(first[exchange.asked_rows] == asked, self._comm)
        self._count(1, 1, exchange.num_sent)
        counted: NDArray[np.bool_] = counted_here[self._places].numpy()
        return counted

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest value that any rank has for each candidate."""
        exchange, came = self._begun(), self._collect(values)
        best = came.new_zeros(len(exchange.owned)).scatter_reduce_(0, exchange.asked_rows, came, "amax")
        return self._returned(best)

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum over ranks of each candidate's values."""
        exchange, came = self._begun(), self._collect(values)
        summed = came.new_zeros((len(exchange.owned), *came.shape[1:]))
        return self._returned(summed.index_add_(0, exchange.asked_rows, came))

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum over ranks."""
        self._count(1, 1, values.nbytes * (self._comm.world_size - 1))
        total: NDArray[np.int64] = self._comm.all_reduce_sum(torch.from_numpy(values)).numpy()
        return total

    def gather(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the values of all ranks."""
        world_size = self._comm.world_size
        counts = self._comm.all_gather(len(values))
        gathered = self._comm.all_to_all(
            torch.from_numpy(values).repeat(world_size), [len(values)] * world_size, counts
        )
        self._count(1, 2, values.nbytes * (world_size - 1))
        return gathered.numpy()

    def _collect(self, values: NDArray[Any]) -> Tensor:
        """Return the values that all ranks have for what is asked of this one."""
        given = torch.from_numpy(values)
        in_order = torch.empty_like(given)
        in_order[self._places] = given
        return self._begun().collect(in_order, self._comm)

    def _returned(self, owned: Tensor) -> NDArray[Any]:
        """Return the owners' rows for this rank's candidates, which have sent theirs before."""
        exchange = self._begun()
        row_bytes = owned.element_size() * math.prod(owned.shape[1:])
        self._count(2, 2, row_bytes * (exchange.num_received + exchange.num_sent))
        rows: NDArray[Any] = exchange.deliver(owned, self._comm)[self._places].numpy()
        return rows

    @property
    def _places(self) -> Tensor:
        places = self._begun().places
        assert places is not None, "nobody renumbers candidates"
        return places

    def _begun(self) -> Exchange:
        assert self._exchange is not None, "begin comes first"
        return self._exchange

    def _count(self, rounds: int, collectives: int, sent_bytes: int) -> None:
        self.traffic.rounds += rounds
        self.traffic.collectives += collectives
        self.traffic.sent_bytes += sent_bytes
