"""The part of GraphStorm's JSON for graph construction that needs no transformation of features.

Read are nodes and edges in CSV and Parquet, with ids, features, labels and split files; ``transform`` and ``split_pct``
are refused: compute features before, and split by ``hr.split_nodes``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from headrace.ops.errors import InputError
from headrace.pipeline.convert.description import Columns, Description, EdgeTable, EdgeType, Items, NodeTable
from headrace.pipeline.convert.formats.fields import Fields
from headrace.pipeline.convert.formats.labels import numbered
from headrace.pipeline.convert.formats.source_files import table_in
from headrace.pipeline.convert.formats.views import Cast
from headrace.pipeline.convert.table import Table

_TOP = ("version", "nodes", "edges")
_NODE = ("node_type", "files", "format", "node_id_col", "features", "labels")
_EDGE = ("relation", "files", "format", "source_id_col", "dest_id_col", "features", "labels")
_FEATURE = ("feature_col", "feature_name", "out_dtype", "transform")
_LABEL = ("task_type", "label_col", "split_pct", "custom_split_filenames", "label_stats_type")
_SPLITS = {"train": "train", "valid": "val", "test": "test"}
_DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")


def read_gconstruct(fields: Any, path: Path) -> Description:
    """Return the description of a JSON file of GraphStorm, whose files are below its folder.

    Raises
    ------
    InputError
        If a field is not read or of another kind, or a file is missing, malformed or elsewhere.
    """
    top = Fields(fields, str(path), _TOP)
    nodes, edges, items = [], [], []
    for one in top.each("nodes", _NODE):
        name, table = one.take("node_type", str), _table(one, path.parent)
        table, features = _features(one, table)
        labels, splits = _labels(one, path.parent, name)
        items += splits
        nodes.append(
            NodeTable(name, numbered(table, labels), one.maybe("node_id_col", str), None, False, features, labels)
        )
    for one in top.each("edges", _EDGE):
        parts = one.texts("relation")
        if len(parts) != 3:
            raise InputError(f"convert: {one.what}: expected relation: [source, relation, destination], got {parts}")
        relation: EdgeType = (parts[0], parts[1], parts[2])
        table, features = _features(one, _table(one, path.parent))
        labels, splits = _labels(one, path.parent, relation)
        items += splits
        src, dst = one.take("source_id_col", str), one.take("dest_id_col", str)
        edges.append(EdgeTable(numbered(table, labels), relation, src, dst, {}, features, None, None, labels))
    return Description(edges, nodes, items)


def _table(one: Fields, folder: Path) -> Table:
    form = Fields(one.take("format", dict), f"{one.what}, format", ("name", "separator"))
    name = form.take("name", str)
    if name not in ("csv", "parquet"):
        raise InputError(f"convert: {form.what}: expected csv or parquet, got {name!r}; write one of these")
    separator = form.maybe("separator", str)
    return table_in(folder, one.texts("files"), **({} if separator is None else {"separator": separator}))


def _features(one: Fields, table: Table) -> tuple[Table, dict[str, Columns]]:
    features: dict[str, Columns] = {}
    dtypes: dict[str, Any] = {}
    for each in one.each("features", _FEATURE):
        transform = each.maybe("transform", dict)
        if transform and transform.get("name") not in (None, "noop", "no-op"):
            raise InputError(
                f"convert: {each.what}: expected no transform, got {transform.get('name')!r}; compute the feature"
            )
        columns = each.texts("feature_col")
        if not columns:
            raise InputError(f"convert: {each.what}: expected feature_col, got none")
        out: Any = each.take("out_dtype", str, "float32")
        if out not in _DTYPES:
            raise InputError(f"convert: {each.what}: expected out_dtype of {', '.join(_DTYPES)}, got {out!r}")
        for column in columns:
            if table.column(column).is_text:
                raise InputError(
                    f"convert: {each.what}: expected numbers in {column!r}, got texts; compute the feature"
                )
        dtypes |= dict.fromkeys(columns, np.dtype(out))
        features[each.take("feature_name", str, columns[0])] = columns[0] if len(columns) == 1 else columns
    advice = "correct it, or ask for a wider out_dtype"
    return Cast(table, dtypes, advice) if dtypes else table, features


def _labels(one: Fields, folder: Path, kind: str | EdgeType) -> tuple[dict[str, str], list[Items]]:
    labels, items = {}, []
    for each in one.each("labels", _LABEL):
        column = each.maybe("label_col", str)
        if each.value.get("split_pct") is not None:
            raise InputError(
                f"convert: {each.what}: expected custom_split_filenames or no split, got split_pct; leave it out, and "
                "split by hr.split_nodes or hr.split_links"
            )
        if column is not None:
            labels[column] = column
        files: dict[str, Any] = each.take("custom_split_filenames", dict, {})
        for theirs, ours in _SPLITS.items():
            if theirs in files:
                given = Fields(files, f"{each.what}, custom_split_filenames")
                table = table_in(folder, given.texts(theirs))
                wanted = given.texts("column") or list(table.columns)[: 1 if isinstance(kind, str) else 2]
                items.append(Items(ours, table, wanted[0] if len(wanted) == 1 else wanted, kind))
    return labels, items
