"""Arrays to a data set where DuckDB is not installed: they are read whole, and saved as a graph in memory is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.convert.attributes import Attribute, joined_attributes
from headrace.pipeline.convert.checked import Checked, attributes_of
from headrace.pipeline.convert.database import needed_database
from headrace.pipeline.convert.description import EdgeTable, NodeTable, Options
from headrace.pipeline.convert.ends import negative_number, null_attribute, odd_weight, refuse_unknown
from headrace.pipeline.convert.feature_rows import feature_pieces, kind_of, time_pieces
from headrace.pipeline.convert.fed_rows import integer_keys
from headrace.pipeline.convert.item_rows import mask_of
from headrace.pipeline.convert.sorted_edges import index_dtype, unique
from headrace.pipeline.convert.table import Table
from headrace.pipeline.convert.unused_ids import advice_of
from headrace.pipeline.data import Graph, Items
from headrace.pipeline.data.type_attributes import value_without
from headrace.pipeline.storage.dataset.manifest import Manifest
from headrace.pipeline.storage.dataset.write_dataset import save_dataset
from headrace.pipeline.storage.features import FeatureStore

#: Rows that are read at a time, and bytes of features.
_ROWS, _ROOM = 1 << 20, 64 << 20


def convert_in_memory(
    tables: Checked, folder: Path, notes: Mapping[str, Any], *, overwrite: bool, progress: bool
) -> Manifest:
    """Make a data set of a graph without types, whose ids are numbers of nodes.

    Raises
    ------
    InputError
        If an id has no node or a weight is negative, with its row; or there is more to do, which takes DuckDB.
    """
    node, edge = _node_and_edge(tables)
    num_nodes = node.num_nodes if node.table is None else node.table.num_rows
    src, dst = (_numbers(edge.table, column, num_nodes, advice_of(node)) for column in (edge.src, edge.dst))
    if num_nodes is None:
        num_nodes = 1 + max(int(ids.max(initial=-1)) for ids in (src, dst))
    dtype, counted = index_dtype(num_nodes), Counter[str]()
    attributes = joined_attributes([(edge.table, attributes_of(edge))], nulls_are_earliest=False, what="edge")
    graph = Graph.from_coo(
        src.astype(dtype),
        dst.astype(dtype),
        num_nodes=num_nodes,
        edge_attrs={name: _attribute(edge, name, one) for name, one in attributes.items()} or None,
        node_attrs=_times_of_nodes(node, num_nodes),
    )
    store = FeatureStore(dict(_features(node, counted)), dict(_features(edge, counted)))
    num_repeats = len(src) - len(unique(dst * num_nodes + src))
    counts = {
        "edges that repeat another one, kept": num_repeats,
        **{f"labels {name} of {node.type} that are missing": count for name, count in counted.items()},
    }
    notes = {**notes, "counts": {what: count for what, count in counts.items() if count}}
    save_dataset(folder, graph, store, items=_items(node), notes=notes, overwrite=overwrite, progress=progress)
    return Manifest.read(folder)


def _node_and_edge(tables: Checked) -> tuple[NodeTable, EdgeTable]:
    """Return the only tables of nodes and of edges."""
    given = [one.name for one in fields(Options) if getattr(tables.options, one.name) != one.default]
    given = [name for name in given if name != "time_unit"]
    edges = [edge for _, edge in tables.edge_tables()]
    node, edge = next(iter(tables.nodes.values())), edges[0]
    columns = [(edge.table, edge.src), (edge.table, edge.dst)]
    what = "a graph with types, or of several tables" if tables.is_typed or tables.items or len(edges) > 1 else ""
    if given:
        what = f"the option {given[0]}"
    elif node.id is not None or node.external or any(table.column(name).is_text for table, name in columns):
        what = "ids that are keys"
    elif edge.split is not None or isinstance(node.splits, str) or edge.labels:
        what = "a column of splits, or of labels of edges"
    if what:
        needed_database(what)
    return node, edge


def _whole(table: Table, column: str) -> Iterator[tuple[int, NDArray[Any]]]:
    start = 0
    for chunk in table.chunks([column], _ROWS):
        yield start, chunk[column]
        start += len(chunk[column])


def _numbers(table: Table, column: str, num_nodes: int | None, advice: str) -> NDArray[np.int64]:
    """Return a column of ids, all of which are numbers of nodes."""
    found = [np.zeros(0, np.int64)]
    for start, values in _whole(table, column):
        of_chunk = integer_keys(table, column, values, start)
        ids, null = np.ma.getdata(of_chunk), np.ma.getmaskarray(of_chunk)
        unknown = null | (ids < 0) | (False if num_nodes is None else ids >= num_nodes)
        if unknown.any():
            place = int(unknown.argmax())
            if num_nodes is None and not null[place]:
                raise negative_number(table, column, start + place, int(ids[place]))
            refuse_unknown(table, column, start + place, advice)
        found.append(ids)
    return np.concatenate(found)


def _attribute(edge: EdgeTable, name: str, kind: Attribute) -> NDArray[Any]:
    column = attributes_of(edge)[name]
    found = [np.zeros(0, kind.dtype)]
    for start, values in _whole(edge.table, column):
        if value_without(name) == 1 and values.dtype.kind in "if":
            odd = ~((values >= 0) & np.isfinite(values))
            if odd.any():
                raise odd_weight(edge.table, column, start + int(odd.argmax()), values[odd.argmax()].item())
        null = np.isnan(values) if kind.is_time and values.dtype.kind == "f" else np.zeros(0, bool)
        if null.any():
            raise null_attribute(edge.table, column, start + int(null.argmax()), name, kind)
        found.append(values.astype(kind.dtype, copy=False))
    return np.concatenate(found)


def _times_of_nodes(node: NodeTable, num_nodes: int) -> dict[str, NDArray[Any]] | None:
    if node.table is None or node.time is None:
        return None
    kind = joined_attributes([(node.table, {"time": node.time})], nulls_are_earliest=False, what="node")["time"]
    pieces = time_pieces(node.table, node.time, num_nodes, kind, "refuse", _ROOM)
    return {"time": np.concatenate([np.zeros(0, kind.dtype), *pieces])}


def _features(owner: NodeTable | EdgeTable, counted: Counter[str]) -> Iterator[tuple[str, NDArray[Any]]]:
    if owner.table is None:
        return
    for names, is_label in ((owner.features, False), (owner.labels, True)):
        for name, columns in names.items():
            kind, missing = kind_of([(owner.table, columns)], name), Counter[str]()
            pieces = feature_pieces(owner.table, columns, kind, labels=is_label, kept=None, room=_ROOM, counted=missing)
            yield name, np.concatenate([np.zeros((0, *kind[1]), kind[0]), *pieces])
            counted[name] += missing["missing"]


def _items(node: NodeTable) -> dict[str, Items]:
    """Return the items that masks of nodes name, with the times of these."""
    if node.table is None or not isinstance(node.splits, Mapping):
        return {}
    times = _times_of_nodes(node, node.table.num_rows or 0)
    found = {}
    for name, column in node.splits.items():
        ids = [
            start + np.flatnonzero(mask_of(node.table, column, one, start)) for start, one in _whole(node.table, column)
        ]
        of_items = np.concatenate([np.zeros(0, np.int64), *ids])
        found[name] = Items(of_items, times=None if times is None else times["time"][of_items])
    return found
