"""What fields of manifests must be for each other: each check names the field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import torch
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.pipeline.storage.dataset.decode import leaves
from headrace.pipeline.storage.dataset.files import (
    ArrayFile,
    EdgeCutFiles,
    FeatureFile,
    GraphFiles,
    IdFiles,
    ItemFiles,
    PartRecord,
)
from headrace.pipeline.storage.json_fields import Counts, read_quantization

_IDS = (torch.int32, torch.int64)


def check_files(described: Any) -> None:
    """Refuse arrays outside of the folder, in other files than ``.npy``, or of unknown dtypes.

    Raises
    ------
    InputError, ValueError
        The latter of a dtype that this torch lacks.
    """
    for path, array in leaves(described, ArrayFile):
        _check_file(path, array)


def check_types(num_nodes: int, num_edges: int, node_types: Counts | None, edge_types: Counts | None) -> None:
    """Refuse types that do not cover the nodes or edges."""
    if num_nodes < 1:
        raise InputError(f"expected num_nodes of at least 1, got {num_nodes}")
    _check_types("node_types", node_types, num_nodes, str)
    _check_types("edge_types", edge_types, num_edges, (str, tuple))


def rows_by_type(
    num_nodes: int, num_edges: int, node_types: Counts | None, edge_types: Counts | None
) -> dict[str, dict[Any, int]]:
    """Return how many rows features of nodes and of edges have, by type, and for None those of all."""
    of_nodes: dict[Any, int] = dict(node_types or (("node", num_nodes),))
    return {"node": {None: num_nodes, **of_nodes}, "edge": {None: num_edges, **dict(edge_types or ())}}


def check_graph(graph: GraphFiles, num_nodes: int, num_edges: int, by_edges: EdgeCutFiles | None = None) -> None:
    """Refuse arrays of a graph, or of a part, that have not one row per node or edge of it."""
    num_rows = num_nodes if by_edges is None else by_edges.nodes.shape[0]
    expect_array("graph.indptr", graph.indptr, (num_rows + 1,), (torch.int64,))
    expect_array("graph.indices", graph.indices, (num_edges,), _IDS)
    expect_array("graph.edge_ids", graph.edge_ids, (num_edges,), _IDS)
    expect_array("graph.node_ids", graph.node_ids, (num_nodes,), (torch.int64,))
    check_attributes("graph.edge_attrs", graph.edge_attrs, num_edges)
    check_attributes("graph.node_attrs", graph.node_attrs, num_nodes)


def check_attributes(path: str, attributes: Mapping[str, ArrayFile], num_rows: int) -> None:
    """Refuse attributes of another number of rows."""
    for name, array in attributes.items():
        _expect_rows(f"{path}.{name}", array, num_rows)


def check_items(items: Mapping[str, tuple[ItemFiles, ...]]) -> None:
    """Refuse items of other dimensions or dtypes, or with another number of labels or times."""
    for name, runs in items.items():
        for place, run in enumerate(runs):
            if len(run.ids.shape) not in (1, 2):
                raise InputError(f"expected items of one or two dimensions, got {list(run.ids.shape)}")
            expect_array(f"items.{name}[{place}].ids", run.ids, run.ids.shape, _IDS)
            for extra in ("labels", "times"):
                _expect_rows(f"items.{name}[{place}].{extra}", getattr(run, extra), run.ids.shape[0])


def check_ids(ids: tuple[IdFiles, ...], num_nodes: Mapping[Any, int]) -> None:
    """Refuse ids of users of no type, or of another number than nodes; `num_nodes` is by type, of all first."""
    for one in ids:
        if one.type not in num_nodes:
            raise InputError(f"expected ids of a node type, one of {list(num_nodes)[1:]}, got {one.type!r}")
        count = num_nodes[one.type]
        expect_array(f"ids of {one.type!r}", one.starts, (count + 1,), (torch.int64,))
        kind, shape = (torch.int64, (count,)) if one.starts is None else (torch.uint8, one.values.shape)
        expect_array(f"ids of {one.type!r}", one.values, shape, (kind,))
        expect_array(f"order of ids of {one.type!r}", one.order, (count,), (torch.int64,))


def check_record(
    part: PartRecord, num_nodes: int, num_edges: int, node_types: Counts | None, edge_types: Counts | None
) -> None:
    """Refuse a part of more than the whole graph, or of other types."""
    if part.part >= part.num_parts:
        raise InputError(f"expected part.part below {part.num_parts}, got {part.part}")
    _check_adds_up("num_own", part.num_own, part.num_own_of_types, node_types)
    _check_adds_up("num_edges", part.num_edges, part.num_edges_of_types, edge_types)
    if part.num_own > num_nodes or part.num_edges > num_edges:
        raise InputError(
            f"expected a part of at most {num_nodes} nodes and {num_edges} edges, got {part.num_own} and "
            f"{part.num_edges}"
        )


def check_edge_cut(files: EdgeCutFiles, num_own: int, num_edges: int) -> None:
    """Refuse arrays of a part that is cut by edges that do not fit each other."""
    num_rows, num_others, num_pairs = (
        one.shape[0] if len(one.shape) == 1 else -1 for one in (files.nodes, files.others, files.holders)
    )
    expected = {
        "nodes": num_rows,
        "first_positions": num_rows,
        "positions": num_edges,
        "others": num_others,
        "in_degrees": num_own + num_others,
        "out_degrees": num_own + num_others,
        "holders_indptr": num_own + 1,
        "holders": num_pairs,
    }
    for name, size in expected.items():
        dtype = torch.int32 if name == "holders" else torch.int64
        expect_array(f"part.by_edges.{name}", getattr(files, name), (size,), (dtype,))
    for name, size in (("sums_before", num_edges), ("row_sums", num_own + num_others)):
        for weight, array in getattr(files, name).items():
            expect_array(f"part.by_edges.{name}.{weight}", array, (size,), (torch.float64,))


def _check_adds_up(name: str, total: int, of_types: tuple[int, ...] | None, types: Counts | None) -> None:
    fits = of_types is None if types is None else of_types is not None and len(of_types) == len(types)
    if not fits or (of_types is not None and sum(of_types) != total):
        raise InputError(f"expected part.{name}_of_types to add up to part.{name}, type by type, got {of_types}")


def _check_file(path: str, array: ArrayFile) -> None:
    file = PurePosixPath(array.file)
    is_odd = file.is_absolute() or ".." in file.parts or not file.parts or "\\" in array.file or "\0" in array.file
    if is_odd or file.suffix != ".npy":
        raise InputError(f"expected {path} in a .npy file below the folder, got {array.file[:200]!r}")
    if array.sha256 is not None and len(array.sha256) != 64:
        raise InputError(f"expected {path}.sha256 to be 64 hexadecimal digits or null, got {array.sha256[:80]!r}")
    array.torch_dtype  # noqa: B018 - an unknown one is refused here


def _check_types(path: str, counts: Counts | None, num_ids: int, kinds: type | tuple[type, ...]) -> None:
    if counts is None:
        return
    names = [name for name, _ in counts]
    if len(set(names)) < len(names) or not all(isinstance(name, kinds) for name in names):
        raise InputError(f"expected different names of types as {path}, got {names[:5]}")
    if (total := sum(count for _, count in counts)) != num_ids:
        raise InputError(f"expected {path} of {num_ids} ids, got {total}")


def check_features(features: tuple[FeatureFile, ...], num_rows: Mapping[str, Mapping[Any, int]]) -> None:
    """Refuse features of what there is not, of another number of rows, or of one name; `num_rows` is by type."""
    for feature in features:
        if feature.of not in num_rows or feature.type not in num_rows[feature.of]:
            raise InputError(
                f"expected feature {feature.name!r} to be of nodes or edges of a type of the graph, got "
                f"{feature.of!r}, {feature.type!r}"
            )
        _expect_rows(f"feature {feature.name!r}", feature.rows, num_rows[feature.of][feature.type])
        read_quantization(feature.quantization)
    names = [(one.of, one.type, one.name) for one in features]
    if len(set(names)) < len(names):
        raise InputError("expected features of different names, got one twice")


def expect_array(path: str, array: ArrayFile | None, shape: tuple[int, ...], dtypes: tuple[torch_dtype, ...]) -> None:
    """Refuse an array of another shape or of other dtypes, if there is one."""
    if array is None:
        return
    if array.torch_dtype not in dtypes:
        raise InputError(f"expected {path} of {' or '.join(map(str, dtypes))}, got {array.dtype}")
    if array.shape != shape:
        raise InputError(f"expected {path} of {list(shape)}, got {list(array.shape)}")


def _expect_rows(path: str, array: ArrayFile | None, num_rows: int) -> None:
    if array is not None and array.shape[:1] != (num_rows,):
        raise InputError(f"expected {path} of {num_rows} rows, got {list(array.shape)}")
