"""What a data set must have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from random_tables.described import EdgeType, ends_of
from random_tables.tables import Numbers


@dataclass(eq=False)
class Nodes:
    """The nodes of one type.

    Parameters
    ----------
    order
        The ids of the nodes 0, 1, ...
    are_numbers
        Whether ids are the numbers of nodes.
    num_added
        How many no table of nodes has.
    """

    order: list[Any]
    are_numbers: bool = False
    num_added: int = 0
    numbers: dict[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = {key: number for number, key in enumerate(self.order)}

    def with_more(self, order: list[Any]) -> Nodes:
        return Nodes([*self.order, *order], self.are_numbers, len(order))


@dataclass(eq=False)
class Edges:
    """The edges of one type in the order of their ids, and the rows of those that a table has."""

    ends: list[tuple[int, int]]
    kept: list[int]


@dataclass(eq=False)
class ItemRows:
    """The items of one type."""

    ids: list[Any]
    labels: Numbers | None = None
    times: Numbers | None = None


@dataclass(eq=False)
class Answer:
    """A data set, whose types are keys of dictionaries in the order of ids.

    Parameters
    ----------
    features
        By "node" or "edge", type and name.
    classes
        The texts that labels number, by the name of the first file of a table and that of a column.
    """

    nodes: dict[str, Nodes] = field(default_factory=dict)
    edges: dict[EdgeType | None, Edges] = field(default_factory=dict)
    edge_attrs: dict[str, dict[EdgeType | None, Numbers]] = field(default_factory=dict)
    node_attrs: dict[str, dict[str, Numbers]] = field(default_factory=dict)
    features: dict[tuple[str, Any, str], Numbers] = field(default_factory=dict)
    items: dict[str, dict[Any, ItemRows]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    classes: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    time_unit: str | None = None
    warnings: list[str] = field(default_factory=list)

    def count(self, what: str, number: int) -> None:
        """Add to a count; what is 0 is not counted."""
        if number:
            self.counts[what] = self.counts.get(what, 0) + number


def in_csc_order(answer: Answer) -> list[int]:
    """Edge ids, counted over all types, by destination, type and id; `Graph.from_coo` documents that order."""
    first, start = {}, 0
    for name, nodes in answer.nodes.items():
        first[name] = start
        start += len(nodes.order)
    rows = []
    for number, (edge_type, edges) in enumerate(answer.edges.items()):
        start = first[ends_of(edge_type)[1]]
        rows += [(start + dst, number, place) for place, (_, dst) in enumerate(edges.ends)]
    return sorted(range(len(rows)), key=rows.__getitem__)
