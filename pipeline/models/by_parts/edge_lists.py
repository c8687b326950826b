"""The lists of edges that a layer makes of a block's, by the values of their ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

#: Spaces of rows: nodes whose rows are right, nodes of which destinations alone have a right row, then lists of edges.
NODES, DESTINATIONS, EDGES = 0, 1, 2

#: Ends of an edge: the position in a list's pair.
SOURCE, DESTINATION = 0, 1

#: Lists of fewer edges may be equal to others by chance.
_FEW = 5


class End(NamedTuple):
    """One end of all edges of a list."""

    space: int
    end: int


class EdgeLists:
    """The block's edges, and lists made of them: without some edges, with loops, in another order.

    Parameters
    ----------
    sources, destinations: int64[num_edges]
        Of the block.
    num_dst
        The number of the block's destinations.

    Attributes
    ----------
    is_sure
        Whether no two ends had equal values where they were looked up.
    """

    def __init__(self, sources: Tensor, destinations: Tensor, num_dst: int) -> None:
        self._ends = [(sources, destinations)]
        self._num_dst = num_dst
        self.is_sure = True

    def number(self, space: int) -> int:
        """Return the number of edges of a list."""
        return len(self._ends[space - EDGES][SOURCE])

    def lengths(self) -> set[int]:
        """Return the numbers of edges of all lists."""
        return {len(one) for one, _ in self._ends}

    def add(self, sources: Tensor, destinations: Tensor) -> int:
        """Return the space of a list with these ends."""
        for number, ends in enumerate(self._ends):
            if torch.equal(ends[SOURCE], sources) and torch.equal(ends[DESTINATION], destinations):
                return number + EDGES
        self._ends.append((sources, destinations))
        return len(self._ends) - 1 + EDGES

    def chosen(self, space: int, index: Tensor) -> int:
        """Return the space of the edges of a list that a mask or positions choose.

        A list that has one loop for each of the first nodes, in order, has a row for each of these destinations.
        """
        sources, destinations = (one[index] for one in self._ends[space - EDGES])
        loops, space = torch.arange(len(sources), device=sources.device), self.add(sources, destinations)
        are_loops = torch.equal(sources, loops) and torch.equal(destinations, loops)
        return DESTINATIONS if are_loops and len(loops) >= self._num_dst else space

    def with_loops(self, space: int, number: int) -> int | None:
        """Return the space of a list with loops of the first nodes behind it; None where a destination lacks one."""
        if number < self._num_dst:
            return None
        sources, destinations = self._ends[space - EDGES]
        loops = torch.arange(number, device=sources.device)
        return self.add(torch.cat([sources, loops]), torch.cat([destinations, loops]))

    def are_of_block(self, sources: Tensor, destinations: Tensor) -> bool:
        """Whether all of some edges, in any order, are the block's, and all of the block's among them."""
        width = 1 + max(
            (int(one.max()) for pair in ((sources, destinations), self._ends[0]) for one in pair), default=0
        )
        mine, others = (
            torch.unique(pair[1].long() * width + pair[0].long()) for pair in (self._ends[0], (sources, destinations))
        )
        return torch.equal(mine, others)

    def are_starts(self, values: Tensor) -> bool:
        """Whether a tensor says where the edges of each of the first nodes begin, in the order of destinations."""
        destinations = self._ends[0][DESTINATION]
        if len(values) <= self._num_dst:
            return False
        counts = torch.bincount(destinations.long(), minlength=len(values) - 1)
        return len(counts) == len(values) - 1 and torch.equal(values.long()[1:], counts.cumsum(0)) and not values[0]

    def end_of(self, index: Tensor, space: int | None = None, end: int = SOURCE) -> End | None:
        """Return of which end, of a list or a certain one, an index has the values; `end` if both are equal."""
        ends = self._equal_ends(index)
        if space is not None:
            ends = [one for one in ends if one.space == space]
        self.is_sure &= not ends or (len(ends) == 1 and len(index) >= _FEW)
        return next(iter(sorted(ends, key=lambda one: one.end != end)), None)

    def _equal_ends(self, index: Tensor) -> list[End]:
        index = index.long()
        found = self._known_ends(index)
        if found or len(index) < self._num_dst:
            return found
        for number in range(len(self._ends)):
            size = len(self._ends[number][SOURCE])
            loops = torch.arange(max(0, len(index) - size), device=index.device)
            has_loops = len(loops) >= max(1, self._num_dst) and torch.equal(index[size:], loops)
            if has_loops and any(torch.equal(index[:size], one) for one in self._ends[number]):
                self.with_loops(number + EDGES, len(loops))
        return self._known_ends(index)

    def _known_ends(self, index: Tensor) -> list[End]:
        return [
            End(number + EDGES, end)
            for number, ends in enumerate(self._ends)
            for end in (SOURCE, DESTINATION)
            if torch.equal(ends[end], index)
        ]


def index_in(index: Tensor, dim: int) -> Tensor:
    """Return the one-dimensional index that another one repeats in all dimensions but one; itself if it does not."""
    if index.dim() < 2:
        return index
    first = index.movedim(dim, 0).flatten(1)
    return first[:, 0] if first.shape[1] and bool((first == first[:, :1]).all()) else index


def only_index(entries: tuple[Any, ...]) -> tuple[int, Any]:
    """Return the only entry of an index that is no whole dimension, and its dimension; None if there are more."""
    others = [(place, one) for place, one in enumerate(entries) if not (isinstance(one, slice) and one == slice(None))]
    if others and isinstance(others[0][1], Tensor) and not any(isinstance(one, Tensor | list) for _, one in others[1:]):
        others = others[:1]  # of all columns, or some of them
    return others[0] if len(others) == 1 and others[0][1] is not Ellipsis else (0, None)
