"""Nodes of several types in one list: which are of which type, and what they are called within it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.pipeline.data.type_offsets import TypeName, TypeOffsets


@dataclass(frozen=True, eq=False, repr=False)
class TypedIds:
    """Ids of nodes in the id space of all types, with the types of a graph.

    Nodes of a type are numbered in the order in which they stand here: so ids that come first have the same numbers
    in every longer list.

    Parameters
    ----------
    node_types, edge_types
        Of the graph.
    ids: int64[num_ids]
        Such as ``batch.n_id``.
    """

    node_types: TypeOffsets
    edge_types: TypeOffsets
    ids: Tensor

    @cached_property
    def types(self) -> Tensor:
        """The place of each id's type among the names, int64[num_ids]."""
        return self.node_types.numbers_of(self.ids)

    @cached_property
    def _order(self) -> tuple[Tensor, tuple[int, ...]]:
        """The places of ids, those of the first type first, and the number of each type."""
        counts = torch.bincount(self.types, minlength=self.node_types.num_types).tolist()
        return self.types.to(torch.int16).argsort(stable=True), tuple(counts)

    @cached_property
    def numbers(self) -> Tensor:
        """Number of each id among those of its type, int64[num_ids]."""
        order, counts = self._order
        numbers = torch.empty_like(self.ids)
        start = 0
        for count in counts:
            numbers[order[start : start + count]] = torch.arange(count, device=self.ids.device)
            start += count
        return numbers

    def places(self, name: TypeName) -> Tensor:
        """Return the places of the ids of a type, int64[n], ascending.

        Raises
        ------
        GraphError
            If there is no such type.
        """
        number = type_number(self.node_types, name)
        order, counts = self._order
        start = sum(counts[:number])
        return order[start : start + counts[number]]

    def count(self, name: TypeName) -> int:
        """Return how many ids are of a type."""
        return self._order[1][type_number(self.node_types, name)]

    def within(self, name: TypeName) -> Tensor:
        """Return the ids of a type as they count within it, int64[n]."""
        return self.ids[self.places(name)] - self.node_types.id_range(name).start

    def first(self, number: int) -> TypedIds:
        """Return the first ids alone."""
        return self if number == len(self.ids) else self.of(self.ids[:number])

    def of(self, ids: Tensor) -> TypedIds:
        """Return other ids with these types."""
        return TypedIds(self.node_types, self.edge_types, ids)

    def map(self, of_tensor: Callable[[Tensor], Tensor]) -> TypedIds:
        """Return the same with a function applied to the ids."""
        return self.of(of_tensor(self.ids))

    def __reduce__(self) -> tuple[type[TypedIds], tuple[TypeOffsets, TypeOffsets, Tensor]]:
        return TypedIds, (self.node_types, self.edge_types, self.ids)

    def __repr__(self) -> str:
        counts = zip(self.node_types.names, self._order[1], strict=True)
        return "TypedIds(" + ", ".join(f"{name!r}: {count}" for name, count in counts) + ")"


def count_by_hop(numbers: Tensor, num_types: int, sizes: Sequence[int]) -> list[list[int]]:
    """Return how many of each type each hop brought, where those of hops follow each other.

    Parameters
    ----------
    numbers: int64[n]
        The place of each one's type among the names.
    num_types
        Types.
    sizes
        How many each hop brought.
    """
    of_hops = torch.tensor(sizes, dtype=torch.int64, device=numbers.device)
    hops = torch.repeat_interleave(of_hops, output_size=len(numbers))
    counts = torch.bincount(numbers * len(sizes) + hops, minlength=num_types * len(sizes))
    listed: list[list[int]] = counts.view(num_types, len(sizes)).tolist()
    return listed


def type_number(types: TypeOffsets, name: TypeName) -> int:
    """Return the place of a type among the names; of an edge type its relation alone will do, where one has it.

    Raises
    ------
    GraphError
        If there is no such type, or several have the relation.
    """
    names = types.names
    if name in names:
        return names.index(name)
    alike = [place for place, known in enumerate(names) if isinstance(known, tuple) and known[1] == name]
    if len(alike) == 1:
        return alike[0]
    problem = f"several types are called {name!r}" if alike else f"there is no type {name!r}"
    raise GraphError(f"{problem}; the types are {list(names)}")


def type_size(types: TypeOffsets, name: TypeName) -> int:
    """Return how many ids a type has.

    Raises
    ------
    GraphError
        As `type_number`.
    """
    number = type_number(types, name)
    return int(types.offsets[number + 1] - types.offsets[number])
