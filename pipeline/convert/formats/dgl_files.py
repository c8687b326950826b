"""Files that DGL writes, ``graph.dgl`` and ``node_feat.dgl``, read without it: arrays and the names before them.

Numbers are little-endian. An array is a magic number, a reserved word, its device, dimensions, dtype and shape, the
count of its bytes, and these. A file of arrays has names before them; one of a graph has an unused page, what a graph
of one type is made of, its edges as sources and destinations, and then the arrays of its nodes and edges.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError

_ARRAY, _ARRAYS = 0xDD5E40F096B4A13F, 0xDD5A9FBE3FA2443F
_GRAPHS, _GRAPH, _TYPES = 0xDD2E4FF046B4A13F, 0xDD589FBE35224ABF, 0xDD3C5FFE20046ABF
_UNIT, _COO, _CSR = 0xDD2E60F0F6B4A127, 0xDD61FFD305DFF127, 0xDD6CD31205DFF127

#: Where a file of graphs begins behind its head.
_PAGE = 4096

#: Kinds of numbers by DGL's code.
_KINDS = {0: "i", 1: "u", 2: "f"}
_FLOAT = 2

#: More rows than a file has bytes are of a damaged one.
_MOST_ROWS = 1 << 48

#: More than any name or count of names that is meant.
_MOST_NAMES = 1 << 16


class StoredGraph(NamedTuple):
    """A graph of one type in a file of DGL.

    Attributes
    ----------
    src, dst
        int64[num_edges].
    nodes, edges
        By name, arrays with a row for each.
    """

    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    nodes: dict[str, NDArray[Any]]
    edges: dict[str, NDArray[Any]]


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file that ``dgl.data.utils.save_tensors`` has written, by name; they are views of it.

    Raises
    ------
    InputError
        If it is no such file, or ends early.
    """
    file = _File(path)
    file.expect(_ARRAYS, "arrays")
    file.count()
    return file.named_arrays()


def read_graph(path: Path) -> StoredGraph:
    """Return the graph of a file that ``dgl.save_graphs`` has written: one of one type, stored as a list of edges.

    Raises
    ------
    InputError
        If it is no such file, holds several graphs or types, has its edges in rows, or ends early.
    """
    file = _File(path)
    file.expect(_GRAPHS, "graphs")
    version, _, num_graphs = (file.word() for _ in range(3))
    if (version, num_graphs) != (2, 1):
        raise file.odd(f"one graph of version 2, got {num_graphs} of version {version}")
    file.place = _PAGE
    file.word(), file.word()
    file.expect(_GRAPH, "a graph")
    file.rows(_TYPES)
    if file.count() != 1:
        raise file.odd("a graph of one type, got several")
    file.expect(_UNIT, "a graph")
    file.word(), file.word()
    file.rows(_TYPES)
    if file.word() != _COO:
        raise file.odd('a list of edges, got rows; write it with graph_formats=["coo"]')
    file.word(), file.word()
    src, dst, order = (file.array() for _ in range(3))
    file.skip(2)  # whether rows and columns are sorted
    if order.size or src.ndim != 1 or src.shape != dst.shape:
        raise file.odd("edges by their ids, got an order of others")
    if file.count() != 1:
        raise file.odd("nodes of one type, got several")
    file.word()  # how many there are
    frames = []
    for what in ("nodes", "edges"):
        if file.count() != 1:
            raise file.odd(f"arrays of {what} of one type, got several")
        frames.append(file.named_arrays())
    return StoredGraph(src.astype(np.int64), dst.astype(np.int64), *frames)


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._bytes = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
        except OSError as cause:
            raise InputError(f"convert: {path} cannot be read ({cause.strerror}); look at the path") from cause
        self.place = 0

    def odd(self, expected: str) -> InputError:
        return InputError(f"convert: expected in {self._path} {expected}")

    def take(self, count: int) -> NDArray[np.uint8]:
        """Return the next bytes."""
        if not 0 <= count <= len(self._bytes) - self.place:
            raise self.odd(f"{count} bytes at {self.place}, got {len(self._bytes)} in all; copy the file once more")
        self.place += count
        return self._bytes[self.place - count : self.place]

    def skip(self, count: int) -> None:
        self.take(count)

    def word(self) -> int:
        word: int = struct.unpack("<Q", self.take(8).tobytes())[0]
        return word

    def count(self) -> int:
        """Return a number of names, or of types."""
        count = self.word()
        if count > _MOST_NAMES:
            raise self.odd(f"at most {_MOST_NAMES} names at {self.place}, got {count}; copy the file once more")
        return count

    def expect(self, magic: int, what: str) -> None:
        if self.word() != magic:
            raise self.odd(f"{what} as DGL 1.1 to 2.1 write them, got something else at {self.place}")

    def rows(self, magic: int) -> None:
        """Pass over the types of a graph, which are rows of a matrix."""
        self.expect(magic, "types")
        self.expect(_CSR, "rows of types")
        self.word(), self.word()
        for _ in range(3):
            self.array()
        self.skip(1)  # whether they are sorted

    def array(self) -> NDArray[Any]:
        self.expect(_ARRAY, "an array")
        self.word()
        _, _, num_dimensions, code, bits, lanes = struct.unpack("<iiiBBH", self.take(16).tobytes())
        has_bits = bits in ((16, 32, 64) if code == _FLOAT else (8, 16, 32, 64))
        if code not in _KINDS or lanes != 1 or not has_bits or not 0 <= num_dimensions <= 8:
            raise self.odd(f"integers or floating-point numbers at {self.place}, got others")
        dtype = np.dtype(f"<{_KINDS[code]}{bits // 8}")
        shape = [self.word() for _ in range(num_dimensions)]
        size = self.word()
        if size != math.prod(shape) * dtype.itemsize:
            raise self.odd(f"{shape} numbers of {dtype}, got {size} bytes; copy the file once more")
        if max(shape, default=0) > _MOST_ROWS:
            raise self.odd(f"fewer rows than {max(shape)} at {self.place}; copy the file once more")
        return self.take(size).view(dtype).reshape(shape)

    def named_arrays(self) -> dict[str, NDArray[Any]]:
        return {self.take(self.count()).tobytes().decode(errors="replace"): self.array() for _ in range(self.count())}
