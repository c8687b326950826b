"""A graph and its features from NumPy files: an ``.npz`` archive, or a folder of ``.npy`` files as memory maps.

==========================================  ==========================================================================
``indptr``, ``indices``                     the in-neighbours of v are ``indices[indptr[v]:indptr[v + 1]]``
... or ``edge_index``                       int[2, num_edges], sources and destinations
... or ``src``, ``dst``                     int[num_edges] each
``edge_ids``                                optional, beside ``indptr``: ids of edges, which are their rows in features
``num_nodes``                               optional: else the rows of ``x`` or ``y``, else the largest id plus one
``x_indptr``, ``x_indices``, ``x_data``     sparse features, which become the dense feature ``x``, of
``x_shape``                                 int[2], rows and columns
any other array of num_nodes rows           a feature of nodes: labels, masks, ...
... of num_edges rows                       a feature of edges, in the order in which the graph lists these, or in that
                                            of ``edge_ids``: times, ...
==========================================  ==========================================================================

Where there are as many nodes as edges, those whose names begin with ``edge`` are of edges.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.pipeline.data import Graph, describe
from headrace.pipeline.data.narrow_dtypes import is_numeric
from headrace.pipeline.storage.array_file import DAMAGED, open_array
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.opened_files import MAGIC, open_regular, what_came
from headrace.pipeline.storage.sparse_rows import SparseRows

Arrays = Mapping[str, NDArray[Any]]

CSC, PAIRS, EDGE_INDEX = ("indptr", "indices"), ("src", "dst"), ("edge_index",)
SPARSE = ("x_indptr", "x_indices", "x_data", "x_shape")

#: What np.load raises for archives that are none.
_DAMAGED = (*DAMAGED, AttributeError, KeyError, RuntimeError, OSError, zipfile.BadZipFile, zlib.error)

#: The ids of edges in the order of `CSC`; other forms list edges by their ids.
EDGE_IDS = "edge_ids"
NOT_FEATURES = {*CSC, *PAIRS, *EDGE_INDEX, *SPARSE, EDGE_IDS, "num_nodes", "meta"}


@dataclass(frozen=True)
class GraphFiles:
    """A graph, features of its nodes and edges, all arrays by name, and by name why something is no part of these."""

    graph: Graph
    store: FeatureStore
    arrays: Arrays
    left_out: Mapping[str, str]


def read_graph_files(path: Path, features: Sequence[str] | None = None) -> GraphFiles:
    """Read a graph and features of its nodes and edges.

    Parameters
    ----------
    path
        Of an ``.npz`` file or of a folder of ``.npy`` files. What a folder holds stays on disk: ``indptr`` and int32
        ``indices`` larger than memory are fine, while lists of edges have to be sorted in memory. Files must not be
        shortened while they are read: sizes are checked when they are opened (`open_array`), not afterwards.
    features
        Names of the features to take; by default every array of num_nodes or num_edges rows. What else there is, is
        `left_out` then.

    Raises
    ------
    InputError
        If there is no such file, or it holds no numbers.
        If the graph is missing, given twice, or wrong.
        If a feature that was asked for is missing or has not one row per node or edge, or there are two of one name.
    """
    arrays = _arrays(path)
    try:
        graph = _graph(arrays, path)
    except InputError as cause:
        named = str(cause).startswith(f"{path}: ")
        raise cause if named else InputError(f"{path}: {cause}") from cause
    candidates: dict[str, NDArray[Any] | FeatureSource] = {
        name: array for name, array in arrays.items() if name not in NOT_FEATURES and is_numeric(array.dtype)
    }
    if _all_there(arrays, SPARSE, path):
        if "x" in arrays:
            raise InputError(f"{path}: expected one feature x, got the array x and a sparse one, x_data; rename one")
        candidates["x"] = _sparse(arrays, path)
    domains = {name: _domain(name, rows, graph) for name, rows in candidates.items()}
    names = [name for name, domain in domains.items() if domain] if features is None else list(features)
    for name in names:
        if not domains.get(name):
            came = f"it has the shape {list(candidates[name].shape)}" if name in candidates else "there is none"
            if name in arrays and name not in candidates and name not in NOT_FEATURES:
                came = f"it is {describe(arrays[name])}; map what it holds to numbers"
            raise InputError(
                f"{path}: expected {name!r} to be an array with a row for each of {graph.num_nodes} nodes, or of "
                f"{graph.num_edges} edges, but {came}; the arrays are {sorted(arrays)}"
            )
    of = {domain: {name: candidates[name] for name in names if domains[name] == domain} for domain in ("node", "edge")}
    left_out = {} if features is not None else _others(path) | _left_out(arrays, names, graph)
    return GraphFiles(graph, FeatureStore(of["node"], of["edge"]), arrays, left_out)


def _domain(name: str, rows: NDArray[Any] | FeatureSource, graph: Graph) -> str | None:
    """Return whose feature an array is, by its rows: of nodes, of edges, or of none."""
    fits = [
        domain
        for domain, num_rows in (("node", graph.num_nodes), ("edge", graph.num_edges))
        if rows.shape[:1] == (num_rows,)
    ]
    return "edge" if len(fits) == 2 and name.startswith("edge") else next(iter(fits), None)


def _left_out(arrays: Arrays, names: Sequence[str], graph: Graph) -> dict[str, str]:
    """Return why arrays are no features."""
    reasons = {}
    for name, array in arrays.items():
        if name in names or (name in NOT_FEATURES and name != "meta"):
            continue
        reasons[name] = f"{describe(array)}, which has no row for each of {graph.num_nodes} nodes, or of "
        reasons[name] += f"{graph.num_edges} edges"
        if not is_numeric(array.dtype):
            reasons[name] = f"{describe(array)}, which are no numbers: map what it holds to some"
    return reasons


def _others(path: Path) -> dict[str, str]:
    """Return why files of a folder, or members of an archive, are not read."""
    if path.is_dir():
        others = (one for one in sorted(path.iterdir()) if one.suffix != ".npy" and not one.name.startswith("."))
        return {one.name: "a folder" if one.is_dir() else "no .npy file" for one in others}
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist() if not _is_array(name)]
    return dict.fromkeys(names, "no array") | ({"meta": "what the file tells of itself"} if "meta" in names else {})


def _is_array(member: str) -> bool:
    """Whether a member of an archive is read: ``meta`` may be Python objects."""
    return member.endswith(".npy") and member != "meta.npy"


def _arrays(path: Path) -> Arrays:
    try:
        return _of_folder(path) if path.is_dir() else _of_archive(path)
    except InputError as cause:
        raise InputError(f"{path}: expected an .npz file or a folder of .npy files of numbers; {cause}") from cause
    except FileNotFoundError as cause:
        raise InputError(f"{path}: there is no such file; name an .npz file or a folder of .npy files") from cause
    except MemoryError as cause:
        raise InputError(
            f"{path}: expected arrays that fit in memory, got a larger one; extract the archive, and name the folder "
            "of .npy files"
        ) from cause
    except _DAMAGED as cause:
        raise InputError(f"{path}: expected an .npz file or a folder of .npy files of numbers ({cause})") from cause


def _of_folder(path: Path) -> Arrays:
    files = sorted(path.glob("*.npy"))
    others = _others(path)
    if not files and others:
        first = path / next(iter(others))
        came = "a folder; name it, or put all arrays into one"
        if not first.is_dir():
            with open_regular(first) as file:
                came = what_came(first, file)
        raise InputError(f"got {', '.join(list(others)[:5])}; {first.name} is {came}")
    return {file.stem: open_array(file, memory_map=True, is_ours=False) for file in files}


def _of_archive(path: Path) -> Arrays:
    with open_regular(path) as file:
        start = file.read(len(MAGIC))
        if start == MAGIC:
            raise InputError(f"got a single array; put it beside the others, and name the folder: {path.parent}")
        if not start.startswith(b"PK") or not zipfile.is_zipfile(file):
            raise InputError(f"got {what_came(path, file)}")
        with zipfile.ZipFile(file) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if _is_array(name)]
            if not names and archive.namelist():
                raise InputError(f"got {what_came(path, file)}")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: _member(arrays, name) for name in names}


def _member(arrays: Any, name: str) -> NDArray[Any]:
    """Return an array of an archive."""
    try:
        array: NDArray[Any] = arrays[name]
    except ValueError as cause:
        if "allow_pickle" not in str(cause):  # NumPy's advice, which would run code of the file
            raise
        raise InputError(
            f"got Python objects in {name!r} (dtype=object), or no array; they are not unpickled, as that could run "
            f"code: write numbers, {name}.astype(numpy.float32), rows of one length"
        ) from cause
    return array


def _graph(arrays: Arrays, path: Path) -> Graph:
    given = [names for names in (CSC, EDGE_INDEX, PAIRS) if _all_there(arrays, names, path)]
    if len(given) != 1:
        raise InputError(
            f"{path}: expected a graph as indptr and indices, or as edge_index, or as src and dst, and only one of "
            f"them; the arrays are {sorted(arrays)}"
        )
    if EDGE_IDS in arrays and given != [CSC]:
        raise InputError(
            f"{path}: expected {EDGE_IDS} beside indptr and indices alone, got it with edges that are listed by their "
            f"ids; put the edges and their features into one order, and move {EDGE_IDS} away"
        )
    if given == [CSC]:
        graph = Graph.from_csc(arrays["indptr"], arrays["indices"], edge_ids=arrays.get(EDGE_IDS))
        if "num_nodes" in arrays and graph.num_nodes != _number(arrays["num_nodes"], path):
            raise InputError(f"{path}: indptr is of {graph.num_nodes} nodes, num_nodes is {arrays['num_nodes']}")
        return graph
    if given == [PAIRS]:
        src, dst = arrays["src"], arrays["dst"]
    else:
        edges = arrays["edge_index"]
        if edges.ndim != 2 or len(edges) != 2:
            raise InputError(f"{path}: expected edge_index of int[2, num_edges], got {describe(edges)}")
        src, dst = edges
    return Graph.from_coo(src, dst, num_nodes=_num_nodes(arrays, path))


def _sparse(arrays: Arrays, path: Path) -> SparseRows:
    indptr, indices, data, shape = (arrays[name] for name in SPARSE)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape[0] != indptr.size - 1:
        raise InputError(
            f"{path}: expected x_shape to be {indptr.size - 1} rows, as x_indptr has, and a number of columns, got "
            f"{shape.tolist()}"
        )
    try:
        return SparseRows(indptr, indices, data, int(shape[1]))
    except InputError as cause:
        raise InputError(f"{path}: {cause}") from cause


def _num_nodes(arrays: Arrays, path: Path) -> int | None:
    if "num_nodes" in arrays:
        return _number(arrays["num_nodes"], path)
    if "x_indptr" in arrays:
        return arrays["x_indptr"].size - 1
    return next((len(arrays[name]) for name in ("x", "y") if name in arrays and arrays[name].ndim), None)


def _number(array: NDArray[Any], path: Path) -> int:
    if array.size != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{path}: expected num_nodes to be one integer, got {describe(array)}; graphs with several types of nodes "
            "cannot be read in this version"
        )
    return int(array.reshape(()))


def _all_there(arrays: Arrays, names: Sequence[str], path: Path) -> bool:
    """Whether all arrays are there that belong together; refuse some without the others."""
    missing = [name for name in names if name not in arrays]
    if missing and len(missing) < len(names):
        raise InputError(f"{path}: expected {', '.join(names)} together, but {', '.join(missing)} is missing")
    return not missing
