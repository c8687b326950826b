"""The fields of a manifest, taken as they are documented, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import torch
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.pipeline.data import TypeName, is_name, whole_number
from headrace.pipeline.storage.dataset.manifest import (
    ArrayFile,
    FeatureFile,
    GraphFiles,
    IdFiles,
    ItemFiles,
    Manifest,
)
from headrace.pipeline.storage.rows_meta import (
    MOST,
    Counts,
    count_of,
    list_of,
    read_counts,
    read_quantization,
    text_of,
)

_IDS = (torch.int32, torch.int64)


def manifest_of(fields: dict[str, Any]) -> Manifest:
    """Take the fields of ``dataset.json``.

    Raises
    ------
    InputError, ValueError, TypeError, AttributeError
        If a field is of another form, or contradicts others.
    KeyError
        If one is missing.
    """
    num_nodes = whole_number(fields["num_nodes"], "num_nodes", 1, InputError, MOST - 1)
    num_edges = count_of(fields["num_edges"], "num_edges")
    node_types = _types(fields["node_types"], num_nodes, "node_types", str)
    edge_types = _types(fields["edge_types"], num_edges, "edge_types", (str, tuple))
    of_nodes = dict(node_types or (("node", num_nodes),))
    rows: dict[str, dict[Any, int]] = {"node": {None: num_nodes}, "edge": {None: num_edges}}
    rows["node"].update(of_nodes)
    rows["edge"].update(edge_types or ())
    features = tuple(_feature(one, rows) for one in list_of(fields["features"]))
    names = [(one.of, one.type, one.name) for one in features]
    if len(set(names)) < len(names):
        raise InputError("expected features of different names, got one twice")
    return Manifest(
        num_nodes,
        num_edges,
        node_types,
        edge_types,
        _graph(_object(fields["graph"], "graph"), num_nodes, num_edges),
        features,
        {
            text_of(name, "the name of items"): tuple(_items(one) for one in list_of(runs))
            for name, runs in _object(fields["items"], "items").items()
        },
        tuple(_external(one, of_nodes) for one in list_of(fields["ids"])),
        _object(fields["notes"], "notes"),
    )


def _graph(fields: dict[str, Any], num_nodes: int, num_edges: int) -> GraphFiles:
    def attributes(what: str, num_rows: int) -> dict[str, ArrayFile]:
        return {
            name: _array(value, f"graph.{what}.{name}", rows=num_rows)
            for name, value in _object(fields[what], f"graph.{what}").items()
        }

    return GraphFiles(
        _array(fields["indptr"], "graph.indptr", (torch.int64,), shape=(num_nodes + 1,)),
        _array(fields["indices"], "graph.indices", _IDS, shape=(num_edges,)),
        _maybe(fields["edge_ids"], "graph.edge_ids", _IDS, shape=(num_edges,)),
        _maybe(fields["node_ids"], "graph.node_ids", (torch.int64,), shape=(num_nodes,)),
        attributes("edge_attrs", num_edges),
        attributes("node_attrs", num_nodes),
    )


def _feature(fields: Any, rows: Mapping[str, Mapping[Any, int]]) -> FeatureFile:
    one = _object(fields, "a feature")
    of, name, of_type = one["of"], text_of(one["name"], "the name of a feature"), _type(one["type"])
    if of not in ("node", "edge") or of_type not in rows[of]:
        raise InputError(
            f"expected feature {name!r} to be of nodes or edges of a type of the graph, got {of!r}, {of_type!r}"
        )
    array = _array(one["rows"], f"feature {name!r}", rows=rows[of][of_type])
    return FeatureFile(of, of_type, name, array, read_quantization(one.get("quantization")))


def _items(fields: Any) -> ItemFiles:
    one = _object(fields, "items")
    ids = _array(one["ids"], "items.ids", _IDS)
    if len(ids.shape) not in (1, 2):
        raise InputError(f"expected items of one or two dimensions, got {list(ids.shape)}")
    extra = {name: _maybe(one[name], f"items.{name}", rows=ids.shape[0]) for name in ("labels", "times")}
    return ItemFiles(_type(one["type"]), ids, extra["labels"], extra["times"])


def _external(fields: Any, of_nodes: Mapping[Any, int]) -> IdFiles:
    one = _object(fields, "ids")
    name = text_of(one["type"], "the type of ids")
    if name not in of_nodes:
        raise InputError(f"expected ids of a node type, one of {list(of_nodes)}, got {name!r}")
    count = of_nodes[name]
    starts = _maybe(one["starts"], f"ids of {name!r}", (torch.int64,), shape=(count + 1,))
    values = _array(
        one["values"],
        f"ids of {name!r}",
        (torch.int64,) if starts is None else (torch.uint8,),
        shape=(count,) if starts is None else None,
    )
    return IdFiles(
        name, values, starts, _maybe(one["order"], f"order of ids of {name!r}", (torch.int64,), shape=(count,))
    )


def _array(
    fields: Any,
    name: str,
    dtypes: tuple[torch_dtype, ...] | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    rows: int | None = None,
) -> ArrayFile:
    """Take an array, of one of some dtypes, of a shape or of a number of rows."""
    one = _object(fields, name)
    sizes = tuple(count_of(size, f"a size of {name}") for size in list_of(one["shape"]))
    checksum = one.get("sha256")
    array = ArrayFile(_file(one["file"], name), text_of(one["dtype"], "dtype"), sizes, checksum)
    if checksum is not None and not (isinstance(checksum, str) and len(checksum) == 64):
        raise InputError(f"expected sha256 of {name} to be 64 hexadecimal digits or null, got {str(checksum)[:80]!r}")
    if dtypes is not None and array.torch_dtype not in dtypes:
        raise InputError(f"expected {name} of {' or '.join(map(str, dtypes))}, got {array.dtype}")
    if (shape is not None and sizes != shape) or (rows is not None and sizes[:1] != (rows,)):
        expected = list(shape) if shape is not None else f"{rows} rows"
        raise InputError(f"expected {name} of {expected}, got {list(sizes)}")
    array.torch_dtype  # noqa: B018 - an unknown one is refused here
    return array


def _maybe(fields: Any, name: str, *args: Any, **kwargs: Any) -> ArrayFile | None:
    return None if fields is None else _array(fields, name, *args, **kwargs)


def _file(value: Any, name: str) -> str:
    """Take the path of a file below the folder."""
    path = PurePosixPath(text_of(value, f"the file of {name}"))
    odd = path.is_absolute() or ".." in path.parts or not path.parts or "\\" in str(value) or "\0" in str(value)
    if odd or path.suffix != ".npy":
        raise InputError(f"expected {name} in a .npy file below the folder, got {str(value)[:200]!r}")
    return str(path)


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"expected {name} to be an object, got {str(value)[:40]!r}")
    return value


def _type(value: Any) -> TypeName | None:
    name = tuple(value) if isinstance(value, list) else value
    if name is not None and not is_name((name, "")):
        raise InputError(f"expected a type to be null, a name, or three names, got {str(value)[:40]!r}")
    return name


def _types(value: Any, num_ids: int, what: str, kinds: Any) -> Counts | None:
    counts = read_counts(value)
    if counts is None:
        return None
    names = [name for name, _ in counts]
    if len(set(names)) < len(names) or not all(isinstance(name, kinds) for name in names):
        raise InputError(f"expected different names of types as {what}, got {names[:5]}")
    total = sum(count for _, count in counts)
    if total != num_ids:
        raise InputError(f"expected {what} of {num_ids} ids, got {total}")
    return counts
