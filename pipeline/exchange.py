"""Rows on their way between the ranks that own vertices and the ranks that need them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from headrace.ops.compact import compact
from headrace.ops.errors import InputError
from headrace.ops.gather import gather_rows
from headrace.ops.partition import group_by_owner
from headrace.ops.scatter import scatter_add_rows
from headrace.pipeline.comm import Comm
from headrace.pipeline.partition import Partition


@dataclass(frozen=True, eq=False, repr=False)
class Exchange:
    """Which rows of the vertices that this rank owns go to which rank, and where the rows that come are put.

    Every rank has the counterpart: what it sends to another, that one expects. A vertex is owned by one rank and may be
    wanted by several.

    Parameters
    ----------
    owned: int64[num_owned]
        The vertices of a layer that this rank owns, those of the layer before first.
    wanted: int64[num_wanted]
        The vertices whose rows this rank needs, each once.
    send_rows: int64[sum(send_counts)]
        The rows of `owned` to send, those for rank 0 first.
    send_counts: world_size counts
        Rows to send to each rank.
    receive_rows: int64[num_wanted]
        Which row of `wanted` each row that comes is, those from rank 0 first.
    receive_counts: world_size counts
        Rows that come from each rank.
    comm
        The channel on which a model exchanges rows.
    """

    owned: Tensor
    wanted: Tensor
    send_rows: Tensor
    send_counts: tuple[int, ...]
    receive_rows: Tensor
    receive_counts: tuple[int, ...]
    comm: Comm

    def deliver(self, rows: Tensor, comm: Comm | None = None) -> Tensor:
        """Send rows from owners to those who want them.

        Gradients flow back to the owners, who add up what comes for one vertex: in the order of the ranks, so that the
        sum is the same in every run.

        Parameters
        ----------
        rows: [num_owned, ...]
            Row i belongs to ``owned[i]``.
        comm
            The channel to use in place of the model's own.

        Returns
        -------
        Tensor
            [num_wanted, ...], row i for ``wanted[i]``.

        Raises
        ------
        InputError
            For another number of rows. Nothing is sent then.
        PeerError
            If another rank failed or was lost.
        """
        if rows.shape[:1] != self.owned.shape:
            raise InputError(
                f"exchange: expected a row for each of the {len(self.owned)} vertices that rank {self.comm.rank} owns "
                f"in this layer, got {list(rows.shape)}"
            )
        delivered: Tensor = _Deliver.apply(rows, self, self.comm if comm is None else comm)  # type: ignore[no-untyped-call]
        return delivered

    @cached_property
    def places(self) -> Tensor:
        """Where the row of each wanted vertex is among those that come, int64[num_wanted]."""
        places = torch.empty_like(self.receive_rows)
        places[self.receive_rows] = torch.arange(len(places), device=places.device)
        return places

    def collect(self, rows: Tensor, comm: Comm | None = None) -> Tensor:
        """Send rows the other way, from those who want vertices to their owners.

        Parameters
        ----------
        rows: [num_wanted, ...]
            Row i belongs to ``wanted[i]``.
        comm
            The channel to use in place of the model's own.

        Returns
        -------
        Tensor
            [sum(send_counts), ...], row i for ``owned[send_rows[i]]``: one from each rank that wants the vertex, in the
            order of the ranks.

        Raises
        ------
        PeerError
            If another rank failed or was lost.
        """
        comm = self.comm if comm is None else comm
        return comm.all_to_all(_take(rows, self.receive_rows), self.receive_counts, self.send_counts)

    @property
    def num_received(self) -> int:
        """Rows that come from other ranks."""
        return sum(self.receive_counts) - self.receive_counts[self.comm.rank]

    @property
    def num_sent(self) -> int:
        """Rows that go to other ranks, which is the number of ids that came from them."""
        return sum(self.send_counts) - self.send_counts[self.comm.rank]

    def map(self, of_tensor: Callable[[Tensor], Tensor]) -> Exchange:
        """Return the exchange with a function applied to its tensors."""
        names = ("owned", "wanted", "send_rows", "receive_rows")
        changed: dict[str, Any] = {name: of_tensor(getattr(self, name)) for name in names}
        return dataclasses.replace(self, **changed)

    def __repr__(self) -> str:
        return f"Exchange({len(self.owned)} owned, {len(self.wanted)} wanted, {self.num_received} from other ranks)"


def exchange_ids(wanted: Tensor, partition: Partition, comm: Comm, rows_comm: Comm) -> Exchange:
    """Tell the owners of vertices what this rank wants, and learn what the others want of it: one round.

    Parameters
    ----------
    wanted: int64[num_wanted]
        Distinct vertices.
    partition
        Their owners.
    comm
        The channel for the ids.
    rows_comm
        The channel on which the rows will be exchanged.
    """
    receive_rows, counts = group_by_owner(partition.owner(wanted), comm.world_size)
    receive_counts = counts.tolist()
    send_counts = comm.all_to_all_counts(receive_counts)
    requests = wanted[receive_rows]
    asked = comm.all_to_all(requests, receive_counts, send_counts)
    # What this rank wants of itself comes first, so that the vertices of the layer before begin the list.
    own = requests.split(receive_counts)[comm.rank]  # type: ignore[no-untyped-call]
    compacted = compact(own, asked)
    return Exchange(
        owned=compacted.ids,
        wanted=wanted,
        send_rows=compacted.indices,
        send_counts=tuple(send_counts),
        receive_rows=receive_rows,
        receive_counts=tuple(receive_counts),
        comm=rows_comm,
    )


class _Deliver(torch.autograd.Function):
    """All-to-all of rows; backward sends gradients the other way and adds them up at the owner."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: Exchange, comm: Comm) -> Tensor:
        ctx.exchange, ctx.comm = exchange, comm
        sent = _take(rows, exchange.send_rows)
        return _take(comm.all_to_all(sent, exchange.send_counts, exchange.receive_counts), exchange.places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        exchange, comm = ctx.exchange, ctx.comm
        returned = exchange.collect(gradient, comm)
        summed = gradient.new_zeros((len(exchange.owned), *gradient.shape[1:]))
        if summed.device.type == "cpu":
            return scatter_add_rows(summed, exchange.send_rows, returned), None, None
        return summed.index_add_(0, exchange.send_rows, returned), None, None


def _take(rows: Tensor, ids: Tensor) -> Tensor:
    """Return ``rows[ids]``."""
    if rows.device.type == "cpu":
        return gather_rows(rows.detach(), ids, num_threads=torch.get_num_threads())
    return rows[ids]
