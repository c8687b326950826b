"""A function of messages over edges that come by parts, level by level of its reductions, and backward once more.

Messages may depend on reductions of other messages, as those of attention do on a softmax. So the function runs several
times over all parts: each time the reductions that depend on known ones alone become known. When all are, its result
follows from them and is computed once, with one edge that counts for nothing. Backward, each part is computed anew,
from the last level to the first. No array of all edges is made, and none of a part outlives it (SAR, arXiv 2111.06483).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from headrace.ops.aggregate.precision import casting_as_now
from headrace.ops.errors import InputError
from headrace.pipeline.models.by_parts.drawing import drawing
from headrace.pipeline.models.by_parts.gradients import Backward
from headrace.pipeline.models.by_parts.parts import Inputs, Part, Parts, Tables, edge_of_nothing
from headrace.pipeline.models.by_parts.seam import Seam, Unknown
from headrace.pipeline.models.by_parts.statistics import Kind, Share, Statistic, reduced


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of one part, as a function of messages sees them.

    Parameters
    ----------
    part
        The edges.
    tables
        Rows of sources that are here, a table for each that was asked for.
    targets
        Rows of destinations that are here, by the `id` of the rows of which they are; others are read themselves.
    index: int64[n]
        The destinations, to reduce messages by.
    seam
        What watches the function.
    """

    part: Part
    tables: Sequence[Tensor]
    targets: Mapping[int, Tensor]
    index: Tensor
    seam: Seam

    @property
    def positions(self) -> Tensor | None:
        """Where the edges are among those of this rank, int64[n]; None for the edge that counts for nothing."""
        return self.part.positions

    @property
    def num_dst(self) -> int:
        """Rows that messages are reduced to."""
        return self.part.num_dst

    def of_sources(self, table: int) -> Tensor:
        """Return the rows of the sources of edges, [n, ...]."""
        rows = self.tables[table].index_select(0, self.part.sources)
        self.seam.rows_of_edges([rows])
        return rows

    def of_destinations(self, rows: Tensor) -> Tensor:
        """Return the rows of the destinations of edges, [n, ...], of own rows."""
        rows = self.targets.get(id(rows), rows)
        taken = rows.index_select(0, self.part.destinations) if len(rows) else _first(rows)
        self.seam.rows_of_edges([taken])
        return taken

    def of_edges(self, values: Tensor) -> Tensor:
        """Return the entries of edges, [n, ...], of those of all edges of this rank."""
        taken = _first(values) if self.positions is None else values.index_select(0, self.positions)
        self.seam.rows_of_edges([taken])
        return taken

    def softmax(self, scores: Tensor) -> Tensor:
        """Return the softmax of scores, [n, ...], over the edges of each destination."""
        return self.seam.softmax(scores)

    def dropout(self, rows: Tensor, probability: float) -> Tensor:
        """Drop elements of rows, [n, ...], by masks that belong to edges, and scale up the others."""
        return functional.dropout(rows, probability)  # as what watches the function does it

    def reduce(self, messages: Tensor, kind: str) -> Tensor:
        """Return the "sum", "mean", "max" or "min" of messages, [num_dst, ...]; 0 for a destination without edges."""
        return reduced(messages, self.index, self.num_dst, kind)


#: Returns rows of destinations, [num_dst, ...], of messages that it reduces to them.
Body: TypeAlias = Callable[[Edges], Tensor]


@dataclass(eq=False)
class Staged:
    """One call of a function of messages.

    Parameters
    ----------
    body
        The function.
    tables: each [num_src, ...]
        Rows of owned nodes, as sources.
    parts
        The edges.
    tries
        Whether messages are tried with fewer edges.
    key
        Of masks of dropout, if there are any; the same on all ranks.
    name
        Of what is computed, in words that are the same on all ranks.
    targets: each [num_dst, ...]
        Rows of owned nodes that the function reads as those of destinations.
    """

    body: Body
    tables: Tables
    parts: Parts
    tries: bool
    key: int
    name: str
    targets: Tables = ()
    inputs: tuple[int, ...] = ()
    casting: Callable[[], AbstractContextManager[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.casting = casting_as_now(self.parts.device.type)
        self.levels: list[list[Statistic]] = []
        self.states: dict[int, list[Tensor]] = {}
        self.used: dict[int, Tensor] = {}
        self.rows_of_last: list[Tensor] = []

    def __call__(self) -> Tensor:
        """Return the result, with gradients for the tables and whatever else the function uses."""
        only = self.parts.only
        if only is not None:
            return self._at_once(only)
        self.passes = self.parts.passes(self.tables, self.targets)
        wants_gradients = torch.is_grad_enabled()
        with torch.no_grad():
            out = self._forward(keep=wants_gradients)
        inputs = {id(one): one for one in self.tables if one.requires_grad} | self.used
        self.used = {}
        if not wants_gradients or not inputs:
            return out
        self.result, self.inputs = out, tuple(inputs)
        result: Tensor = Backward.apply(self, *inputs.values())  # type: ignore[no-untyped-call]
        return result

    def _at_once(self, part: Part) -> Tensor:
        """Return the result of the only part, which autograd keeps: to compute it once more would take longer."""

        def reduce(kind: Kind, source: Tensor) -> tuple[Tensor, bool]:
            kinds.append(kind)
            return Share.of(kind, source, part.destinations, part.num_dst).value, True

        kinds: list[Kind] = []
        seam = Seam(reduce, part.num_dst, part.ids, self.key, {})
        try:
            with self.casting(), seam:
                out = self.body(Edges(part, self.tables, {}, seam.destinations(part.destinations), seam))
            self._check_reduced(kinds)
            return out
        finally:
            seam.close()

    def _forward(self, *, keep: bool) -> Tensor:
        while True:
            self.states.pop(self._last.number, None)  # what is drawn behind messages is drawn once more
            shares, out = self.run_last({}, self.known())
            if out is not None:
                self._check_reduced(self.levels)
                if self.tries:
                    self._try_last(out)
                return out
            level = [Statistic(one, self.parts.num_dst) for one in shares]

            def visit(part: Part, inputs: Inputs) -> list[Share]:
                shares, _ = self.run(part, inputs, {}, len(level))  # noqa: B023 - it is called at once
                if self.tries:
                    self._try(part, inputs, shares)
                return shares

            self.passes.forward(self.known(), level, visit, self.what(len(self.levels)), keep=keep)
            self.levels.append(level)

    @property
    def _last(self) -> Part:
        return edge_of_nothing(self.parts.num_dst, self.parts.device)

    def _check_reduced(self, reductions: Sequence[Any]) -> None:
        if not reductions:
            raise InputError(f"{self.name}: expected messages to be reduced to destinations, got none reduced")

    def _try(self, part: Part, inputs: Inputs, shares: Sequence[Share]) -> None:
        """Refuse messages that are others where fewer edges are together: once, as no rule sees all operations."""
        if part.number in self.states or len(part) < _FEW:  # what is drawn is drawn for all edges together
            return
        some = torch.arange(0, len(part), 2, device=part.sources.device)
        with_fewer, _ = self.run(part.of(some), inputs, {}, len(shares))
        for one, other in zip(shares, with_fewer, strict=True):
            _check_close(one.source.index_select(0, some), other.source, self.name)

    def _try_last(self, out: Tensor) -> None:
        """Refuse results that depend on the edge that counts for nothing."""
        if self.states.get(self._last.number) is None and all(len(one) > 1 for one in self.tables):
            _, other = self.run_last({}, self.known(), row=-1)
            assert other is not None  # as the first one was
            _check_close(out, other, self.name)

    def what(self, level: int) -> str:
        """Say what rows come for; the same on all ranks."""
        return f"{self.name}, level {level + 1}"

    def known(self, below: int | None = None) -> list[Tensor]:
        """Return the reductions of the levels below one, or of all."""
        return [one.value for level in self.levels[:below] for one in level]

    def run_last(
        self, aliases: dict[int, Tensor], known: Sequence[Tensor], row: int = 0
    ) -> tuple[list[Share], Tensor | None]:
        """Run the function for one edge, from a row to the first one, whose messages count for nothing."""
        tables = tuple(_first(one.detach()[row:]) for one in self.tables)
        if torch.is_grad_enabled():  # so that it is seen which reductions have gradients for them
            tables = tuple(one.requires_grad_(own.requires_grad) for one, own in zip(tables, self.tables, strict=True))
        self.rows_of_last[:] = tables
        return self.run(self._last, Inputs(tables, (), known), aliases, None)

    def run(
        self, part: Part, inputs: Inputs, aliases: dict[int, Tensor], most: int | None
    ) -> tuple[list[Share], Tensor | None]:
        """Run the function for the edges of a part, until a number of further reductions are there."""
        shares: list[Share] = []
        place = 0

        def reduce(kind: Kind, source: Tensor) -> tuple[Tensor, bool]:
            nonlocal place
            place += 1
            if place <= len(inputs.known):
                return inputs.known[place - 1], True
            if seam.is_unknown(source):
                raise Unknown
            of_nothing = source.detach().new_zeros(part.num_dst, *source.shape[1:])
            if part.positions is None:  # of an edge that counts for nothing
                shares.append(Share(kind, of_nothing, source, part.destinations))
            else:
                shares.append(Share.of(kind, source, part.destinations, part.num_dst))
            if len(shares) == most:
                raise Unknown
            return of_nothing, False

        seam = Seam(reduce, part.num_dst, part.ids, self.key, aliases)
        targets = {id(own): rows for own, rows in zip(self.targets, inputs.destinations, strict=False)}
        out = None
        try:
            with self.casting(), drawing(self.states, part.number), seam:
                out = self.body(Edges(part, inputs.sources, targets, seam.destinations(part.destinations), seam))
        except Unknown:
            pass
        finally:
            self.used |= seam.used
            seam.close()
        return shares, None if shares else out


#: Edges of a part that are enough to try messages with.
_FEW = 4


def _check_close(one: Tensor, other: Tensor, name: str) -> None:
    if one.is_floating_point():
        slack = 1e-3 if one.dtype in (torch.float16, torch.bfloat16) else 1e-9 if one.dtype == torch.float64 else 1e-4
        scale = float(one.nan_to_num(0, 0, 0).abs().max()) if one.numel() else 0.0
        same = one.shape == other.shape and torch.allclose(one, other, slack, slack * scale, equal_nan=True)
    else:
        same = torch.equal(one, other)
    if not same:
        raise InputError(
            f"{name}: expected messages that depend on the rows of their own edge, got others where fewer edges are "
            "together: something in them looks at other edges, at how many there are, or at what a call before has left"
        )


def _first(values: Tensor) -> Tensor:
    """Return the first row; where there is none zeros, with gradients as on other ranks."""
    # Not by values[:1], which a mode of torch before 2.5 does not see.
    return values.narrow(0, 0, 1).clone() if len(values) else values.new_zeros(1, *values.shape[1:]) + 0 * values.sum()
