"""One exchange with one peer, or with all: rows to those who need them, gradients back to the owners, and the costs."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.ops import gather_rows, scatter_add_rows
from headrace.pipeline.distributed.channel import Comm, nothing
from headrace.pipeline.models.by_parts.parts import Tables


@dataclass
class Counts:
    """Counters of a rank, since the beginning or the last `reset`.

    Parameters
    ----------
    rounds
        Exchanges with one peer, or in mode "one-shot" with all peers: of rows forward, and of gradients backward.
    refetches
        Rounds that received rows of a peer again, for the backward pass.
    sent_bytes
        Bytes sent to other ranks.
    live_rows
        Rows of other ranks that are in memory now. Gradients of such rows do not count.
    most_live_rows
        The largest number of live rows so far.
    """

    rounds: int = 0
    refetches: int = 0
    sent_bytes: int = 0
    live_rows: int = 0
    most_live_rows: int = 0

    def reset(self) -> None:
        """Set the counters to 0; rows that are in memory stay counted."""
        self.rounds = self.refetches = self.sent_bytes = 0
        self.most_live_rows = self.live_rows

    def watch(self, rows: Tensor) -> None:
        """Count rows of another rank from now until their memory is freed."""
        number = len(rows)
        self.live_rows += number
        self.most_live_rows = max(self.most_live_rows, self.live_rows)
        # Of the storage, as views of the rows and what autograd saves keep that alone.
        weakref.finalize(rows.untyped_storage(), self._freed, number).atexit = False

    def _freed(self, number: int) -> None:
        self.live_rows -= number


#: Rows are sent in pieces of so many bytes or more, and in no more pieces: a copy of a shard that is only to be sent
#: would be half as much memory again.
PIECE_BYTES, MOST_PIECES = 1 << 17, 16


@dataclass(frozen=True, eq=False)
class Transfer:
    """Which rows go to which rank, and which come.

    Parameters
    ----------
    comm
        The channel; None for one rank.
    rank
        This one.
    sends
        For each rank the rows of this one's nodes that it needs, int64, distinct; None for all of them.
    num_rows
        Rows of this rank.
    receives
        Rows that come from each rank.
    at_once
        Whether the rows of an exchange go in one piece, so that there is something to do meanwhile.
    most_rows, most_gathered
        The largest number of rows that go from one rank to another, and of those that are gathered for that.
    counts
        What is counted.
    """

    comm: Comm | None
    rank: int
    sends: tuple[Tensor | None, ...]
    num_rows: int
    receives: tuple[int, ...]
    at_once: bool
    most_rows: int
    most_gathered: int
    counts: Counts

    @property
    def world_size(self) -> int:
        """Ranks."""
        return len(self.receives)

    def doing(self, what: str) -> AbstractContextManager[None]:
        """Let all exchanges inside be one thing that ranks do, see `Comm.doing`."""
        return nullcontext() if self.comm is None else self.comm.doing(what)

    def fetch(self, tables: Tables, owner: int, meanwhile: Callable[[], None] = nothing) -> Tables:
        """Receive the rows of one rank, and send to the rank on the other side, which is as far away."""
        target = (2 * self.rank - owner) % self.world_size
        came = []
        for number, table in enumerate(tables):
            rows = self._arriving(table, self.receives[owner], watched=number == 0)
            pieces = self._num_pieces(table, self.most_gathered)
            for sent, arriving in zip(
                _bounds(self._num_sent(target), pieces), _bounds(self.receives[owner], pieces), strict=True
            ):
                self._exchange(
                    self._rows_for(target, table, sent),
                    target,
                    rows[arriving],
                    owner,
                    meanwhile if not number else nothing,
                )
            came.append(rows)
        self.counts.rounds += 1
        return tuple(came)

    def give_back(self, gradients: Tables, owner: int, sums: Tables, meanwhile: Callable[[], None] = nothing) -> None:
        """Send gradients of the rows of one rank to it; add up those that come from the rank on the other side."""
        source = (2 * self.rank - owner) % self.world_size
        for number, (gradient, total) in enumerate(zip(gradients, sums, strict=True)):
            pieces = self._num_pieces(gradient, self.most_rows)
            parts = zip(_bounds(self.receives[owner], pieces), _bounds(self._num_sent(source), pieces), strict=True)
            for part, arriving in parts:
                came = self._arriving(gradient, arriving.stop - arriving.start)
                self._exchange(gradient[part], owner, came, source, nothing if number else meanwhile)
                self._add(source, arriving, came, total)
                del came
        self.counts.rounds += 1

    def fetch_all(self, tables: Tables) -> Tables:
        """Receive the rows of all other ranks at once, those of rank 0 first."""
        send_counts, receive_counts = self._all()
        arrived = []
        for place, table in enumerate(tables):
            rows = self._arriving(table, sum(receive_counts), watched=place == 0)
            sent = torch.cat([self._rows_for(rank, table, slice(0, number)) for rank, number in enumerate(send_counts)])
            self._all_to_all(sent, send_counts, receive_counts, rows, nothing)
            arrived.append(rows)
        self.counts.rounds += 1
        return tuple(arrived)

    def give_back_all(self, gradients: Tables, sums: Tables) -> None:
        """Send the gradients of all rows that came from others back to them, and add up what comes."""
        send_counts, receive_counts = self._all()
        for gradient, total in zip(gradients, sums, strict=True):
            came = self._arriving(gradient, sum(send_counts))
            self._all_to_all(gradient, receive_counts, send_counts, came, nothing)
            for source, piece in enumerate(came.split(send_counts)):  # type: ignore[no-untyped-call]
                if source != self.rank:
                    self._add(source, slice(0, len(piece)), piece, total)
        self.counts.rounds += 1

    def _num_sent(self, target: int) -> int:
        rows = self.sends[target]
        return self.num_rows if rows is None else len(rows)

    def _num_pieces(self, table: Tensor, most_rows: int) -> int:
        """Return in how many pieces rows go, the same on all ranks: what is sent is gathered piece by piece."""
        if self.at_once:
            return 1
        row_bytes = math.prod(table.shape[1:]) * table.element_size()
        return min(max(most_rows * row_bytes // PIECE_BYTES, 1), MOST_PIECES)

    def _rows_for(self, target: int, table: Tensor, part: slice) -> Tensor:
        rows, table = self.sends[target], table.detach()
        if rows is None:
            return table[part]
        taken = table.new_empty(part.stop - part.start, *table.shape[1:])
        return gather_rows(table, rows[part], out=taken, num_threads=torch.get_num_threads())

    def _add(self, source: int, part: slice, gradients: Tensor, total: Tensor) -> None:
        rows = self.sends[source]
        if rows is None:
            total[part] += gradients
        else:
            scatter_add_rows(total, rows[part], gradients, num_threads=torch.get_num_threads())

    def _arriving(self, like: Tensor, number: int, *, watched: bool = False) -> Tensor:
        # Not of the pool, which would keep the memory of a large shard while smaller ones come.
        rows = like.new_empty(number, *like.shape[1:])
        if watched:
            self.counts.watch(rows)
        return rows

    def _exchange(self, sent: Tensor, target: int, out: Tensor, source: int, meanwhile: Callable[[], None]) -> None:
        ranks = range(self.world_size)
        send_counts = [len(sent) if rank == target else 0 for rank in ranks]
        self._all_to_all(sent, send_counts, [len(out) if rank == source else 0 for rank in ranks], out, meanwhile)

    def _all(self) -> tuple[list[int], list[int]]:
        ranks = range(self.world_size)
        sent = [0 if rank == self.rank else self._num_sent(rank) for rank in ranks]
        return sent, [0 if rank == self.rank else self.receives[rank] for rank in ranks]

    def _all_to_all(
        self,
        sent: Tensor,
        send_counts: list[int],
        receive_counts: list[int],
        out: Tensor,
        meanwhile: Callable[[], None],
    ) -> None:
        assert self.comm is not None  # one rank has no peers
        self.counts.sent_bytes += sent.nbytes
        self.comm.all_to_all(sent, send_counts, receive_counts, out=out, meanwhile=meanwhile)


def _bounds(number: int, pieces: int) -> Iterator[slice]:
    """Cut so many rows into pieces whose sizes differ by one at most."""
    for piece in range(pieces):
        yield slice(number * piece // pieces, number * (piece + 1) // pieces)
