"""DGL's CSVDataset: ``meta.yaml`` with CSV files of nodes and edges, of one graph.

Every column but ids is a feature by its name, as DGL has it; ``label`` is a label, masks are items, times are times.
Columns without a name are left out, and fields such as ``"1,2"`` are lists, as DGL does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.description import Columns, Description, EdgeTable, EdgeType, NodeTable
from headrace.pipeline.convert.formats.described import with_float32
from headrace.pipeline.convert.formats.fields import Fields
from headrace.pipeline.convert.formats.labels import numbered
from headrace.pipeline.convert.formats.source_files import inside, text_of
from headrace.pipeline.convert.formats.yaml_text import parse_yaml
from headrace.pipeline.convert.table import Table

_TOP = ("version", "dataset_name", "separator", "node_data", "edge_data", "graph_data")
_NODE = ("file_name", "ntype", "node_id_field", "graph_id_field")
_EDGE = ("file_name", "etype", "src_id_field", "dst_id_field", "graph_id_field")
_MASK = "_mask"
_TIMES = ("time", "timestamp")


def read_dgl(folder: Path) -> Description:
    """Return the description of a folder with ``meta.yaml``.

    Raises
    ------
    InputError
        If a field is missing or of another kind, a file is missing, malformed or elsewhere, or there are many graphs.
    """
    path = folder / "meta.yaml"
    top = Fields(parse_yaml(text_of(path), str(path)), str(path), _TOP)
    if top.value.get("graph_data") is not None:
        raise InputError(f"convert: {path}: expected one graph, got graph_data, which is of many; convert one graph")
    separator = top.maybe("separator", str)
    options: dict[str, Any] = {} if separator is None else {"separator": separator}
    nodes = [_nodes(one, _table(folder, one, options)) for one in top.each("node_data", _NODE)]
    edges = [_edges(one, _table(folder, one, options)) for one in top.each("edge_data", _EDGE)]
    typed = any(edge.type is not None for edge in edges)
    if not typed and len(nodes) == 1:
        nodes = [NodeTable("node", *_rest(nodes[0]))]
    return Description(edges, nodes)


def _table(folder: Path, one: Fields, options: dict[str, Any]) -> CsvTable:
    table = CsvTable(inside(folder, one.take("file_name", str)), **options)
    table.take_lists()
    return table


def _rest(node: NodeTable) -> tuple[Any, ...]:
    return (
        node.table,
        node.id,
        node.num_nodes,
        node.external,
        node.features,
        node.labels,
        node.time,
        node.splits,
    )


def _nodes(one: Fields, table: Table) -> NodeTable:
    own = one.take("node_id_field", str, "node_id")
    columns = _columns(one, table, [own])
    labels, features, masks, time = _kinds(columns, table)
    table = with_float32(table, features, [])
    return NodeTable(
        one.take("ntype", str, "_V"), numbered(table, labels), own, None, False, features, labels, time, masks or None
    )


def _edges(one: Fields, table: Table) -> EdgeTable:
    src, dst = one.take("src_id_field", str, "src_id"), one.take("dst_id_field", str, "dst_id")
    columns = _columns(one, table, [src, dst])
    labels, features, masks, time = _kinds(columns, table)
    features |= {f"{name}{_MASK}": column for name, column in masks.items()}
    names = one.texts("etype")
    if names and len(names) != 3:
        raise InputError(f"convert: {one.what}: expected etype: [user, follows, item], got {names}")
    edge_type: EdgeType | None = (names[0], names[1], names[2]) if names else None
    weights = {name: column for name, column in features.items() if name == "weight" and isinstance(column, str)}
    features = {name: column for name, column in features.items() if name not in weights}
    table = numbered(with_float32(table, features, []), labels)
    return EdgeTable(table, edge_type, src, dst, {}, features, weights.get("weight"), time, labels)


def _columns(one: Fields, table: Table, ids: list[str]) -> list[str]:
    """Return the columns that are no ids, of one graph."""
    for name in ids:
        table.column(name)
    graph = one.take("graph_id_field", str, "graph_id")
    if graph in table.columns:
        graphs = {int(number) for chunk in table.chunks([graph], 1 << 16) for number in chunk[graph]}
        if len(graphs) > 1:
            raise InputError(
                f"convert: {one.what}: expected one graph, got {len(graphs)} in {graph}; convert one graph"
            )
    # The index of a pandas.DataFrame: in its first file, and in a file of what was read from that.
    unnamed = [name for name in table.columns if not name or name.startswith("Unnamed: ")]
    if unnamed:
        warn_user(
            f"convert: left out of {table.name} the column {', '.join(map(repr, unnamed))}, which has no name; give it "
            "one to have it as a feature, or write the file by to_csv(index=False)"
        )
    return [name for name in table.columns if name not in (*ids, graph, *unnamed)]


def _kinds(columns: list[str], table: Table) -> tuple[dict[str, str], dict[str, Columns], dict[str, str], str | None]:
    """Return labels, features, masks and the column of times."""
    masks = {
        name.removesuffix(_MASK): name
        for name in columns
        if name.endswith(_MASK) and table.column(name).dtype.kind in "bi" and not table.column(name).shape
    }
    flat = [name for name in columns if not table.column(name).shape and name not in masks.values()]
    labels = {name: name for name in flat if name == "label"}
    time = next((name for name in flat if name in _TIMES), None)
    features: dict[str, Columns] = {}
    for name in columns:
        if name in masks.values() or name in labels or name == time:
            continue
        if table.column(name).is_text:
            raise InputError(
                f"convert: {table.name}: expected numbers, or lists of numbers in quotes, in {name!r}, got texts; "
                "remove the column, or describe the tables in TOML"
            )
        features[name] = name
    return labels, features, masks, time
