"""Data sets of OGB in binary form, ``raw/data.npz`` and ``raw/node-label.npz``, such as papers100M."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.pipeline.convert.description import Columns, Description, EdgeTable, NodeTable
from headrace.pipeline.convert.files import stamps_of
from headrace.pipeline.convert.formats.ogb import ogb_splits
from headrace.pipeline.convert.formats.source_files import inside
from headrace.pipeline.convert.formats.views import Beside, Slices
from headrace.pipeline.convert.npy_table import NpzTable
from headrace.pipeline.convert.table import Column, Stamp, Table
from headrace.pipeline.storage.array_file import DAMAGED

#: What archives raise that are none, or whose content is not what their directory has.
_DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, OverflowError)


def read_ogb_binary(folder: Path) -> Description:
    """Return the description of a folder of OGB with ``raw/data.npz``.

    Raises
    ------
    InputError
        If an array is missing or malformed, there are several graphs, or splits are a pickle.
    """
    (file,) = inside(folder, "raw/data.npz")
    heads = heads_of(file)
    for name in ("num_nodes_list", "num_edges_list"):
        if heads.get(name, ((0,), None))[0] != (1,):
            raise InputError(
                f"convert: expected one graph in {file}, with one number in {name}, got {heads.get(name)}; data sets "
                "of many small graphs are not converted in this version"
            )
    count = int(next(iter(NpzTable(file, ["num_nodes_list"]).chunks(["num_nodes_list"], 1)))["num_nodes_list"][0])
    ends = PairsInArchive(file, "edge_index")
    of_nodes, of_edges = (
        {name.removeprefix(f"{of}_"): name for name in heads if name.startswith(f"{of}_") and name != "edge_index"}
        for of in ("node", "edge")
    )
    tables: list[Table] = [NpzTable(file, list(of_nodes.values()))] if of_nodes else []
    label_files = sorted((folder / "raw").glob("node[-_]label.npz"))
    if label_files:
        (label_file,) = inside(folder, str(label_files[0].relative_to(folder)))
        tables.append(NpzTable(label_file))
        of_nodes |= {name.removeprefix("node_"): name for name in tables[-1].columns}
    edges = Beside([ends, NpzTable(file, list(of_edges.values()))]) if of_edges else ends
    flat = {name: column for name, column in of_edges.items() if not edges.column(column).shape}
    features: dict[str, Columns] = {name: column for name, column in of_edges.items() if name not in flat}
    edge = EdgeTable(
        edges, None, "src", "dst", {k: v for k, v in flat.items() if k != "time"}, features, None, flat.get("time")
    )
    return Description([edge], [_nodes(tables, of_nodes, count)], list(ogb_splits(folder, None)))


def _nodes(tables: Sequence[Table], names: Mapping[str, str], count: int) -> NodeTable:
    if not tables:
        return NodeTable(num_nodes=count)
    table = Beside(tables) if len(tables) > 1 else tables[0]
    # OGB writes labels and years as vectors of one number.
    table = Slices(table, {name: (name, 0) for name in names.values() if table.column(name).shape == (1,)})
    year = names.get("year", names.get("time"))
    label = names.get("label")
    flat = label is not None and not table.column(label).shape
    features: dict[str, Columns] = {
        {"feat": "x", "label": "y"}.get(name, name): column
        for name, column in names.items()
        if column != year and not (flat and column == label)
    }
    return NodeTable("node", table, None, count, False, features, {"y": str(label)} if flat else {}, year)


class PairsInArchive(Table):
    """An array [2, num_rows] of an ``.npz`` file, packed or not, as the columns src and dst; each is read by itself.

    Raises
    ------
    InputError
        If there is no such array.
    """

    columns: Mapping[str, Column]

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self.name = f"{path}, {name}"
        shape, dtype = heads_of(path).get(name, ((), np.dtype(object)))
        if len(shape) != 2 or shape[0] != 2 or dtype.kind not in "iu":
            raise InputError(f"convert: expected {name} of integers [2, num_edges] in {path}, got {dtype}{list(shape)}")
        self.num_rows = shape[1]
        self.columns = dict.fromkeys(("src", "dst"), Column(dtype.newbyteorder("=")))
        self._dtype = dtype

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield rows; `Table.chunks` documents it."""
        assert self.num_rows is not None
        size = self._dtype.itemsize
        with zipfile.ZipFile(self._path) as archive, ExitStack() as opened:
            files = {name: opened.enter_context(archive.open(f"{self._name}.npy")) for name in columns}
            try:
                for name, file in files.items():
                    _head(file)
                    file.seek(file.tell() + (name == "dst") * self.num_rows * size)
                for start in range(0, self.num_rows, rows):
                    count = min(rows, self.num_rows - start)
                    content = {name: file.read(count * size) for name, file in files.items()}
                    _check_lengths(self._name, content, count * size)
                    yield {name: np.frombuffer(one, self._dtype) for name, one in content.items()}
            except (*_DAMAGED, *DAMAGED) as cause:
                raise InputError(f"convert: {self._path} is damaged ({cause}); copy it again") from cause

    def stamps(self) -> tuple[Stamp, ...]:
        """Return the file as it is now."""
        return stamps_of([self._path])


def _check_lengths(name: str, content: Mapping[str, bytes], num_bytes: int) -> None:
    if any(len(one) < num_bytes for one in content.values()):
        raise EOFError(f"{name} ends early")


def heads_of(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and dtype of each array of an archive.

    Raises
    ------
    InputError
        If it is no archive of arrays.
    """
    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if member.endswith(".npy"):
                    with archive.open(member) as file:
                        shape, _, dtype = _head(file)
                        found[member.removesuffix(".npy")] = (shape, dtype)
    except (*_DAMAGED, *DAMAGED) as cause:
        raise InputError(f"convert: expected arrays in {path}, got a damaged file ({cause}); copy it again") from cause
    return found


def _head(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    head: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(file)
    if head[1] and len(head[0]) > 1:
        raise ValueError(f"an array in Fortran order, of {math.prod(head[0])} numbers")
    return head
