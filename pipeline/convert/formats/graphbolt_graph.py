"""The graph of a folder that GraphBolt has preprocessed: ``fused_csc_sampling_graph.pt`` as tables of edges.

Edges get the order that they had in GraphBolt's sources, where the file has it, and so do their attributes. Ends of all
edges are held in memory, 16 bytes for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.convert.formats.saved_tensors import Record, read_saved
from headrace.pipeline.convert.table import ArrayTable

_CLASSES = (
    ("dgl.graphbolt.impl.fused_csc_sampling_graph", "FusedCSCSamplingGraph"),
    ("torch", "ScriptObject"),
)

#: GraphBolt's name for the ids that edges had before they were put in CSC order.
_ORIGINAL = "_ORIGINAL_EDGE_ID"


class SamplingGraph:
    """A graph of GraphBolt in a file.

    Parameters
    ----------
    path
        The file.

    Attributes
    ----------
    path
        The file.
    num_nodes
        By type; of a graph without types that of None.
    edges
        By type, ``a:to:b`` or None, a table with the columns "src" and "dst", ids within types, and the attributes.
    attributes
        Those of edges by name: columns of all tables.

    Raises
    ------
    InputError
        If it is no such file, or arrays of it contradict each other.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        parts = _parts_of(path)
        arrays, of_edges = parts["independent_tensors"], {**self._mapping(parts, "edge_attributes")}
        indptr, indices = self._integers(arrays, "indptr"), self._integers(arrays, "indices")
        degrees = np.diff(indptr)
        if len(indptr) < 2 or indptr[0] != 0 or indptr[-1] != len(indices) or (degrees < 0).any():
            raise self._odd(f"indptr to rise from 0 to {len(indices)} edges", "others")
        total = len(indptr) - 1
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < total:
            raise self._odd(f"sources in [0, {total})", "others")
        for name, rows in of_edges.items():
            if not isinstance(rows, np.ndarray) or rows.shape[:1] != indices.shape:
                raise self._odd(f"{name!r} of {len(indices)} edges", "another array")
        ends = {"src": indices, "dst": np.repeat(np.arange(total), degrees)}
        original = None if _ORIGINAL not in of_edges else self._integers(of_edges, _ORIGINAL)
        of_edges.pop(_ORIGINAL, None)
        if of_edges:
            warn_user(
                f"convert: {path}: attributes of edges, {', '.join(map(repr, of_edges))}, are read in the order of its "
                "edges; GraphBolt 2.1 wrote them in the order of its sources, to other edges: if it wrote these, "
                "convert the sources instead"
            )
        self.attributes = tuple(of_edges)
        types, starts = self._types(parts, total, len(indices))
        self.num_nodes: dict[str | None, int] = {name: last - first for name, (first, last) in starts.items()}
        self.edges: dict[str | None, ArrayTable] = {}
        for name, which in types.items():
            order = which if original is None else which[np.argsort(original[which], kind="stable")]
            columns = {one: rows[order] for one, rows in {**ends, **of_edges}.items()}
            if name is not None:
                for end, of_type in (("src", name.split(":")[0]), ("dst", name.split(":")[-1])):
                    first, last = starts.get(of_type, (0, 0))
                    ids = columns[end]
                    if len(ids) and not first <= int(ids.min()) <= int(ids.max()) < last:
                        raise self._odd(f"edges of {name} between nodes of its types", "others")
                    columns[end] = ids - first
            self.edges[name] = ArrayTable(f"{path.name}{'' if name is None else f', {name}'}", columns)

    def _types(self, parts: Mapping[str, Any], num_nodes: int, num_edges: int) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return by edge type its edges, and by node type its first node and the one behind its last."""
        arrays = parts["independent_tensors"]
        if "node_type_offset" not in arrays or "type_per_edge" not in arrays:
            return {None: np.arange(num_edges)}, {None: (0, num_nodes)}
        offsets, of_edge = self._integers(arrays, "node_type_offset"), self._integers(arrays, "type_per_edge")
        numbers = [
            {name: int(number) for name, number in self._mapping(parts, field).items() if np.size(number) == 1}
            for field in ("node_type_to_id", "edge_type_to_id")
        ]
        of_nodes, of_edges = (sorted(one, key=one.__getitem__) for one in numbers)
        known = [[one[name] for name in names] for one, names in zip(numbers, (of_nodes, of_edges), strict=True)]
        fits = len(offsets) == len(of_nodes) + 1 and offsets[0] == 0 and offsets[-1] == num_nodes
        fits = fits and not (np.diff(offsets) < 0).any() and known == [[*range(len(one))] for one in known]
        if (
            not fits
            or len(of_edge) != num_edges
            or (num_edges and not 0 <= int(of_edge.min()) <= int(of_edge.max()) < len(of_edges))
        ):
            raise self._odd("types of all nodes and edges", "others")
        edges = {name: np.flatnonzero(of_edge == number) for number, name in enumerate(of_edges)}
        pairs = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        return edges, dict(zip(of_nodes, pairs, strict=True))

    def _mapping(self, parts: Mapping[str, Any], name: str) -> dict[str, Any]:
        found = parts.get(name) or {}
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in found):
            raise self._odd(f"{name!r} by names", type(found).__name__)
        return found

    def _integers(self, arrays: Mapping[str, Any], name: str) -> NDArray[Any]:
        array = arrays.get(name)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
            raise self._odd(f"integers {name!r}", "none")
        return array.astype(np.int64, copy=False)

    def _odd(self, expected: str, got: str) -> InputError:
        return InputError(f"convert: {self.path}: expected {expected}, got {got}; preprocess the sources once more")


def _parts_of(path: Path) -> dict[str, Any]:
    """Return what GraphBolt's graph is made of."""
    whole = read_saved(path, _CLASSES)
    inner = whole.state.get("_c_csc_graph") if isinstance(whole, Record) and isinstance(whole.state, dict) else None
    parts = inner.state[0] if isinstance(inner, Record) and isinstance(inner.state, tuple) and inner.state else None
    if not isinstance(parts, dict) or not isinstance(parts.get("independent_tensors"), dict):
        raise InputError(
            f"convert: expected a FusedCSCSamplingGraph of GraphBolt in {path}, got another object; preprocess the "
            "sources once more"
        )
    return parts
