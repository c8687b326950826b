"""Rows on their way between the masters of nodes and their mirrors, the ranks that hold edges of these nodes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.pipeline.data.digest import flat_bytes
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.exchange import part_sums, take_rows


@dataclass(frozen=True, eq=False, repr=False)
class Mirrors:
    """Where the nodes of a layer are mirrored whose master is this rank, and which nodes this rank mirrors.

    A node may be mirrored by several ranks, its master among them. On both sides stand the nodes first that this rank
    is master of and mirrors too, whose rows go nowhere, and behind them the others, rank by rank.

    Parameters
    ----------
    rows: int64[num_own + sum(send_counts)]
        The rows of mirrored nodes in the master's table of the layer.
    num_own
        Nodes whose master and mirror is this rank.
    send_counts: world_size counts
        Nodes that each rank mirrors of this one, none for this rank itself.
    receive_counts: world_size counts
        Nodes that this rank mirrors of each, none of itself.
    """

    rows: Tensor
    num_own: int
    send_counts: tuple[int, ...]
    receive_counts: tuple[int, ...]

    @property
    def num_sent(self) -> int:
        """Rows that go to mirrors on other ranks."""
        return sum(self.send_counts)

    @property
    def num_received(self) -> int:
        """Rows that come from masters on other ranks."""
        return sum(self.receive_counts)

    @property
    def num_mirrored(self) -> int:
        """Nodes that this rank mirrors, its own among them."""
        return self.num_own + self.num_received

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Where in `rows` the nodes of each mirroring rank begin and end: this rank, then the others; none twice."""
        return list(pairwise(accumulate((self.num_own, *self.send_counts), initial=0)))

    def pick(self, table: Tensor) -> Tensor:
        """Return the rows of mirrored nodes from a master's table, [num_nodes, ...]: what `to_mirrors` sends."""
        return take_rows(table, self.rows)

    def kept(self, at_masters: Tensor, at_mirrors: Tensor) -> Mirrors:
        """Return the nodes that are kept, by bool[len(rows)] at masters and bool[num_mirrored] at mirrors."""
        return Mirrors(
            self.rows[at_masters],
            int(at_masters[: self.num_own].sum()),
            _sums(at_masters[self.num_own :], self.send_counts),
            _sums(at_mirrors[self.num_own :], self.receive_counts),
        )

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors under their names, in a fixed order."""
        yield "rows", self.rows

    def map(self, of_tensor: Callable[[Tensor], Tensor]) -> Mirrors:
        """Return the same with a function applied to its tensors."""
        return dataclasses.replace(self, rows=of_tensor(self.rows))


def to_mirrors(comm: Comm, *parts: tuple[Mirrors, Tensor]) -> list[Tensor]:
    """Send rows of masters to their mirrors: one collective, and one message for each pair of ranks.

    Parameters
    ----------
    comm
        The channel.
    parts
        Each with its mirrors: [len(rows), ...], as `Mirrors.pick` returns it. All ranks give the same row shapes.

    Returns
    -------
    list of Tensor
        [num_mirrored, ...] for each of them.
    """
    return _exchanged(
        comm, [_Part(part, mirrors.num_own, mirrors.send_counts, mirrors.receive_counts) for mirrors, part in parts]
    )


def to_masters(comm: Comm, *parts: tuple[Mirrors, Tensor]) -> list[Tensor]:
    """Send rows of mirrors to their masters: one collective, and one message for each pair of ranks.

    Parameters
    ----------
    comm
        The channel.
    parts
        Each with its mirrors: [num_mirrored, ...]. All ranks give the same row shapes.

    Returns
    -------
    list of Tensor
        [len(rows), ...] for each of them, in the order of `Mirrors.rows`: what this rank has of nodes, then what the
        others have, rank by rank.
    """
    return _exchanged(
        comm, [_Part(part, mirrors.num_own, mirrors.receive_counts, mirrors.send_counts) for mirrors, part in parts]
    )


class _Part(NamedTuple):
    """Rows to exchange: how many of them stay, then how many go to each rank, and how many come from each."""

    rows: Tensor
    num_own: int
    send_counts: tuple[int, ...]
    receive_counts: tuple[int, ...]


def _exchanged(comm: Comm, parts: Sequence[_Part]) -> list[Tensor]:
    came = [_alone(comm, *parts)] if len(parts) == 1 else _as_one(comm, parts)
    return [torch.cat([part.rows[: part.num_own], rows]) for part, rows in zip(parts, came, strict=True)]


def _alone(comm: Comm, part: _Part) -> Tensor:
    return comm.all_to_all(part.rows[part.num_own :], part.send_counts, part.receive_counts)


def _as_one(comm: Comm, parts: Sequence[_Part]) -> list[Tensor]:
    """Exchange rows of several kinds: what goes to one rank is one message, kind after kind."""
    columns = [_as_bytes(part.rows[part.num_own :]) for part in parts]
    widths = [column.shape[1] for column in columns]
    split = [
        column.split(list(part.send_counts))  # type: ignore[no-untyped-call]
        for column, part in zip(columns, parts, strict=True)
    ]
    message = torch.cat([piece.reshape(-1) for of_rank in zip(*split, strict=True) for piece in of_rank])
    going, coming = (
        [[count * width for count, width in zip(counts, widths, strict=True)] for counts in zip(*sides, strict=True)]
        for sides in ([part.send_counts for part in parts], [part.receive_counts for part in parts])
    )
    received = comm.all_to_all(message, list(map(sum, going)), list(map(sum, coming)))
    pieces = received.split([size for sizes in coming for size in sizes])  # type: ignore[no-untyped-call]
    return [
        # Put together they are a copy, which begins where its dtype may.
        torch.cat(pieces[kind :: len(parts)]).view(part.rows.dtype).view(sum(part.receive_counts), *part.rows.shape[1:])
        for kind, part in enumerate(parts)
    ]


def _as_bytes(rows: Tensor) -> Tensor:
    """View rows as uint8[rows, bytes of a row]; the width is that of the row's shape even where there is no row."""
    return flat_bytes(rows.detach()).view(len(rows), math.prod(rows.shape[1:]) * rows.element_size())


def _sums(flags: Tensor, counts: Sequence[int]) -> tuple[int, ...]:
    return tuple(part_sums(flags.split(list(counts))))  # type: ignore[no-untyped-call]
