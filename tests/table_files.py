"""Tables in Parquet, and the TOML that describes them: what `hr.convert` is given, written from arrays."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr

EdgeType = tuple[str, str, str]
Columns = str | Sequence[str]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name: numbers [n] or [n, k], masked where null, or texts and None as objects."""

    name: str
    columns: Mapping[str, Any]

    @property
    def num_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def rows(self) -> dict[str, list[Any]]:
        """All rows by column, null as None."""
        return {name: one.tolist() if one.ndim == 1 else list(one) for name, one in self.columns.items()}


@dataclass(frozen=True, eq=False)
class NodeTable:
    """A section of [nodes], with its fields."""

    type: str = "node"
    table: Table | None = None
    id: str | None = None
    num_nodes: int | None = None
    external: bool = False
    features: Mapping[str, Columns] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    time: str | None = None
    splits: Mapping[str, str] | str | None = None


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """A section of [edges]; tables of one type are files of one section."""

    table: Table
    type: EdgeType | None = None
    src: str = "src"
    dst: str = "dst"
    attributes: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, Columns] = field(default_factory=dict)
    weight: str | None = None
    time: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    split: str | None = None


@dataclass(frozen=True, eq=False)
class Items:
    """A section of [items]."""

    name: str
    table: Table
    ids: Columns = "id"
    type: str | EdgeType | None = None
    labels: str | None = None
    time: str | None = None


@dataclass(frozen=True)
class Options:
    """The fields of [options]."""

    unknown_ids: Any = "refuse"
    duplicate_ids: Any = "refuse"
    duplicate_edges: Any = "keep"
    loops: Any = "keep"
    undirected: Any = False
    reverse: Any = False
    null_times: Any = "refuse"
    time_unit: Any = None


@dataclass(frozen=True, eq=False)
class Description:
    """All sections."""

    edges: Sequence[EdgeTable]
    nodes: Sequence[NodeTable] = ()
    items: Sequence[Items] = ()
    options: Options = field(default_factory=Options)


def write_parquet(path: Path, columns: Mapping[str, Any]) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def column(values: Any) -> Any:
        if isinstance(values, pa.Array):
            return values
        if values.ndim == 2:
            flat = pa.array(np.ascontiguousarray(values).reshape(-1))
            return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        if values.dtype.kind in "OU":
            return pa.array(values.tolist(), pa.string())
        return pa.array(np.ma.getdata(values), mask=np.ma.getmaskarray(values))

    parquet.write_table(pa.table({name: column(values) for name, values in columns.items()}), path)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(name)} = {_toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _name_of(kind: object) -> str:
    return ",".join(kind) if isinstance(kind, tuple) else str(kind)


def _fields(one: object, **more: object) -> dict[str, Any]:
    """The fields that a user would write."""
    defaults = {each.name: each.default for each in dataclasses.fields(one)}
    fields = {name: getattr(one, name) for name in defaults if name not in ("name", "type", "table")}
    fields = {name: value for name, value in fields.items() if value != defaults[name] and value not in ({}, None)}
    if isinstance(fields.get("splits"), str):
        fields["split"] = fields.pop("splits")
    return {**more, **fields}


def write(description: Description, folder: Path) -> Path:
    """Write the tables and a description of them; return where the latter is."""
    folder.mkdir(parents=True, exist_ok=True)

    def file(table: Table) -> str:
        write_parquet(folder / f"{table.name}.parquet", table.columns)
        return f"{table.name}.parquet"

    sections: dict[str, dict[str, Any]] = {}
    for edge in description.edges:
        name = "edges" if edge.type is None else f"edges.{json.dumps(_name_of(edge.type))}"
        files = [*sections.get(name, {}).get("files", []), file(edge.table)]
        sections[name] = _fields(edge, files=files)
    for node in description.nodes:
        fields = _fields(node, **({"files": file(node.table)} if node.table is not None else {}))
        sections["nodes" if node.type == "node" else f"nodes.{json.dumps(node.type)}"] = fields
    if description.nodes:  # then all types are named
        ends = {end for edge in description.edges if edge.type is not None for end in (edge.type[0], edge.type[2])}
        for end in sorted(ends):
            sections.setdefault(f"nodes.{json.dumps(end)}", {})
    for items in description.items:
        kind = {} if items.type is None else {"type": _name_of(items.type)}
        sections[f"items.{json.dumps(items.name)}"] = _fields(items, files=file(items.table), **kind)
    sections["options"] = _fields(description.options)
    return write_toml(folder / "tables.toml", sections)


def write_toml(path: Path, sections: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write sections by name, such as "nodes.user", with their fields."""
    text = ""
    for name, fields in sections.items():
        text += f"[{name}]\n" + "".join(f"{one} = {_toml(value)}\n" for one, value in fields.items())
    path.write_text(text)
    return path


def converted(description: Description, folder: Path, out: str = "data", **options: Any) -> hr.Dataset:
    """The data set `out` in the folder, of tables in its folder "tables"."""
    source = write(description, folder / "tables")
    data = hr.convert(source, folder / out, **{"progress": False, "overwrite": True, **options})
    data.verify()
    return data
