"""Arrays by their names: an ``.npz`` file or a folder of ``.npy`` files, as of ``headrace partition``.

The graph is ``edge_index`` [2, n], or ``src`` and ``dst``, or ``indptr`` and ``indices``. Arrays of num_nodes rows are
features of nodes, but ``*_mask`` are items, ``y`` labels and ``time`` times; arrays of num_edges rows are attributes of
edges, or features where rows are vectors. Where there are as many nodes as edges, names tell: ``weight`` and ``edge*``
are of edges, ``x``, ``y``, ``pos``, masks and ``node*`` of nodes, and others are refused.

The number of nodes is that of ``num_nodes``, else of rows of ``x`` or ``y``. ``edge_ids`` is refused, as rows number
edges here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.pipeline.convert.description import Columns, Description, EdgeTable, NodeTable, split_name
from headrace.pipeline.convert.formats.ogb_binary import PairsInArchive, heads_of
from headrace.pipeline.convert.formats.source_files import array_table, inside
from headrace.pipeline.convert.formats.views import Beside, Slices
from headrace.pipeline.convert.npy_table import NpzTable
from headrace.pipeline.convert.table import Column, Stamp, Table
from headrace.pipeline.storage.array_file import open_array
from headrace.pipeline.storage.graph_files import EDGE_IDS

_MASK = "_mask"
_MASKS = (np.dtype(bool), np.dtype(np.uint8), np.dtype(np.int8))

#: What arrays are of where there are as many nodes as edges.
_OF_EDGES = re.compile("edge|weight$")
_OF_NODES = re.compile(f"node|(x|y|pos)$|.*{_MASK}$")

_GRAPH = ("edge_index", "src", "dst", "indptr", "indices", "num_nodes")


def read_arrays(path: Path) -> Description:
    """Return the description of arrays.

    Raises
    ------
    InputError
        If there is no graph, an array is malformed, or has neither the rows of nodes nor those of edges.
    """
    arrays = _Folder(path) if path.is_dir() else _Archive(path)
    shapes = arrays.shapes
    graphs = [names for names in (("edge_index",), ("src", "dst"), ("indptr", "indices")) if set(names) <= set(shapes)]
    if len(graphs) != 1:
        raise InputError(
            f"convert: {path}: expected a graph as edge_index, or src and dst, or indptr and indices, and one of them, "
            f"got {sorted(shapes)}"
        )
    if EDGE_IDS in shapes:
        raise InputError(
            f"convert: {path}: expected edges that are numbered by their rows, got {EDGE_IDS}, which gives them other "
            f"numbers; put arrays of edges into the order of rows (array[{EDGE_IDS}]), and move {EDGE_IDS} away"
        )
    if graphs[0] == ("edge_index",):
        ends = arrays.pairs("edge_index")
    elif graphs[0] == ("src", "dst"):
        ends = arrays.table(["src", "dst"])
    else:
        indptr = _whole(arrays.table(["indptr"]), "indptr")
        ends = _FromCsc(arrays.table(["indices"]), indptr)
    count = _num_nodes(arrays, shapes)
    of_nodes: list[str] = []
    of_edges: list[str] = []
    for name in sorted(set(shapes) - set(_GRAPH)):
        rows = shapes[name][:1]
        fits = [of for of, number in ((of_nodes, count), (of_edges, ends.num_rows)) if rows == (number,)]
        if not fits:
            raise InputError(
                f"convert: {path}: expected {name!r} to have a row for each of {count} nodes or {ends.num_rows} edges, "
                f"got {list(shapes[name])}; add num_nodes, or move the array away"
            )
        if len(fits) > 1:
            fits = [of for of, own in ((of_nodes, _OF_NODES), (of_edges, _OF_EDGES)) if own.match(name)]
        if len(fits) != 1:
            raise InputError(
                f"convert: {path}: expected {name!r} to be of nodes or of edges, got {rows[0]} rows, as many as there "
                f"are of either; call it edge_{name} or node_{name}, or describe the arrays in TOML"
            )
        fits[0].append(name)
    edges = Beside([ends, arrays.table(of_edges)]) if of_edges else ends
    flat = {name: name for name in of_edges if len(shapes[name]) == 1}
    wide: dict[str, Columns] = {name: name for name in of_edges if name not in flat}
    return Description([EdgeTable(edges, attributes=flat, features=wide)], [_nodes(arrays, of_nodes, count)])


def _nodes(arrays: _Folder | _Archive, names: Sequence[str], count: int | None) -> NodeTable:
    if not names:
        return NodeTable(num_nodes=count)
    table = arrays.table(names)
    masks = [name for name in names if _is_mask(name, table.column(name))]
    splits = {name.removesuffix(_MASK): name for name in masks if not table.column(name).shape}
    places: dict[str, tuple[str, int]] = {}
    for name in masks:
        width = sum(table.column(name).shape)
        for place in range(width):
            split = name.removesuffix(_MASK)
            column = f"{name} {place}"
            splits[split if width == 1 else f"{split_name(split)}_{place}"] = column
            places[column] = (name, place)
    flat = [name for name in names if not table.column(name).shape]
    labels = {"y": "y"} if "y" in flat else {}
    time = next((name for name in ("time", "node_time") if name in flat), None)
    apart = {*masks, *labels, time}
    features: dict[str, Columns] = {name: name for name in names if name not in apart}
    table = Slices(table, places) if places else table
    return NodeTable("node", table, None, count, False, features, labels, time, splits or None)


def _is_mask(name: str, column: Column) -> bool:
    """Return whether an array is of splits of nodes: of one, or of several beside each other."""
    return name.endswith(_MASK) and column.dtype in _MASKS and len(column.shape) < 2


def _num_nodes(arrays: _Folder | _Archive, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
    if "num_nodes" in shapes:
        return arrays.number("num_nodes")
    if "indptr" in shapes:
        return shapes["indptr"][0] - 1
    return next((shapes[name][0] for name in ("x", "y") if shapes.get(name)), None)


class _Folder:
    """Arrays in ``.npy`` files."""

    def __init__(self, path: Path) -> None:
        self._files = {one.stem: inside(path, one.name) for one in sorted(path.glob("*.npy"))}
        self.shapes = {
            name: open_array(file, memory_map=True, is_ours=False).shape for name, (file,) in self._files.items()
        }

    def table(self, names: Sequence[str]) -> Table:
        return array_table({name: self._files[name] for name in names})

    def pairs(self, name: str) -> Table:
        return array_table({"src": (self._files[name], 0), "dst": (self._files[name], 1)})

    def number(self, name: str) -> int:
        return _one(open_array(self._files[name][0], memory_map=True, is_ours=False), name)


class _Archive:
    """Arrays in an ``.npz`` file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.shapes = {name: shape for name, (shape, _) in heads_of(path).items()}

    def table(self, names: Sequence[str]) -> Table:
        return NpzTable(self._path, names)

    def pairs(self, name: str) -> Table:
        return PairsInArchive(self._path, name)

    def number(self, name: str) -> int:
        with np.load(self._path, allow_pickle=False) as arrays:
            return _one(arrays[name], name)


class _FromCsc(Table):
    """The edges of a graph in CSC: sources as they are, destinations found from the row starts."""

    def __init__(self, indices: Table, indptr: NDArray[Any]) -> None:
        self._indices, self._indptr = indices, indptr
        self.name, self.num_rows = indices.name, indices.num_rows
        self.columns = {"src": indices.column("indices"), "dst": Column(np.dtype(np.int64))}
        rising = indptr.ndim == 1 and len(indptr) > 1 and indptr[0] == 0 and not (np.diff(indptr) < 0).any()
        if not rising or indptr[-1] != self.num_rows:
            raise InputError(f"convert: {self.name}: expected indptr to rise from 0 to {self.num_rows}, got others")

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield rows; `Table.chunks` documents it."""
        start = 0
        for chunk in self._indices.chunks(["indices"], rows):
            places = np.arange(start, start + len(chunk["indices"]))
            start += len(places)
            ends = {"src": chunk["indices"], "dst": np.searchsorted(self._indptr, places, side="right") - 1}
            yield {name: ends[name] for name in columns}

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the file as it is now."""
        return self._indices.stamps()


def _whole(table: Table, column: str) -> NDArray[Any]:
    return np.concatenate([chunk[column] for chunk in table.chunks([column], 1 << 20)] or [np.zeros(0, np.int64)])


def _one(array: NDArray[Any], name: str) -> int:
    if array.size != 1 or array.dtype.kind not in "iu":
        raise InputError(f"convert: expected {name} to be one integer, got {array.dtype}{list(array.shape)}")
    return int(array.reshape(()))
