"""The edges of a block that ranks share: degrees and loops, and functions of messages by the ranks together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import Self

from headrace.ops.errors import InputError
from headrace.ops.forks import cached_property
from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.mirrors import Mirrors, to_masters, to_mirrors
from headrace.pipeline.distributed.shared_aggregation import merged_sum
from headrace.pipeline.distributed.shared_block import LocalEdges, SharedBlock
from headrace.pipeline.models.by_parts.parts import Inputs, Part, Revisit, Tables, Visit, add_to
from headrace.pipeline.models.by_parts.staged import Edges, Staged
from headrace.pipeline.models.by_parts.statistics import Share, Statistic

#: Behind the ids of all edges begin those of loops that are added, by the ids of their nodes.
IDS_OF_LOOPS = 1 << 62


@dataclass(frozen=True, eq=False)
class SharedEdges:
    """The edges of a layer that this rank holds, a `GraphShare`, and the one part that it computes messages for.

    Parameters
    ----------
    block
        The layer.
    nodes: int64[num_src]
        The ids of this rank's rows.
    num_dst
        Rows that edges may lead to: the destinations of the block, or all its sources, as for a layer that takes one
        table for both.
    sources, targets
        Mirrors of the ends of edges.
    edges
        The edges, by mirrored sources and destinations; there are more rows of these than mirrored ones.
    num_edges
        Entries of arrays of edges.
    num_looped
        Rows that got a loop, the first ones.
    """

    block: SharedBlock
    nodes: Tensor
    num_dst: int
    sources: Mirrors
    targets: Mirrors
    edges: Part
    num_edges: int
    num_looped: int = 0

    @staticmethod
    def of(block: SharedBlock, nodes: Tensor | None = None) -> SharedEdges:
        """Return the edges of a block; masks of dropout of loops need the ids of rows."""
        edges, device = block.edges, block.edges.indices.device
        nodes = torch.arange(block.num_src, device=device) if nodes is None else nodes
        ends = torch.arange(len(edges.indptr) - 1, device=device).repeat_interleave(edges.indptr.diff())
        positions = torch.arange(block.num_edges, device=device)
        ids = edges.positions if block.edge_ids is None else block.edge_ids
        part = Part(0, edges.indices, ends, positions, ids, _num_rows(block.destinations, block))
        return SharedEdges(block, nodes, block.num_dst, block.sources, block.destinations, part, block.num_edges)

    @property
    def num_src(self) -> int:
        """Rows of this rank, as sources."""
        return self.block.num_src

    @property
    def origin(self) -> SharedBlock:
        """The block."""
        return self.block

    @property
    def parts(self) -> Self:
        """The edges themselves."""
        return self

    @property
    def device(self) -> torch.device:
        """Where rows are."""
        return self.nodes.device

    @property
    def only(self) -> None:
        """There are other ranks."""
        return

    def over(self, num_dst: int) -> Self:
        """Return the edges with another number of rows that they may lead to: destinations, or all sources."""
        if num_dst not in (self.block.num_dst, self.block.num_src) or num_dst < self.num_looped:
            raise InputError(
                f"expected rows of the {self.block.num_dst} destinations of the block or of its {self.block.num_src} "
                f"sources, got {num_dst}; call conv((h, h[:block.num_dst]), block.edge_index), or with h alone"
            )
        return dataclasses.replace(self, num_dst=num_dst)

    @property
    def _are_loops(self) -> Tensor:
        """Whether edges lead from a row to itself, bool[n]: its master has them all."""
        sources, ends = self.edges.sources.long(), self.edges.destinations
        own = (sources < self.sources.num_own) & (ends < self.targets.num_own)
        is_loop = self.sources.rows[sources[own]] == self.targets.rows[ends[own]]
        return own.masked_scatter(own, is_loop)

    @property
    def self_loops(self) -> Tensor:
        """The positions of loops."""
        return _positions(self.edges)[self._are_loops].sort().values

    @property
    def destinations(self) -> Tensor:
        """The rows that edges lead to, where this rank has them; else -1."""
        mirrors, ends = self.targets, self.edges.destinations
        rows = torch.cat([mirrors.rows[: mirrors.num_own], ends.new_full((mirrors.num_received,), -1)])
        return ends.new_full((self.num_edges,), -1).index_copy(0, _positions(self.edges), rows[ends])

    def aggregate(self, x: Tensor, *, reduce: Literal["sum", "mean"] = "sum", weight: Tensor | None = None) -> Tensor:
        """Return sums or means of messages by kernels, [num_dst, ...]; `SharedBlock.aggregate` has the parameters."""
        block, positions = self._block
        return block.aggregate(x, reduce=reduce, weight=None if weight is None else weight.index_select(0, positions))

    @cached_property
    def _block(self) -> tuple[SharedBlock, Tensor]:
        """A block of the edges, and where its edges are among them."""
        block, part = dataclasses.replace(self.block, num_dst=self.num_dst), self.edges
        if not self.num_looped and self.num_edges == block.num_edges:
            return block, _positions(part)
        order = part.destinations.argsort(stable=True)
        indptr = starts_of(torch.bincount(part.destinations, minlength=self.targets.num_mirrored))
        edges = LocalEdges(indptr, part.sources[order], part.ids[order], self.sources.num_mirrored)
        block = dataclasses.replace(block, edges=edges, sources=self.sources, destinations=self.targets, edge_ids=None)
        return block, _positions(part)[order]

    def in_degrees(self) -> Tensor:
        """Return the number of in-edges on all ranks, in one collective."""
        counts = torch.bincount(self.edges.destinations, minlength=self.targets.num_mirrored)
        self.block.comm.at(self.block.batch)
        (of_ranks,) = to_masters(self.block.comm, (self.targets, counts))
        return counts.new_zeros(self.num_dst).index_add(0, self.targets.rows, of_ranks)

    def sum_edges(self, values: Tensor) -> Tensor:
        """Return the sums of values of in-edges on all ranks; one collective in each direction."""
        if len(values) != self.num_edges:
            raise InputError(f"expected a value for each of this rank's {self.num_edges} edges, got {len(values)}")

        def body(edges: Edges) -> Tensor:
            rows = edges.of_edges(values)
            return rows.new_zeros(edges.num_dst, *values.shape[1:]).index_add(0, edges.index, rows)

        return Staged(body, (), self, False, 0, "values of edges")()

    def some(self, mask: Tensor) -> Self:
        """Return some of the edges, bool[num_edges]: arrays of edges have entries for those alone."""
        part = self.edges.of(mask[_positions(self.edges)].nonzero()[:, 0])
        numbers = mask.cumsum(0) - 1
        part = dataclasses.replace(part, positions=numbers[_positions(part)])
        return dataclasses.replace(self, edges=part, num_edges=int(mask.sum()))

    def with_self_loops(self) -> Self:
        """Return the edges with a loop at each row in place of those that there are; nothing is exchanged."""
        kept, number = ~self._are_loops, self.num_dst
        sources, starts = _with_own(self.sources, self.edges.sources[kept], self.num_src)
        targets, ends = _with_own(self.targets, self.edges.destinations[kept], number)
        own = torch.arange(number, device=self.nodes.device)
        part = Part(
            self.edges.number,
            torch.cat([starts, own]),
            torch.cat([ends, own]),
            torch.cat([_positions(self.edges)[kept], self.num_edges + own]),
            torch.cat([self.edges.ids[kept], IDS_OF_LOOPS + self.nodes[:number]]),
            _num_rows(targets, self.block),
        )
        return dataclasses.replace(
            self, sources=sources, targets=targets, edges=part, num_edges=self.num_edges + number, num_looped=number
        )

    def passes(self, sources: Tables, destinations: Tables) -> SharedPasses:
        """Return the passes of a call."""
        for rows, number in (*((one, self.num_src) for one in sources), *((one, self.num_dst) for one in destinations)):
            if len(rows) != number:
                raise InputError(
                    f"expected a row for each of {number} nodes of the layer that this rank is master of, got "
                    f"{list(rows.shape)}"
                )
        return SharedPasses(self, sources, destinations)


class SharedPasses:
    """The passes of one call: rows go to mirrors, and what these have of reductions goes to masters, who merge it.

    That is one collective each way for each level, forward and backward: reductions go to mirrors where another level
    depends on them, and their gradients come back.

    Parameters
    ----------
    edges
        The edges.
    sources: each [num_src, ...]
    destinations: each [num_dst, ...]
        Rows of this rank's nodes.
    """

    def __init__(self, edges: SharedEdges, sources: Tables, destinations: Tables) -> None:
        self._edges = edges
        mirrors = [edges.sources] * len(sources) + [edges.targets] * len(destinations)
        #: Of tables of both kinds, with those nodes of which mirrors have rows.
        self._tables = [(one, rows.detach()) for one, rows in zip(mirrors, (*sources, *destinations), strict=True)]
        self._num_sources = len(sources)
        #: What is at mirrors.
        self._here: Inputs | None = None
        #: What mirrors have of each reduction, at masters.
        self._shares: list[tuple[Tensor, Tensor | None]] = []

    def forward(
        self, known: Sequence[Tensor], level: Sequence[Statistic], visit: Visit, what: str, *, keep: bool
    ) -> None:
        """Send rows, or the reductions of the level before, and merge what ranks have of the next ones."""
        del what, keep  # ranks know by the batch where they are
        mirrors = self._edges.targets
        inputs = self._received(known)
        shares = visit(self._edges.edges, inputs) if len(self._edges.edges) else [None] * len(level)
        own = [self._own_share(*pair) for pair in zip(level, shares, strict=True)]
        came = iter(self._to_masters([(mirrors, one) for pair in own for one in pair if one is not None]))
        for statistic, pair in zip(level, own, strict=True):
            value, ties = (None if one is None else next(came) for one in pair)
            assert value is not None  # a reduction has one
            for start, stop in mirrors.ends:
                of_rank = slice(start, stop)
                statistic.add(value[of_rank], None if ties is None else ties[of_rank], mirrors.rows[of_rank])
            self._shares.append((statistic.value if statistic.kind == "sum" else value, ties))

    def _received(self, known: Sequence[Tensor]) -> Inputs:
        """Return what a level reads: rows of nodes from the first one on, and the reductions before."""
        mirrors = self._edges.targets
        if self._here is None:
            rows = self._to_mirrors(self._tables)
            self._here = Inputs(rows[: self._num_sources], rows[self._num_sources :], [])
        else:
            before = self._here.known
            further = self._to_mirrors([(mirrors, one) for one in known[len(before) :]])
            self._here = self._here._replace(known=[*before, *map(self._padded, further)])
        return self._here

    def _own_share(self, statistic: Statistic, share: Share | None) -> tuple[Tensor, Tensor | None]:
        """Return what this rank has of a reduction, for the nodes that it mirrors."""
        number = self._edges.targets.num_mirrored
        if share is None:
            nothing = statistic.nothing(number)
            return nothing, None if statistic.ties is None else torch.zeros_like(nothing)
        ties = share.ties()
        return share.value[:number], None if ties is None else ties[:number]

    def begin_backward(self, needed: Sequence[bool], of_destinations: Sequence[bool]) -> None:
        """Begin with no gradients."""
        self._needed = [*needed, *of_destinations]
        self._of_rows: list[Tensor | None] = [None] * len(self._needed)

    def backward(
        self,
        known: Sequence[Tensor],
        level: Sequence[Statistic],
        gradients: Sequence[Tensor | None],
        expected: Sequence[int],
        visit: Revisit,
        what: str,
    ) -> list[Tensor | None]:
        """Send gradients of a level to the mirrors, and those of the levels before to the masters."""
        del what
        assert self._here is not None  # from the forward direction
        edges, mirrors, number = self._edges, self._edges.targets, len(known)
        going = {
            place: statistic.gradient_of(*self._shares[number + place], gradient, mirrors.rows)
            for place, (statistic, gradient) in enumerate(zip(level, gradients, strict=True))
            if gradient is not None
        }
        came = to_mirrors(self._comm, *((mirrors, one) for one in going.values()))
        here = dict(zip(going, map(self._padded, came), strict=True))
        of_known: Sequence[Tensor | None] = [None] * number
        if len(edges.edges):
            inputs = self._here._replace(known=self._here.known[:number])
            of_sources, of_destinations, of_known = visit(edges.edges, inputs, lambda place, _: here[place])
            add_to(self._of_rows, [*of_sources, *of_destinations])
        nothing = [one[: mirrors.num_mirrored] for one in self._here.known[:number]]
        merged = self._summed(
            [(mirrors, one, of_known[place]) for place, one in enumerate(nothing) if place in expected]
        )
        return [next(merged) if place in expected else None for place in range(number)]

    def end_backward(self) -> tuple[list[Tensor | None], list[Tensor | None]]:
        """Send the gradients of rows to the masters."""
        assert self._here is not None
        tables = zip(self._tables, (*self._here.sources, *self._here.destinations), self._of_rows, strict=True)
        asked = zip(self._needed, tables, strict=True)
        merged = self._summed([(mirrors, like, part) for needs, ((mirrors, _), like, part) in asked if needs])
        gradients = [next(merged) if needs else None for needs in self._needed]
        return gradients[: self._num_sources], gradients[self._num_sources :]

    def _summed(self, parts: Sequence[tuple[Mirrors, Tensor, Tensor | None]]) -> Iterator[Tensor]:
        """Send what mirrors have to masters, zeros as `like` where that is nothing; return the sums there."""
        going = [
            (mirrors, torch.zeros_like(like) if part is None else part[: len(like)]) for mirrors, like, part in parts
        ]
        for (mirrors, _), came in zip(going, self._to_masters(going), strict=True):
            number = self._edges.num_src if mirrors is self._edges.sources else self._edges.num_dst
            yield merged_sum(mirrors, came, number)

    def _padded(self, rows: Tensor) -> Tensor:
        """Return rows of mirrored destinations with those behind them, which no edge leads to."""
        return torch.cat([rows, rows.new_zeros(self._edges.edges.num_dst - len(rows), *rows.shape[1:])])

    def _to_mirrors(self, tables: Sequence[tuple[Mirrors, Tensor]]) -> list[Tensor]:
        parts = [(mirrors, mirrors.pick(rows.contiguous())) for mirrors, rows in tables]
        return to_mirrors(self._comm, *parts) if parts else []

    def _to_masters(self, parts: Sequence[tuple[Mirrors, Tensor]]) -> list[Tensor]:
        return to_masters(self._comm, *parts) if parts else []

    @property
    def _comm(self) -> Comm:
        self._edges.block.comm.at(self._edges.block.batch)
        return self._edges.block.comm


def _num_rows(mirrors: Mirrors, block: SharedBlock) -> int:
    """Return how many rows of reductions there are: those mirrored and more, but not as many as this rank's rows.

    So a table of its own, in which destinations have other places, is not taken for one of mirrored ones.
    """
    number = mirrors.num_mirrored + 1
    while number in (block.num_dst, block.num_src):
        number += 1
    return number


def _positions(part: Part) -> Tensor:
    assert part.positions is not None  # of edges that there are
    return part.positions


def _with_own(mirrors: Mirrors, ends: Tensor, number: int) -> tuple[Mirrors, Tensor]:
    """Return mirrors with the first rows of this rank before those of others, and where mirrored ends are among them.

    Rows of this rank itself go nowhere, so it is nothing to the other ranks.
    """
    num_own = mirrors.num_own
    own = torch.arange(number, device=ends.device)
    others = number + torch.arange(mirrors.num_received, device=ends.device)
    places = torch.cat([mirrors.rows[:num_own], others])
    rows = torch.cat([own, mirrors.rows[num_own:]])
    return dataclasses.replace(mirrors, rows=rows, num_own=number), places[ends.long()]
