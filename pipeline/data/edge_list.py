"""Lists of edges that graphs are built from, and the attributes that come with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.pipeline.data.build_graph import joined_ends
from headrace.pipeline.data.type_attributes import Wanted, join_attributes, rows_in
from headrace.pipeline.data.type_offsets import TypeOffsets


@dataclass(eq=False)
class EdgeList:
    """A graph as a list of edges in input order, in one id space.

    Parameters
    ----------
    src, dst: int[num_edges]
        Messages go from ``src[i]`` to ``dst[i]``.
    edge_attrs
        Tensors of num_edges rows, in input order.
    node_attrs
        Tensors of num_nodes rows.
    """

    src: Tensor
    dst: Tensor
    num_nodes: int
    edge_attrs: Mapping[str, Tensor] = field(default_factory=dict)
    node_types: TypeOffsets | None = None
    edge_types: TypeOffsets | None = None
    node_attrs: Mapping[str, Tensor] = field(default_factory=dict)

    def take_ends(self) -> tuple[Tensor, Tensor]:
        """Return sources and destinations, and keep them no longer."""
        ends = self.src, self.dst
        self.src = self.dst = torch.empty(0, dtype=torch.int64, device="cpu")
        return ends


@dataclass(frozen=True)
class Relation:
    """One edge type with ids that count from 0 within their node types."""

    name: tuple[str, str, str]
    src: Tensor
    dst: Tensor
    edge_attrs: Mapping[str, Any]


def join_relations(
    node_counts: Mapping[str, int], relations: Sequence[Relation], edge_attrs: Wanted, stage: str
) -> EdgeList:
    """Put node types and edge types one after the other into one id space each."""
    node_types = TypeOffsets.from_counts(node_counts)
    src, dst = joined_ends(
        (
            relation.src,
            relation.dst,
            node_types.id_range(relation.name[0]).start,
            node_types.id_range(relation.name[2]).start,
        )
        for relation in relations
    )
    return EdgeList(
        src=src,
        dst=dst,
        num_nodes=node_types.num_ids,
        edge_attrs=join_attributes(
            {relation.name: selected(relation.edge_attrs, None, relation.src.numel(), stage) for relation in relations},
            [relation.src.numel() for relation in relations],
            edge_attrs,
            "edge",
            stage,
        ),
        node_types=node_types,
        edge_types=TypeOffsets.from_counts({relation.name: relation.src.numel() for relation in relations}),
    )


def selected(available: Mapping[str, Any], wanted: Wanted, num_edges: int, stage: str) -> dict[str, Any]:
    """Return the wanted attributes (None: all that are numbers)."""
    if wanted is None:
        taken = {name: rows_in(value, num_edges) for name, value in available.items()}
        return {name: value for name, value in taken.items() if value is not None}
    missing = [name for name in wanted if name not in available]
    if missing:
        raise GraphError(f"{stage}: there are no edge attributes {missing}; those that exist are {sorted(available)}")
    return {name: available[name] for name in wanted}


def attributes_of_nodes(
    names: Sequence[Any], of_types: Sequence[Any], counts: Sequence[int], wanted: Wanted, stage: str
) -> dict[str, Tensor]:
    """Return node attributes of all types; by default times, where some type has them.

    Raises
    ------
    GraphError
        If an attribute that is asked for has not one row for each node of a type that has it, and as `join_attributes`.
    """
    found: dict[Any, dict[str, Tensor]] = {name: {} for name in names}
    for name in ["time"] if wanted is None else wanted:
        there = [storage[name] if name in storage else None for storage in of_types]  # noqa: SIM401 - no dictionaries
        rows = [None if part is None else rows_in(part, count) for part, count in zip(there, counts, strict=True)]
        fitting = sum(part is not None for part in rows)
        odd = [names[i] for i, part in enumerate(rows) if part is None and there[i] is not None]
        if not fitting and wanted is None:
            continue
        if odd or not fitting:
            raise GraphError(
                f"{stage}: expected node attribute {name!r} with a row for each node, of every type that has it, got "
                f"it of {fitting} of {len(rows)}{f' and not of {odd}' if odd else ''}; add it there, or leave it "
                "out of node_attrs="
            )
        for one, part in zip(found.values(), rows, strict=True):
            if part is not None:
                one[name] = part
    return join_attributes(found, counts, wanted, "node", stage)
