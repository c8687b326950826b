"""Where edges are whose messages are computed by parts, and how what the parts have of a reduction comes together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from headrace.pipeline.models.by_parts.statistics import Share, Statistic

#: Rows of nodes, of several kinds.
Tables: TypeAlias = tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Part:
    """Edges that a function of messages is called for together.

    Parameters
    ----------
    number
        Random numbers belong to it.
    sources: integer[n]
        The row of each edge's source in tables of sources.
    destinations: int64[n]
        The row of each edge's destination in tables of destinations, and among reductions.
    positions: int64[n] or None
        Where the edges are among those of this rank; None for the edge that counts for nothing.
    ids: int64[n]
        Masks of dropout belong to them.
    num_dst
        Rows of reductions.
    """

    number: int
    sources: Tensor
    destinations: Tensor
    positions: Tensor | None
    ids: Tensor
    num_dst: int

    def __len__(self) -> int:
        return len(self.sources)

    def of(self, some: Tensor) -> Part:
        """Return some of the edges, int64[m], as a part."""
        positions = None if self.positions is None else self.positions[some]
        return replace(
            self,
            sources=self.sources[some],
            destinations=self.destinations[some],
            positions=positions,
            ids=self.ids[some],
        )


class Inputs(NamedTuple):
    """What is read for a part, or the gradients of it.

    Parameters
    ----------
    sources
        Rows of sources, a table for each that was asked for.
    destinations
        Rows of destinations likewise; none where a rank reads its own.
    known: each [num_dst, ...]
        The reductions of the levels before.
    """

    sources: Sequence[Tensor]
    destinations: Sequence[Tensor]
    known: Sequence[Tensor]


#: Returns what a part has of the reductions of a level.
Visit: TypeAlias = Callable[[Part, Inputs], Sequence[Share]]

#: Returns the gradient of a part's share, from its place in the level.
GradientOf: TypeAlias = Callable[[int, Share], Tensor]


class Revisit(Protocol):
    """Computes a part anew, and returns the gradients of what is read for it; None for those that nothing has."""

    def __call__(self, part: Part, inputs: Inputs, gradient_of: GradientOf) -> Sequence[Sequence[Tensor | None]]:
        """Do so."""


class Passes(Protocol):
    """The passes over all parts of one call. Ranks make the same passes, whatever edges they have."""

    def forward(
        self, known: Sequence[Tensor], level: Sequence[Statistic], visit: Visit, what: str, *, keep: bool
    ) -> None:
        """Visit all parts, and put together what they have of the reductions of a level.

        Parameters
        ----------
        known
            The reductions of the levels before.
        level
            Those to be added to.
        visit
            What to do.
        what
            What it is for, in words that are the same on all ranks.
        keep
            Whether there will be a backward direction.
        """

    def begin_backward(self, needed: Sequence[bool], of_destinations: Sequence[bool]) -> None:
        """Begin the backward direction, for the gradients of those tables that need them."""

    def backward(
        self,
        known: Sequence[Tensor],
        level: Sequence[Statistic],
        gradients: Sequence[Tensor | None],
        expected: Sequence[int],
        visit: Revisit,
        what: str,
    ) -> Sequence[Tensor | None]:
        """Visit all parts once more, and return the gradients of the reductions before.

        Parameters
        ----------
        known, level, what
            As in the forward direction.
        gradients
            Of the reductions of the level; None for those that have none, on any rank.
        expected
            The places of known reductions that have gradients, the same on all ranks.
        visit
            What to do.
        """

    def end_backward(self) -> tuple[Sequence[Tensor | None], Sequence[Tensor | None]]:
        """Return the gradients of tables of sources, and of tables of destinations."""


class Parts(Protocol):
    """The edges of a rank, in parts."""

    @property
    def num_dst(self) -> int:
        """Destinations that this rank has rows of."""

    @property
    def device(self) -> torch.device:
        """Where rows are."""

    @property
    def only(self) -> Part | None:
        """The only part there is on all ranks; None if there are several."""

    def passes(self, sources: Tables, destinations: Tables) -> Passes:
        """Return the passes of a call that reads some tables of this rank's rows.

        Raises
        ------
        InputError
            For another number of rows.
        """


def edge_of_nothing(num_dst: int, device: torch.device) -> Part:
    """Return the edge that counts for nothing, from the first row to the first destination."""
    nothing = torch.zeros(1, dtype=torch.int64, device=device)
    return Part(-1, nothing, nothing, None, nothing, num_dst)


def add_to(totals: list[Tensor | None], parts: Sequence[Tensor | None]) -> None:
    """Add gradients to those that there are."""
    for place, part in enumerate(parts):
        total = totals[place]
        if part is not None:
            totals[place] = part if total is None else total + part
