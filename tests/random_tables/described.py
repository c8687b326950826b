"""A description as TOML has it, and the columns of tables that its fields name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from random_tables.tables import Column, Table

EdgeType = tuple[str, str, str]

SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
POLICIES = {"unknown_ids": "refuse", "duplicate_edges": "keep", "loops": "keep", "null_times": "refuse"}


class Described:
    """The sections by name, with their tables.

    Parameters
    ----------
    description
        "nodes", "edges", "items" and "options", each of the first three by name. The name of edges is "" in a graph
        without types.
    tables
        By the section that reads them, "nodes.user".
    """

    def __init__(self, description: Mapping[str, Any], tables: Mapping[str, Table]) -> None:
        self.tables = tables
        self.options: dict[str, Any] = {**POLICIES, **description["options"]}
        self.nodes: dict[str, Mapping[str, Any]] = dict(description["nodes"])
        self.items: Mapping[str, Mapping[str, Any]] = description["items"]
        self.edges: dict[EdgeType | None, Mapping[str, Any]] = {}
        for name, fields in description["edges"].items():
            edge_type = tuple(name.split(",")) if name else None
            self.edges[edge_type] = fields
            for end in ends_of(edge_type):
                self.nodes.setdefault(end, {})

    def column(self, section: str, name: str) -> tuple[Column, Table]:
        table = self.tables[section]
        return table.columns[name], table

    def columns_that_name(self, node_type: str) -> Iterator[tuple[str, str, str]]:
        """The columns with ids of a type of nodes: section, role and name."""
        for edge_type, fields in self.edges.items():
            for role, end in zip(("src", "dst"), ends_of(edge_type), strict=True):
                if end == node_type:
                    yield edge_section(edge_type), role, fields.get(role, role)
        for name, fields in self.items.items():
            for role, end, column in item_columns(fields):
                if end == node_type:
                    yield f"items.{name}", role, column

    def time_columns(self) -> Iterator[tuple[str, str, str]]:
        """The columns of times: "nodes", "edges" or "items", section and name."""
        for name, fields in self.nodes.items():
            if "time" in fields:
                yield "nodes", f"nodes.{name}", fields["time"]
        for edge_type, fields in self.edges.items():
            if "time" in fields:
                yield "edges", edge_section(edge_type), fields["time"]
        for name, fields in self.items.items():
            if "time" in fields:
                yield "items", f"items.{name}", fields["time"]


def ends_of(edge_type: EdgeType | None) -> tuple[str, str]:
    return ("node", "node") if edge_type is None else (edge_type[0], edge_type[2])


def edge_section(edge_type: EdgeType | None) -> str:
    return f"edges.{','.join(edge_type or ())}"


def edges_in_words(edge_type: EdgeType | None) -> str:
    """As counts name edges."""
    return "edges" if edge_type is None else f"edges of {' '.join(edge_type)}"


def item_type(fields: Mapping[str, Any]) -> Any:
    """The type that items of a table are of: of nodes, of edges, or None for pairs in a graph without types."""
    of_type = fields.get("type")
    if of_type is None:
        return "node" if isinstance(fields.get("ids", "id"), str) else None
    return tuple(of_type.split(",")) if "," in of_type else of_type


def item_columns(fields: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Of each column of ids its role, its type of nodes and its name."""
    ids, of_type = fields.get("ids", "id"), item_type(fields)
    if isinstance(ids, str):
        return [("id", of_type, ids)]
    return [*zip(("src", "dst"), ends_of(of_type), ids, strict=True)]


def by_name(given: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Columns by the name of what they become."""
    if isinstance(given, str):
        given = [given]
    return dict(given) if isinstance(given, Mapping) else {one: one for one in given}


def features_of(columns: Sequence[str], given: Any) -> dict[str, str | list[str]]:
    """Features by name: of one column, or of several side by side, in the order of the numbers in their names."""

    def matching(pattern: str) -> list[str]:
        return sorted(fnmatch.filter(columns, pattern), key=_natural_key) if "*" in pattern else [pattern]

    if isinstance(given, Mapping):
        found: dict[str, str | list[str]] = {}
        for name, some in given.items():
            names = [one for part in ([some] if isinstance(some, str) else some) for one in matching(part)]
            found[name] = names[0] if isinstance(some, str) and len(names) == 1 else names
        return found
    return {
        one.replace("*", "").strip("_ ") or "x": matching(one) if "*" in one else one
        for one in ([given] if isinstance(given, str) else given)
    }


def _natural_key(name: str) -> list[Any]:
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", name)]
