"""Tables described by a short TOML file, or by options of the command, which are the same fields.

::

    [nodes.user]                       # or [nodes], of a graph without types
    files = "users.csv"                # also several, a pattern, a folder; Parquet, .npy and .npz alike
    id = "user_id"                     # texts or integers; without it nodes are numbered by their rows
    features = ["x*", "age"]           # or { x = ["a", "b"] }: columns side by side are one feature
    labels = "class"                   # or { y = "class" }; texts become numbers
    time = "joined"
    split = "split"                    # a column of names; or splits = { train = "is_train" }

    [edges."user,buys,item"]           # or [edges]; "user,*,item" with relation = "TYPE": a type for each text in TYPE
    files = "buys.csv"
    src = "user"
    dst = "item"
    weight = "amount"
    time = "day"

    [items."train"]                    # items in a file of their own
    files = "train.csv"
    ids = "user_id"
    type = "user"

    [options]
    unknown_ids = "drop"               # the fields of `headrace.pipeline.convert.description.Options`

Tables of text may have ``separator``, ``names`` (of files without a header), ``types`` (of columns), ``comment`` (the
character at the beginning of lines to leave out), ``skip`` (how many lines of each file), ``null_values`` (texts that
mean null) and ``escape`` (a character that makes the next one plain). In place of files tables may have ``columns``
(``{ src = ["edges.npy", 0], dst = ["edges.npy", 1] }``), and nodes ``num_nodes``, ``external``.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.ops.errors import InputError
from headrace.ops.names import close_name
from headrace.pipeline.convert.description import (
    ANY,
    Columns,
    Description,
    EdgeTable,
    EdgeType,
    Items,
    NodeTable,
    Options,
)
from headrace.pipeline.convert.files import natural_key
from headrace.pipeline.convert.formats.csv_fields import FIELDS, csv_options, refuse_headers, texts_of
from headrace.pipeline.convert.formats.labels import with_numbered_labels
from headrace.pipeline.convert.formats.source_files import array_table, inside, table_in, text_of
from headrace.pipeline.convert.formats.views import Cast
from headrace.pipeline.convert.table import Table, first_text

_TABLE = ("files", "columns", *FIELDS)
_NODES = (*_TABLE, "id", "num_nodes", "external", "features", "labels", "time", "split", "splits")
_EDGES = (*_TABLE, "src", "dst", "relation", "features", "attributes", "weight", "time", "labels", "split")
_ITEMS = (*_TABLE, "ids", "type", "labels", "time")
_SECTIONS = ("nodes", "edges", "items", "options")


def read_toml(path: Path) -> Description:
    """Read a description in TOML; its files are below its folder.

    Raises
    ------
    InputError
        If it is no TOML, or a field is unknown (with the nearest one) or of another kind.
    """
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        from headrace.ops.optional import require

        tomllib = require("tomli", extra="convert", stage="TOML with Python 3.10")
    text = text_of(path)
    try:
        fields = tomllib.loads(text)
    except (ValueError, RecursionError) as cause:
        raise InputError(f"convert: expected TOML in {path}, but {cause}") from cause
    return description_of(fields, path.parent, str(path))


def description_of(fields: Mapping[str, Any], folder: Path, what: str) -> Description:
    """Return the description in fields as TOML has them; errors begin with `what`.

    Raises
    ------
    InputError
        If a field is unknown, missing, or of another kind, or a table cannot be opened.
    """
    _known(fields, _SECTIONS, what)
    edges, nodes, items = (_section(fields.get(name, {}), f"{what}: {name}") for name in ("edges", "nodes", "items"))
    if not edges:
        raise InputError(f'{what}: expected a table [edges], or one for each type, [edges."user,buys,item"]')
    plain = "files" in edges or "columns" in edges
    of_nodes = {"node": nodes} if _is_one_table(nodes) else nodes
    of_edges: dict[EdgeType | None, Any]
    if plain:
        of_edges = {_ends_of_relations(list(of_nodes), what) if "relation" in edges else None: edges}
    else:
        of_edges = {_edge_type(name, what): one for name, one in edges.items()}
    if not plain and of_nodes:
        _refuse_unknown_types(of_edges, list(of_nodes), what)
    options = _section(fields.get("options", {}), f"{what}: options")
    _known(options, [one.name for one in dataclasses.fields(Options)], f"{what}: options")
    found = Description(
        [_edges(_section(one, f"{what}: edges {name}"), name, folder, what) for name, one in of_edges.items()],
        [_nodes(_section(one, f"{what}: nodes {name}"), name, folder, what) for name, one in of_nodes.items()],
        [_items(_section(one, f"{what}: items {name}"), name, folder, what) for name, one in items.items()],
        Options(**options),
    )
    _refuse_texts_as_numbers(found, what)
    return with_numbered_labels(found)


def features_of(table: Table, given: Any, what: str) -> dict[str, Columns]:
    """Return features by name: ``["x*", "age"]``, or ``{"x": ["a", "b*"], "age": "age"}``.

    A pattern is a feature of all columns that match, in the order of the numbers in their names; it is called as what
    stands before ``*``.

    Raises
    ------
    InputError
        If there is no such column.
    """
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Mapping):
        found: dict[str, Columns] = {}
        for name, some in given.items():
            columns = [one for part in texts_of(some, what) for one in _matching(table, part, what)]
            found[name] = columns[0] if isinstance(some, str) and len(columns) == 1 else columns
        return found
    by_name: dict[str, Columns] = {}
    for one in texts_of(given, what):
        columns = _matching(table, one, what)
        by_name[one.replace("*", "").strip("_ ") or "x"] = columns if "*" in one else columns[0]
    return by_name


def with_float32(table: Table, features: Mapping[str, Columns], others: Sequence[str | None]) -> Table:
    """Return a table of text with the numbers of its features as models take them, in float32.

    Features of one column of integers stay integers, and so do columns that are read for something else, too.
    """
    if table.states_dtypes:
        return table
    single = np.dtype(np.float32)
    casts = {}
    for some in features.values():
        for name in [some] if isinstance(some, str) else some:
            is_float = table.column(name).dtype.kind == "f" or not isinstance(some, str)
            if is_float and name not in others and not table.column(name).is_text:
                casts[name] = single
    advice = "correct it, or write the table in Parquet, which keeps its dtypes"
    return Cast(table, casts, advice) if casts else table


def _nodes(fields: Mapping[str, Any], name: str, folder: Path, what: str) -> NodeTable:
    what = f"{what}: nodes {name}"
    _known(fields, _NODES, what)
    count, external = fields.get("num_nodes"), fields.get("external", False)
    if (count is not None and type(count) is not int) or not isinstance(external, bool):
        raise InputError(f"{what}: expected num_nodes to be an integer and external true or false, got {dict(fields)}")
    if "files" not in fields and "columns" not in fields:
        of_columns = [one for one in fields if one not in ("num_nodes", "external")]
        if of_columns:
            raise InputError(
                f"{what}: expected files = or columns = with {', '.join(of_columns)}, got none; name the files that "
                "have a row for each node"
            )
        return NodeTable(name, num_nodes=count, external=external)
    table = _table(fields, folder, what)
    own, time, split = (_column(table, fields.get(key), f"{what}: {key}") for key in ("id", "time", "split"))
    features = features_of(table, fields.get("features", ()), f"{what}: features")
    labels = _columns(table, fields.get("labels", {}), f"{what}: labels")
    splits = _columns(table, fields.get("splits", {}), f"{what}: splits")
    table = with_float32(table, features, [own, time, split, *labels.values(), *splits.values()])
    return NodeTable(name, table, own, count, external, features, labels, time, split or splits or None)


def _edges(fields: Mapping[str, Any], name: EdgeType | None, folder: Path, what: str) -> EdgeTable:
    what = f"{what}: edges{'' if name is None else ' ' + ','.join(name)}"
    _known(fields, _EDGES, what)
    table = _table(fields, folder, what)
    ends = [_column(table, fields.get(key, key), f"{what}: {key}") for key in ("src", "dst")]
    weight, time, split = (_column(table, fields.get(key), f"{what}: {key}") for key in ("weight", "time", "split"))
    features = features_of(table, fields.get("features", ()), f"{what}: features")
    attributes, labels = (_columns(table, fields.get(key, {}), f"{what}: {key}") for key in ("attributes", "labels"))
    relation = _relation(table, fields.get("relation"), name, what)
    # Weights are drawn by in floating point.
    floats = features if weight is None else {**features, " weight": [weight]}
    table = with_float32(table, floats, [*ends, time, split, *labels.values(), *attributes.values()])
    src, dst = (str(one) for one in ends)
    return EdgeTable(table, name, src, dst, attributes, features, weight, time, labels, split, relation)


def _ends_of_relations(node_types: Sequence[str], what: str) -> EdgeType:
    """Return the edge type of a table of all relations, between nodes of the only type."""
    if len(node_types) > 1:
        raise InputError(
            f'{what}: edges: expected the types of ends, as [edges."SOURCE,{ANY},DESTINATION"], got the node types '
            f"{', '.join(node_types)}; name two of them"
        )
    of_type = node_types[0] if node_types else "node"
    return of_type, ANY, of_type


def _relation(table: Table, given: Any, name: EdgeType | None, what: str) -> str | None:
    """Return the column of relations, which is there exactly where the edge type leaves the relation open."""
    column = _column(table, given, f"{what}: relation")
    if name is None or (column is None and name[1] != ANY):
        return None
    general = f'"{name[0]},{ANY},{name[2]}"'
    if column is None:
        raise InputError(f"{what}: expected relation = COLUMN with the edge type {general}, got none; name the column")
    if name[1] != ANY:
        raise InputError(
            f"{what}: expected the edge type {general} with relation = {column!r}, got {','.join(name)!r}; write * for "
            "the relation, or leave the column out"
        )
    if not table.column(column).is_text:
        raise InputError(
            f"{what}: relation: expected texts in {column!r}, got {table.column(column).dtype}; of CSV write types = "
            f'{{ {column} = "text" }}'
        )
    return column


def _items(fields: Mapping[str, Any], name: str, folder: Path, what: str) -> Items:
    what = f"{what}: items {name}"
    _known(fields, _ITEMS, what)
    table = _table(fields, folder, what)
    ids = fields.get("ids", "id")
    columns = [_column(table, one, f"{what}: ids") for one in texts_of(ids, what)]
    of_type = fields.get("type")
    if of_type is not None and not isinstance(of_type, str):
        raise InputError(f'{what}: expected type to be a node type, or "user,buys,item", got {of_type!r}')
    kind = _edge_type(of_type, what) if of_type is not None and "," in of_type else of_type
    labels, time = (_column(table, fields.get(key), f"{what}: {key}") for key in ("labels", "time"))
    named = [str(one) for one in columns]
    return Items(name, table, named[0] if isinstance(ids, str) else named, kind, labels, time)


def _table(fields: Mapping[str, Any], folder: Path, what: str) -> Table:
    if ("files" in fields) == ("columns" in fields):
        raise InputError(f"{what}: expected files = or columns =, got {'both' if 'files' in fields else 'none'}")
    options = csv_options(fields, what)
    if "files" in fields:
        files = texts_of(fields["files"], f"{what}: files")
        if "names" in options:
            refuse_headers(inside(folder, files), options)
        return table_in(folder, files, **options)
    if options:
        raise InputError(f"{what}: expected {next(iter(options))} with files = alone, got columns =; leave it out")
    columns: dict[str, list[Path] | tuple[list[Path], int]] = {}
    for name, given in _section(fields["columns"], f"{what}: columns").items():
        pair = isinstance(given, list) and len(given) == 2 and type(given[1]) is int
        paths = inside(folder, texts_of(given[0] if pair else given, f"{what}: columns"))
        columns[name] = (paths, given[1]) if pair else paths
    return array_table(columns)


def _column(table: Table, name: Any, what: str) -> str | None:
    """Return the name of a column that must be there; None for none."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise InputError(f"{what}: expected the name of a column, got {name!r}")
    if name not in table.columns:
        close = close_name(name, table.columns)
        advice = f"; did you mean {close}?" if close else ""
        raise InputError(f"{what}: {table.name} has no column {name!r}; its columns are {list(table.columns)}{advice}")
    return name


def _columns(table: Table, given: Any, what: str) -> dict[str, str]:
    """Return columns by name: ``"y"``, ``["y", "z"]``, or ``{"y": "class"}``."""
    by_name = given if isinstance(given, Mapping) else {one: one for one in texts_of(given, what)}
    return {name: str(_column(table, column, what)) for name, column in by_name.items()}


def _matching(table: Table, pattern: str, what: str) -> list[str]:
    if "*" not in pattern:
        return [str(_column(table, pattern, what))]
    found = sorted(fnmatch.filter(table.columns, pattern), key=lambda name: natural_key(Path(name)))
    if not found:
        raise InputError(f"{what}: {table.name} has no column like {pattern!r}; its columns are {list(table.columns)}")
    return found


def _edge_type(name: str, what: str) -> EdgeType:
    parts = tuple(part.strip() for part in name.split(","))
    if len(parts) != 3 or not all(parts):
        raise InputError(f'{what}: expected an edge type such as "user,buys,item", got {name!r}')
    return parts[0], parts[1], parts[2]


def _is_one_table(nodes: Mapping[str, Any]) -> bool:
    """Return whether [nodes] has the fields of one table, rather than a section for each type."""
    fields = set(_NODES)
    return any(name in fields and not (isinstance(one, Mapping) and set(one) <= fields) for name, one in nodes.items())


def _refuse_texts_as_numbers(description: Description, what: str) -> None:
    """Refuse ids that are texts of types that have num_nodes and no table: they would be numbered, whatever it is."""
    counts = {one.type: one.num_nodes for one in description.nodes if one.table is None and not one.external}
    for table, columns, kind in (
        *((one.table, (one.src, one.dst), one.type) for one in description.edges),
        *((one.table, (one.ids,) if isinstance(one.ids, str) else one.ids, one.type) for one in description.items),
    ):
        types = (kind[0], kind[2]) if isinstance(kind, tuple) else (kind or "node",) * 2
        for column, of_type in zip(columns, types, strict=False):
            if counts.get(of_type) is not None and "integers" not in table.id_kinds(column):
                raise InputError(
                    f"{what}: expected node numbers below num_nodes = {counts[of_type]} in {column!r}, got "
                    f"{first_text(table, column)}; correct it, or write external = true for ids that are keys"
                )


def _refuse_unknown_types(edges: Iterable[EdgeType | None], nodes: Sequence[str], what: str) -> None:
    """Refuse a type of nodes that edges name and no table does, which is rather another one that was misspelt."""
    for edge_type in edges:
        for end in (edge_type[0], edge_type[2]) if edge_type is not None else ():
            if end not in nodes:
                close = close_name(end, nodes)
                advice = f"did you mean {close}?" if close else f"add [nodes.{end}], which may be empty"
                raise InputError(
                    f"{what}: edges {','.join(edge_type or ())}: expected types of nodes among {', '.join(nodes)}, got "
                    f"{end!r}; {advice}"
                )


def _section(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{what}: expected a table of fields, got {value!r}")
    return value


def _known(fields: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    for name in fields:
        if name not in known:
            close = close_name(name, known)
            advice = f"did you mean {close}?" if close else "leave it out"
            raise InputError(f"{what}: expected fields among {', '.join(known)}, got {name!r}; {advice}")
