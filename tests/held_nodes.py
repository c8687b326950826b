"""Which nodes the parts of a partition hold, counted slowly."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import headrace as hr


def edges_of(graph: hr.Graph) -> list[tuple[int, int]]:
    """Return (source, destination) of every edge."""
    destinations = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())
    return list(zip(graph.indices.tolist(), destinations.tolist(), strict=True))


def held_by_parts(graph: hr.Graph, owners: Sequence[int], num_columns: int) -> dict[int, set[int]]:
    """Return the nodes that each part has a copy of: its own, and the ends of its edges.

    An edge is in the part in the row of its source's owner and the column of its destination's owner. With as many
    columns as parts that is the part of the destination.
    """
    held: dict[int, set[int]] = {}
    for node, owner in enumerate(owners):
        held.setdefault(owner, set()).add(node)
    for source, destination in edges_of(graph):
        part = owners[source] // num_columns * num_columns + owners[destination] % num_columns
        held.setdefault(part, set()).update((source, destination))
    return held
