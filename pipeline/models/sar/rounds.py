"""Shard after shard: the order in which a rank works on its edges, and what is in memory meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.distributed.channel import nothing
from headrace.pipeline.models.by_parts.parts import Tables
from headrace.pipeline.models.sar.shard import Shard
from headrace.pipeline.models.sar.transfer import Transfer

#: The layer of a model that runs, by the name that it has there; "" outside of the layers that `wrap` has replaced.
_LAYER: ContextVar[str] = ContextVar("headrace_sar_layer", default="")


@contextmanager
def inside(layer: str) -> Iterator[None]:
    """Let aggregations be those of a layer."""
    token = _LAYER.set(layer)
    try:
        yield
    finally:
        _LAYER.reset(token)


def described(operation: str, names: Sequence[str], needed: Sequence[bool]) -> str:
    """Say what is computed, in which layer, and what will have gradients; the same on all ranks.

    Parameters
    ----------
    operation
        What it is.
    names, needed
        Its inputs, and which of them need gradients.
    """
    layer = _LAYER.get()
    asked = [name for name, one in zip(names, needed, strict=True) if one]
    gradients = f"gradients for {' and '.join(asked)}" if asked else "no gradients"
    return f"{operation}{f' in layer {layer}' if layer else ''} ({gradients})"


def sizes(tables: Sequence[Tensor]) -> str:
    """Say how many bytes the rows of some tables have, whether there are any or not."""
    return " and ".join(str(math.prod(table.shape[1:]) * table.element_size()) for table in tables)


Mode: TypeAlias = Literal["sar", "sequential", "one-shot"]

#: What is done with a shard when the rows of its sources are there.
Visit: TypeAlias = Callable[[Shard, Tables], None]

#: The same backward: with the rows, if they are needed, and the gradients of these to add to, if they are.
Revisit: TypeAlias = Callable[[Shard, "Tables | None", "Tables | None"], None]


@dataclass(frozen=True, eq=False)
class Rounds:
    """The shards of a rank, and the rounds in which rows come to them and gradients go back (SAR, arXiv 2111.06483).

    In round r a rank receives from rank - r and sends to rank + r, modulo the number of ranks; its own shard is the
    first and needs no exchange. All ranks go through all rounds, whatever they have to send.

    Parameters
    ----------
    shards
        One for each rank.
    transfer
        What exchanges.
    num_dst
        Rows that edges lead to.
    num_edges
        Entries of arrays of edges.
    mode
        "sar"; "sequential", where rows stay until the backward direction; "one-shot", where they also come at once.
    prefetch
        Shards that come while one is worked on, 0 or 1.
    """

    shards: tuple[Shard, ...]
    transfer: Transfer
    num_dst: int
    num_edges: int
    mode: Mode
    prefetch: int

    @property
    def own(self) -> Shard:
        """The shard of this rank's own rows, which is worked on first."""
        return self.shards[self.transfer.rank]

    @property
    def last(self) -> Shard:
        """The shard that is worked on last."""
        return self.shards[(self.transfer.rank + 1) % len(self.shards)]

    def forward(self, tables: Tables, visit: Visit, what: str, *, keep: bool) -> Tables:
        """Call `visit` with each shard, this rank's own first, and the rows of its sources.

        Parameters
        ----------
        tables: each [num_src, ...]
            This rank's rows.
        visit
            What to do; it holds no rows when it has returned.
        what
            What it is for, in words that are the same on all ranks: those that part are found out by them.
        keep
            Whether there will be a backward direction, until which modes other than "sar" keep the rows.

        Returns
        -------
        tuple of Tensor
            Rows to be given to `backward`.

        Raises
        ------
        InputError
            For another number of rows. Nothing is sent then.
        """
        for table in tables:
            if table.shape[:1] != (self.transfer.num_rows,):
                raise InputError(
                    f"expected a row for each of the {self.transfer.num_rows} nodes that rank {self.transfer.rank} "
                    f"owns, got {list(table.shape)}; graph.rows(x) takes them out of a table of all nodes"
                )
        with self.transfer.doing(f"rows of {sizes(tables)} bytes for {what}"):
            return self._forward(tables, visit, keep=keep)

    def _forward(self, tables: Tables, visit: Visit, *, keep: bool) -> Tables:
        if not tables:  # messages of destinations and edges alone: there is nothing to wait for
            for shard in (self.own, *self._others()):
                visit(shard, ())
            return ()
        if self.mode == "one-shot" and len(self.shards) > 1:
            arrived = self.transfer.fetch_all(tables)
            visit(self.own, tables)
            for shard in self._others():
                visit(shard, self._part(arrived, shard))
            return arrived if keep else ()
        kept: list[Tensor] = []
        waiting: Callable[[], None] = partial(visit, self.own, tables)
        for shard in self._others():
            if not self.prefetch:
                waiting()
                waiting = nothing  # lets go of the rows before others come
            rows = self.transfer.fetch(tables, shard.owner, meanwhile=waiting)
            waiting = partial(visit, shard, rows)
            if keep and self.mode == "sequential":
                kept.extend(rows)
            del rows
        waiting()
        return tuple(kept)

    def backward(
        self,
        tables: Tables | None,
        visit: Revisit,
        sums: Tables | None,
        kept: Tables,
        what: str,
        *,
        overwrites: bool = False,
    ) -> None:
        """Call `visit` with each shard, the rows if gradients depend on them, and gradients of rows to add to.

        Parameters
        ----------
        tables
            This rank's rows as they were in `forward`; None if gradients do not depend on rows.
        visit
            What to do.
        sums
            Gradients of this rank's rows, to be added to, here and by what other ranks send. None if nobody asks for
            them, on any rank; nothing is sent then.
        kept
            What `forward` returned.
        what
            As for `forward`.
        overwrites
            Whether `visit` can write gradients of the rows of the first table over these: where they came for it alone,
            it gets one table for both.
        """
        with self.transfer.doing(f"gradients of {what}"):
            self._backward(tables, visit, sums, kept, overwrites)

    def _backward(
        self, tables: Tables | None, visit: Revisit, sums: Tables | None, kept: Tables, overwrites: bool
    ) -> None:
        if tables is not None and not tables:
            for shard in (self.own, *self._others()):
                visit(shard, (), None)
            return
        visit_own = partial(visit, self.own, tables, sums)
        if len(self.shards) == 1:
            visit_own()
        elif self.mode == "one-shot":
            visit_own()
            self._backward_at_once(kept if tables is not None else None, visit, sums)
        elif tables is not None and self.mode == "sar":
            self._backward_refetching(tables, visit, visit_own, sums, overwrites)
        else:
            visit_own()
            self._backward_at_hand(kept if tables is not None else None, visit, sums)

    def _backward_at_once(self, kept: Tables | None, visit: Revisit, sums: Tables | None) -> None:
        """Work on all shards, then send all gradients."""
        gradients = _zeros(sums, sum(shard.num_sources for shard in self._others()))
        for shard in self._others():
            rows = None if kept is None else self._part(kept, shard)
            visit(shard, rows, None if gradients is None else self._part(gradients, shard))
        if gradients is not None and sums is not None:
            self.transfer.give_back_all(gradients, sums)

    def _backward_at_hand(self, kept: Tables | None, visit: Revisit, sums: Tables | None) -> None:
        """Work on shards whose rows are there, or not needed; with prefetch while gradients of the one before go."""
        going: Callable[..., None] = _call  # sends gradients and calls what is to be done meanwhile
        for number, shard in enumerate(self._others()):
            rows = None if kept is None else _slice(kept, number, len(self.shards) - 1)
            gradients = _zeros(sums, shard.num_sources)
            work = partial(visit, shard, rows, gradients)
            del rows
            if self.prefetch:
                going(meanwhile=work)
            else:
                going(meanwhile=nothing)
                work()
            del work
            going = _call
            if gradients is not None and sums is not None:
                going = partial(self.transfer.give_back, gradients, shard.owner, sums)
            del gradients
        going(meanwhile=nothing)

    def _backward_refetching(
        self, tables: Tables, visit: Revisit, waiting: Callable[[], None], sums: Tables | None, overwrites: bool
    ) -> None:
        """Let rows come again; with prefetch while the shard before is worked on."""
        going: Callable[..., None] = _call
        for shard in self._others():
            if not self.prefetch:
                waiting()
                waiting = nothing
                going(meanwhile=nothing)
                going = _call
            rows = self.transfer.fetch(tables, shard.owner, meanwhile=waiting)
            self.transfer.counts.refetches += 1
            waiting = nothing
            going(meanwhile=nothing)
            gradients = _zeros(sums if sums is None or not overwrites else sums[1:], shard.num_sources)
            if overwrites and gradients is not None:
                gradients = (rows[0], *gradients)
            waiting, going = partial(visit, shard, rows, gradients), _call
            if gradients is not None and sums is not None:
                going = partial(self.transfer.give_back, gradients, shard.owner, sums)
            del rows, gradients
        waiting()
        del waiting
        going(meanwhile=nothing)

    def _others(self) -> Iterator[Shard]:
        """Yield the shards of other ranks, in the order of the rounds."""
        world_size = len(self.shards)
        for number in range(1, world_size):
            yield self.shards[(self.transfer.rank - number) % world_size]

    def _part(self, arrived: Tables, shard: Shard) -> Tables:
        """Return the rows of a shard among those that came at once."""
        start = sum(one.num_sources for one in self.shards[: shard.owner] if one is not self.own)
        return tuple(rows[start : start + shard.num_sources] for rows in arrived)


def _call(meanwhile: Callable[[], None]) -> None:
    meanwhile()


def _zeros(sums: Tables | None, number: int) -> Tables | None:
    return None if sums is None else tuple(total.new_zeros(number, *total.shape[1:]) for total in sums)


def _slice(kept: Tables, number: int, of: int) -> Tables:
    """Return the tables of one shard among those of all of them."""
    width = len(kept) // of
    return kept[number * width : (number + 1) * width]
