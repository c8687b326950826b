"""Graphs that ``dgl.distributed.partition_graph`` has cut: its JSON file, and the graphs and features beside it.

Nodes and edges have the ids that DGL gave them, in which those of a part follow each other; of types within the type.
Of all nodes the feature "part" is the number of their part, by which ``headrace partition --owners part`` cuts the data
set once more as DGL did. What all edges have as one number is an attribute, too. What is named ``train_mask`` becomes
the items "train". The whole graph is held in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.pipeline.convert.description import (
    Columns,
    Description,
    EdgeTable,
    EdgeType,
    Items,
    NodeTable,
    split_name,
)
from headrace.pipeline.convert.formats.dgl_files import StoredGraph, read_arrays, read_graph
from headrace.pipeline.convert.formats.fields import Fields
from headrace.pipeline.convert.formats.source_files import refuse_outside
from headrace.pipeline.convert.table import ArrayTable

#: DGL's names of the types of a graph without types.
_NODES, _EDGES = "_N", "_N:_E:_N"

#: The feature that has the number of each node's part.
PART = "part"

_MASK = "_mask"


def is_dgl_partition(fields: Mapping[str, Any]) -> bool:
    """Whether the JSON of a file is that of a graph that DGL has cut."""
    return "node_map" in fields and "part-0" in fields


def read_dgl_parts(fields: Mapping[str, Any], path: Path) -> Description:
    """Return the description of a graph that DGL has cut.

    Parameters
    ----------
    fields
        What the JSON file holds.
    path
        The file; graphs and features are below its folder.

    Raises
    ------
    InputError
        If a field is missing or of another kind, a file is missing, damaged or elsewhere, or parts do not fit.
    """
    parts = _Parts(Fields(fields, str(path)), path)
    untyped = list(parts.nodes) == [_NODES]
    names: dict[str, EdgeType | None] = {one: None if untyped else _edge_type(one, path) for one in parts.edges}
    ends = parts.ends()  # first, as it sees whether there are as many nodes and edges
    of_edges = {name: parts.features("edge_feats", name, ranges) for name, ranges in parts.edges.items()}
    shared = set.intersection(*({one for one in rows if rows[one].ndim == 1} for rows in of_edges.values()))
    edges = []
    for name, (src, dst) in ends.items():
        rows = of_edges[name]
        table = ArrayTable(f"{path.name}, edges {name}", {"src": src, "dst": dst, **_columns(rows)})
        flat = {one: f"feature {one}" for one in rows if one in shared}
        features: dict[str, Columns] = {one: f"feature {one}" for one in rows}
        edges.append(EdgeTable(table, names[name], attributes=flat, features=features))
    nodes, items = [], []
    for name, sizes in parts.nodes.items():
        of_type = "node" if untyped else name
        of_nodes = parts.features("node_feats", name, sizes)
        if PART in of_nodes:
            raise InputError(
                f"convert: {path}: expected no feature of nodes called {PART!r}, as each one's part is called; give it "
                "another name before the graph is cut"
            )
        rows = {PART: np.repeat(np.arange(len(sizes)), [last - first for first, last in sizes]), **of_nodes}
        for one in [one for one in rows if one.endswith(_MASK) and rows[one].ndim == 1]:
            ids = np.flatnonzero(rows.pop(one))
            item_table = ArrayTable(f"{path.name}, {one} of {name}", {"ids": ids})
            items.append(Items(split_name(one.removesuffix(_MASK)), item_table, "ids", None if untyped else name))
        table = ArrayTable(f"{path.name}, nodes {name}", _columns(rows))
        nodes.append(NodeTable(of_type, table, None, None, False, {one: f"feature {one}" for one in rows}))
    notes = {"parts of DGL": {"num_parts": parts.num_parts, "method": str(fields.get("part_method"))}}
    return Description(edges, nodes, items, notes=notes)


def _columns(rows: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"feature {name}": values for name, values in rows.items()}


Ranges = list[tuple[int, int]]


class _Parts:
    """The parts that a JSON file names.

    Attributes
    ----------
    nodes, edges
        By DGL's name of a type, the first id of each part and the one behind its last, among those of all types.
    """

    def __init__(self, fields: Fields, path: Path) -> None:
        self._fields, self._path = fields, path
        self._read: dict[Path, dict[str, NDArray[Any]]] = {}
        self.num_parts = fields.take("num_parts", int)
        self.nodes, self.edges = self._ranges("node_map", "num_nodes"), self._ranges("edge_map", "num_edges")

    def _ranges(self, name: str, total: str) -> dict[str, Ranges]:
        found = {}
        for of_type, ranges in self._fields.take(name, dict).items():
            fits = isinstance(ranges, list) and len(ranges) == self.num_parts
            if not fits or not all(isinstance(one, list) and [*map(type, one)] == [int, int] for one in ranges):
                raise self._odd(
                    f"{name} of {of_type!r} to be [first, behind the last] of each of {self.num_parts} parts"
                )
            found[of_type] = [(first, last) for first, last in ranges]
        pieces = sorted(one for ranges in found.values() for one in ranges)
        firsts, ends = ([one[place] for one in pieces] for place in (0, 1))
        count = self._fields.take(total, int)
        if firsts != [0, *ends[:-1]] or ends != sorted(ends) or ends[-1:] != [count]:
            raise self._odd(f"{name} to be all ids below {total}, each once")
        return found

    def ends(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return sources and destinations of the edges of each type by their ids, as ids within the types."""
        num_nodes, num_edges = self._fields.take("num_nodes", int), self._fields.take("num_edges", int)
        graphs = [read_graph(self._file(part, "part_graph")) for part in range(self.num_parts)]
        present = sum(len(one.src) for one in graphs), sum(len(one.nodes.get("_ID", ())) for one in graphs)
        if present[0] < num_edges or present[1] < num_nodes:  # before there is memory for so many
            raise self._odd(f"{num_edges} edges and {num_nodes} nodes in its parts, got {present[0]} and {present[1]}")
        src, dst = (np.full(num_edges, -1) for _ in range(2))
        for part, graph in enumerate(graphs):
            nodes, edges = self._column(graph.nodes, part, num_nodes), self._column(graph.edges, part, num_edges)
            if edges.shape != graph.src.shape:
                raise self._odd(f"ids, _ID, of each edge of part {part}")
            if len(edges) and not 0 <= min(graph.src.min(), graph.dst.min()) <= max(_max(graph), 0) < len(nodes):
                raise self._odd(f"ends of edges of part {part} among its {len(nodes)} nodes")
            # Those between nodes of other parts are here as well, as they are there.
            src[edges], dst[edges] = nodes[graph.src], nodes[graph.dst]
        missing = np.flatnonzero(src < 0)
        if len(missing):
            raise self._odd(f"each edge to be in a part, but edge {missing[0]} is in none")
        within, of_type = np.empty(num_nodes, np.int64), np.empty(num_nodes, np.int64)
        for number, ranges in enumerate(self.nodes.values()):
            ids = np.concatenate([np.arange(*one) for one in ranges])
            within[ids], of_type[ids] = np.arange(len(ids)), number
        numbers = {name: number for number, name in enumerate(self.nodes)}
        found = {}
        for name, ranges in self.edges.items():
            places = np.concatenate([np.arange(*one) for one in ranges])
            ends = src[places], dst[places]
            for end, at in zip(ends, (name.split(":")[0], name.split(":")[-1]), strict=True):
                if (of_type[end] != numbers.get(at, -1)).any():
                    raise self._odd(f"edges {name} between nodes of {at!r}, got some of another type")
            found[name] = (within[ends[0]], within[ends[1]])
        return found

    def features(self, field: str, of_type: str, ranges: Ranges) -> dict[str, NDArray[Any]]:
        """Return the features of a type by name, rows by ids."""
        found: dict[str, list[NDArray[Any]]] = {}
        for part, (first, last) in enumerate(ranges):
            file = self._file(part, field)
            if file not in self._read:
                self._read[file] = read_arrays(file)
            for name, rows in self._read[file].items():
                owner, _, own = name.rpartition("/")
                if owner == of_type:
                    if rows.shape[:1] != (last - first,):
                        raise self._odd(f"{last - first} rows of {name} in part {part}, got {list(rows.shape)}")
                    found.setdefault(own, []).append(rows)
        for name, pieces in found.items():
            kinds = {(one.dtype, one.shape[1:]) for one in pieces}
            if len(pieces) != self.num_parts or len(kinds) > 1:
                raise self._odd(f"{name!r} of {of_type} alike in all {self.num_parts} parts")
        return {name: np.concatenate(pieces) for name, pieces in found.items()}

    def _column(self, arrays: Mapping[str, NDArray[Any]], part: int, count: int) -> NDArray[Any]:
        ids = arrays.get("_ID")
        if ids is None or ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise self._odd(f"ids, _ID, of nodes and edges of part {part}")
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < count:
            raise self._odd(f"ids of part {part} below {count}, got {int(ids.max())}")
        return ids

    def _file(self, part: int, field: str) -> Path:
        files = Fields(self._fields.take(f"part-{part}", dict), f"{self._path}, part-{part}")
        folder = self._path.parent
        file = folder / files.take(field, str)
        refuse_outside(file, folder)
        return file

    def _odd(self, expected: str) -> InputError:
        return InputError(f"convert: {self._path}: expected {expected}; copy all files of one partition once more")


def _max(graph: StoredGraph) -> int:
    return int(max(graph.src.max(), graph.dst.max()))


def _edge_type(name: str, path: Path) -> EdgeType:
    parts = name.split(":")
    if len(parts) != 3 or not all(parts):
        raise InputError(
            f"convert: {path}: expected edge types such as user:buys:item, got {name!r}, as DGL wrote them before 1.0; "
            "partition the graph once more"
        )
    return parts[0], parts[1], parts[2]
