"""What a conversion has found and done, or would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from headrace.ops.text import printable
from headrace.pipeline.convert.attributes import joined_attributes
from headrace.pipeline.convert.checked import Checked, attributes_of
from headrace.pipeline.convert.costs import disk_needed, features_of, memory_needed
from headrace.pipeline.convert.description import EdgeTable, EdgeType, Items, NodeTable

#: Fields of tables of nodes, of edges and of items that name no columns.
_OTHER_FIELDS = ("name", "type", "table", "num_nodes", "external")

#: Columns without use that a text names; JSON has all.
_MOST_SHOWN = 12


@dataclass(frozen=True)
class Report:
    """Types, counts and costs of a conversion.

    Parameters
    ----------
    folder
        The data set.
    nodes, edges
        Numbers by type, in the order of ids; None where only reading tells.
    arrays
        By name, what the data set has, such as ``"float32[100, 16]"``.
    counts
        What was left out, added or filled in, by a text such as "edges of user buys item: loops left out".
    memory
        Bytes of memory that the conversion was given.
    disk
        Bytes of the data set; of a dry run an estimate of these and of files between passes, from numbers of rows, of
        which in CSV the sizes of files tell; None where unknown.
    passes
        What is done in turn.
    dry_run
        Whether nothing was written.
    removed
        Parts of a data set that was there before, which went with it.
    memory_needed
        Of a dry run, the least bytes of memory that suffice, as far as numbers of nodes are known.
    unused
        By table, the columns that nothing is made of.
    warnings
        What may have another meaning than was meant.
    """

    folder: Path
    nodes: Mapping[str, int | None]
    edges: Mapping[Any, int | None]
    arrays: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    memory: int = 0
    disk: int | None = None
    passes: tuple[str, ...] = ()
    dry_run: bool = False
    removed: tuple[str, ...] = ()
    memory_needed: int | None = None
    unused: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.folder} {'would be' if self.dry_run else 'is'} a data set of:"]
        lines += [f"  nodes of type {name}: {_number(count)}" for name, count in self.nodes.items()]
        lines += [
            f"  edges{'' if name is None else f' of type {type_text(name)}'}: {_number(count)}"
            for name, count in self.edges.items()
        ]
        lines += [f"  {name}: {kind}" for name, kind in self.arrays.items()]
        lines += [f"  {what}: {count:,}" for what, count in self.counts.items()]
        lines += [f"  columns of {name} that are not used: {_some(columns)}" for name, columns in self.unused.items()]
        lines += [f"  warning: {one}" for one in self.warnings]
        if self.dry_run:
            lines.append(f"  about {_number(self.disk)} bytes on the disk while it runs")
            lines.append(f"  at most {self.memory:,} bytes of memory, of which it needs {_number(self.memory_needed)}")
        else:
            lines.append(f"  {_number(self.disk)} bytes, at most {self.memory:,} bytes of memory")
        if self.removed:
            lines.append(f"  {removed_text(self.removed, would_be=self.dry_run)}")
        if self.dry_run:
            lines += ["  passes:", *(f"    {one}" for one in self.passes)]
        return printable("\n".join(lines))


def removed_text(parts: Sequence[str], *, would_be: bool = False) -> str:
    """Return the line about parts of a data set that was there before."""
    verb = "would be" if would_be else "is" if len(parts) == 1 else "are"
    return f"{', '.join(parts)} of the former data set {verb} removed; run headrace partition again"


def type_text(name: Any) -> str:
    """Return a type as a text."""
    return name if isinstance(name, str) else " ".join(name)


def edges_text(name: Any) -> str:
    """Return what reports call the edges of a type; of None those of a graph without types."""
    return "edges" if name is None else f"edges of {type_text(name)}"


def unused_columns(tables: Checked) -> dict[str, list[str]]:
    """Return by table the columns that nothing is made of; tables of one name are one."""
    owners: list[NodeTable | EdgeTable | Items] = [*tables.nodes.values(), *(one for _, one in tables.edge_tables())]
    found: dict[str, dict[str, None]] = {}
    used: dict[str, set[str]] = {}
    for owner in [*owners, *tables.items]:
        if owner.table is not None:
            found.setdefault(owner.table.name, {}).update(dict.fromkeys(owner.table.columns))
            used.setdefault(owner.table.name, set()).update(columns_of_owner(owner))
    left = {name: [one for one in columns if one not in used[name]] for name, columns in found.items()}
    return {name: columns for name, columns in left.items() if columns}


def columns_of_owner(owner: NodeTable | EdgeTable | Items) -> Iterator[str]:
    """Yield the columns that a table is described with: alone, in lists or by name."""
    for one in fields(owner):
        if one.name not in _OTHER_FIELDS:
            value = getattr(owner, one.name)
            for names in value.values() if isinstance(value, Mapping) else [value or ()]:
                yield from [names] if isinstance(names, str) else names


def _some(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - _MOST_SHOWN} more" if len(columns) > _MOST_SHOWN else ""
    return ", ".join(columns[:_MOST_SHOWN]) + more


def _number(count: int | None) -> str:
    return "an unknown number" if count is None else f"{count:,}"


def planned(tables: Checked, target: Path, memory: int) -> Report:
    """Return the report of a dry run: numbers are None where only reading tells."""
    nodes = {name: _num_nodes(tables, node) for name, node in tables.nodes.items()}
    edges = {name: _num_edges(tables, name) for name in tables.edges}
    attributes = joined_attributes(
        [(one.table, attributes_of(one)) for _, one in tables.edge_tables()],
        nulls_are_earliest=tables.options.null_times == "earliest",
        what="edge",
    )
    arrays = {f"edge attribute {name}": str(one.dtype) for name, one in attributes.items()}
    owners: list[tuple[str, NodeTable | EdgeTable]] = [("node", node) for node in tables.nodes.values()]
    owners += [("edge", edge) for _, edge in tables.edge_tables()]
    for what, owner in owners:
        for name, dtype, shape in features_of(owner):
            kind = f"{dtype}[{', '.join(map(str, ('n', *shape)))}]"
            arrays[f"{what} feature {name} of {_type_of(owner)}"] = kind
    about = {name: _about_nodes(node) for name, node in tables.nodes.items()}
    rows = [one.table.about_rows() for one in tables.edge_reads()]
    num_edges = None if None in rows else sum(one or 0 for one in rows)
    disk, needed = disk_needed(tables, about, num_edges, attributes), memory_needed()
    passes = [f"find the ids of {name}" for name, node in tables.nodes.items() if node.id is not None or node.external]
    passes += [f"read {one.table.name}" for one in tables.edge_reads()]
    passes += [f"read items {one.name}" for one in tables.items]
    passes += ["write arrays"]
    return Report(
        target,
        nodes,
        edges,
        arrays,
        {},
        memory,
        disk,
        tuple(passes),
        dry_run=True,
        memory_needed=needed,
        unused=unused_columns(tables),
    )


def _num_edges(tables: Checked, name: EdgeType | None) -> int | None:
    """Return how many edges of a type there will be; None where only reading tells."""
    options = tables.options
    rows = [one.table.num_rows for one in tables.edges[name]]
    may_go = options.unknown_ids == "drop" or options.null_times == "drop" or options.duplicate_edges != "keep"
    is_part = any(one.relation is not None for one in tables.edges[name])
    if None in rows or may_go or is_part or options.undirected or options.loops != "keep":
        return None
    return sum(one or 0 for one in rows) * (2 if options.reverse and name is None else 1)


def _num_nodes(tables: Checked, node: NodeTable) -> int | None:
    if tables.options.unknown_ids == "create" or tables.options.duplicate_ids == "drop":
        return None
    return node.num_nodes if node.table is None else node.table.num_rows


def _about_nodes(node: NodeTable) -> int | None:
    return node.num_nodes if node.table is None else node.table.about_rows()


def _type_of(owner: Any) -> str:
    return "the graph" if owner.type is None else type_text(owner.type)
