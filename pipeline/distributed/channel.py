"""Channels between ranks: what torch.distributed and its in-process twin have in common.

A :class:`Comm` carries collectives: every rank calls the same ones in the same order. Threads of a rank that
communicate at the same time do so on channels of their own (:meth:`Comm.channel`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError, PeerError
from headrace.ops.features.gather import empty_rows
from headrace.pipeline.data.digest import flat_bytes
from headrace.pipeline.distributed.channel_errors import Label, parted
from headrace.pipeline.distributed.users_channel import check_methods, check_ranks

if TYPE_CHECKING:
    from headrace.pipeline.distributed.leaving import Loops
    from headrace.pipeline.distributed.same_place import Notes

#: Seconds between two looks at whether another rank has failed.
LOOK = 0.2


def nothing() -> None:
    """Do nothing while waiting."""


class Comm(ABC):
    """One rank's end of a channel to all ranks.

    Loaders make their channels from torch.distributed. ``.loader(comm=)`` takes any other: a channel of a `LocalGroup`,
    or your own. A channel exchanges bytes, adds up tensors, and reports to all ranks that one of them failed:

    >>> import torch
    >>> import headrace as hr
    >>> class Alone(hr.Comm):  # the channel of a job of one rank
    ...     def _all_to_all(self, sent, received, send_counts, receive_counts, meanwhile):
    ...         meanwhile()
    ...         received.copy_(sent)
    ...
    ...     def _all_reduce_sum(self, values):
    ...         return values.clone()
    ...
    ...     def channel(self):
    ...         return Alone(self.rank, self.world_size)
    ...
    ...     def fail(self, reason, *, blames=False): ...
    ...
    ...     def begin(self): ...
    ...
    ...     def refuse(self, reason): ...
    >>> comm = Alone(0, 1)
    >>> comm.all_to_all(torch.tensor([[1, 2], [3, 4]]), [2], [2]).tolist(), comm.all_gather(7)
    ([[1, 2], [3, 4]], [7])

    Parameters
    ----------
    rank, world_size
        The number of this rank, and the number of ranks.

    Attributes
    ----------
    num_collectives
        Collectives called so far on this channel.
    """

    _agrees = False
    """Whether ranks agree on collectives, because rows could be paired wrongly."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.partition(".")[0] != "headrace":
            check_methods(cls)

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank = rank
        self.world_size = world_size
        self.num_collectives = 0
        self._label: Label = (-1, -1, -1)
        self._kind = ""  # of the last collective
        self._doing: str | None = None  # what several collectives do together, if ranks have not agreed upon it yet
        self._is_together = False

    @property
    def loops(self) -> Loops | None:
        """The training loops of this rank, for reports to other ranks; None for a channel that reports nothing."""
        return None

    @property
    def notes(self) -> Notes | None:
        """Where ranks leave notes without waiting; None for a channel that has no such place."""
        return None

    @property
    def reaches_gpus(self) -> bool:
        """Whether tensors go from GPU to GPU as they are, as by NCCL; by default False: they go through CPU memory."""
        return False

    @property
    def generation(self) -> int:
        """The number of times that the ranks have met in `begin`."""
        return 0

    @property
    def place(self) -> tuple[int, int] | None:
        """Epoch and batch of the last collective, if it belongs to a batch."""
        epoch, batch, _ = self._label
        return None if batch < 0 else (epoch, batch)

    def at(self, place: tuple[int, int] | None) -> None:
        """Set the epoch and batch of the following collectives; ranks compare them to detect one that diverges."""
        if place is not None and place != self._label[:2]:
            self._label = (*place, -1)

    @contextmanager
    def doing(self, kind: str) -> Iterator[None]:
        """Group collectives that belong to no batch under one name; ranks check once that all of them do the same.

        Parameters
        ----------
        kind
            The name, the same on all ranks. It determines the number and the kinds of the collectives.
        """
        if self._is_together:  # a part of what is done already
            yield
            return
        if self.place is not None:
            self._label = (-1, -1, -1)
        self._doing, self._is_together = kind, True
        try:
            yield
        finally:
            self._doing, self._is_together = None, False

    def all_to_all(
        self,
        rows: Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
        *,
        out: Tensor | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Tensor:
        """Send the first ``send_counts[0]`` rows to rank 0, the next ``send_counts[1]`` to rank 1, and so on.

        Parameters
        ----------
        rows: [sum(send_counts), ...]
            Of any dtype.
        send_counts, receive_counts
            Rows to send to, and to receive from, each rank.
        out: [sum(receive_counts), ...], optional
            The tensor for the received rows, contiguous.
        meanwhile
            Work to do during the exchange; it must not communicate on this channel.

        Returns
        -------
        Tensor
            [sum(receive_counts), ...], the rows from rank 0, then those from rank 1, and so on.

        Raises
        ------
        PeerError
            If another rank failed, was lost, or does not arrive.
        """
        self._enter(f"rows of {math.prod(rows.shape[1:]) * rows.element_size()} bytes")
        received = out
        if received is None:
            shape = (sum(receive_counts), *rows.shape[1:])
            received = empty_rows(shape, rows.dtype, rows.device)
        sizes = list(send_counts), list(receive_counts)
        into = _as_bytes(received)
        assert into.data_ptr() == received.data_ptr()  # no copy, which nobody would read
        self._all_to_all(_as_bytes(rows), into, *sizes, meanwhile or nothing)
        return received

    def all_to_all_counts(self, counts: Sequence[int], *, meanwhile: Callable[[], None] | None = None) -> list[int]:
        """Send ``counts[r]`` to rank r; return the count from each rank. `meanwhile` is as for `all_to_all`.

        Each count is sent with the epoch and batch of its rank, so that ranks at different batches never exchange rows.
        """
        self._enter()
        ones = [1] * self.world_size
        labelled, received_counts = list[tuple[int, ...]](), list[int]()
        for count in counts:
            labelled.append((count, *self._label))  # no comprehension, which is a call: small batches feel it
        sent = torch.tensor(labelled, dtype=torch.int64, device="cpu").view(self.world_size, 4)
        received = torch.empty_like(sent)
        self._all_to_all(sent.view(torch.uint8), received.view(torch.uint8), ones, ones, meanwhile or nothing)
        for rank, (count, *label) in enumerate(received.tolist()):
            if tuple(label) != self._label:
                raise self._blame(parted(rank, (label[0], label[1], label[2]), "", self.rank, self._label))
            received_counts.append(count)
        return received_counts

    def all_gather(self, value: int) -> list[int]:
        """Return the value of every rank."""
        return self.all_to_all_counts([value] * self.world_size)

    def all_reduce_sum(self, values: Tensor) -> Tensor:
        """Return the sum of all ranks' tensors of one shape; the same bits on every rank."""
        self._enter(f"sum of {values.numel()} numbers of {values.dtype}")
        return self._all_reduce_sum(values)

    def _enter(self, kind: str = "") -> None:
        """Go on to the next collective; `kind` says what it does, if what it sends does not."""
        self.num_collectives += 1
        epoch, batch, number = self._label
        self._label = epoch, batch, number + 1
        if self._is_together:
            if self._doing is None:
                return
            kind, self._doing = self._doing, None
        self._kind = kind
        if self._agrees and kind:  # counts are sent with their batch, and need no agreement
            self._agree(kind)

    def _agree(self, kind: str) -> None:  # noqa: B027 - only some channels agree
        """Make sure that all ranks come to the same collective."""

    def _blame(self, error: PeerError) -> PeerError:
        """Report to all ranks what another one did, found out here; return the error."""
        if self.loops is not None:
            self.loops.break_off()
        self.fail(str(error), blames=True)
        return error

    def __reduce__(self) -> tuple[Any, tuple[int, int]]:
        return ClosedComm, (self.rank, self.world_size)

    @abstractmethod
    def channel(self) -> Comm:
        """Return a further channel between the same ranks. All ranks make their channels in the same order."""

    def open(self) -> None:  # noqa: B027 - only some channels hold anything
        """Acquire again the resources that `close` released. All ranks call it, in the order of their channels."""

    def close(self) -> None:  # noqa: B027
        """Release the resources of the channel. Each rank calls it alone, after all its collectives on the channel."""

    @abstractmethod
    def fail(self, reason: str, *, blames: bool = False) -> None:
        """Report to all ranks that this one failed; collectives then raise `PeerError` with the reason, here too.

        `blames`: whether the reason names another rank as the cause.
        """

    @abstractmethod
    def begin(self) -> None:
        """Forget earlier failures. All ranks call it, or `refuse`, and none returns before all have.

        Raises
        ------
        PeerError
            If a rank refuses.
        """

    @abstractmethod
    def refuse(self, reason: str) -> None:
        """Replace `begin` on a rank that cannot begin: the others raise the reason in `begin`. It waits for no rank."""

    @abstractmethod
    def _all_to_all(
        self,
        sent: Tensor,
        received: Tensor,
        send_counts: list[int],
        receive_counts: list[int],
        meanwhile: Callable[[], None],
    ) -> None:
        """Fill `received`; both are contiguous uint8[rows, bytes of a row]. Calls `meanwhile` once."""

    @abstractmethod
    def _all_reduce_sum(self, values: Tensor) -> Tensor:
        """Return the sum over ranks."""


class ClosedComm(Comm):
    """What is left of a channel in a copy of a batch: nothing can be sent on it."""

    def channel(self) -> Comm:
        """Raise PeerError."""
        raise self._error()

    def fail(self, reason: str, *, blames: bool = False) -> None:
        """Raise PeerError."""
        del reason, blames
        raise self._error()

    def begin(self) -> None:
        """Raise PeerError."""
        raise self._error()

    def refuse(self, reason: str) -> None:
        """Raise PeerError."""
        del reason
        raise self._error()

    def _all_to_all(
        self,
        sent: Tensor,
        received: Tensor,
        send_counts: list[int],
        receive_counts: list[int],
        meanwhile: Callable[[], None],
    ) -> None:
        del sent, received, send_counts, receive_counts, meanwhile
        raise self._error()

    def _all_reduce_sum(self, values: Tensor) -> Tensor:
        del values
        raise self._error()

    def _error(self) -> PeerError:
        return PeerError("a batch that was copied or pickled cannot exchange rows: use the one that the loader gave")


def _as_bytes(rows: Tensor) -> Tensor:
    """View rows as uint8[rows, bytes of a row], whatever their dtype; a copy if they are not contiguous."""
    num_rows = rows.shape[0]  # small batches feel each call of Python, such as len() of a tensor
    width = rows[:1].numel() * rows.element_size() if num_rows else 0
    flat = rows.detach().contiguous().reshape(-1)
    packed = flat.view(torch.uint8) if num_rows != 1 else flat_bytes(flat)  # as a row of one element may have a stride
    return packed.view(num_rows, width)


def check_channel(comm: object, caller: str) -> None:
    """Refuse what is no channel, such as a process group or all channels of a group.

    Raises
    ------
    InputError
        With what to pass instead.
    """
    if comm is not None and not isinstance(comm, Comm):
        raise InputError(
            f"{caller}: expected a channel as comm, got {type(comm).__name__}; leave it out under torch.distributed, "
            "or pass this rank's, hr.testing.LocalGroup(n).comms[rank]"
        )
    if comm is not None:
        check_ranks(comm, caller)
