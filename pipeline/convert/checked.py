"""A description that was checked: its types in their order, and every column that has ids of nodes of a type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args, get_type_hints

from headrace.ops import InputError
from headrace.pipeline.convert.description import (
    Columns,
    Description,
    EdgeTable,
    EdgeType,
    Items,
    NodeTable,
    Options,
    split_name,
)
from headrace.pipeline.convert.iso_times import with_times
from headrace.pipeline.convert.relations import with_relations
from headrace.pipeline.convert.table import Table, first_text
from headrace.pipeline.data.reverse_types import lacks_reverse, reverse_type


@dataclass(frozen=True, eq=False)
class Reference:
    """A column with ids of nodes of a type.

    Parameters
    ----------
    key
        A name for its files.
    """

    table: Table
    column: str
    type: str
    key: str


@dataclass(frozen=True, eq=False)
class Checked:
    """A description whose types and columns are there.

    Parameters
    ----------
    nodes
        By type, in the order of ids; also of types that edges alone name.
    edges
        By type, in the order of ids; by None in a graph without types.
    """

    nodes: Mapping[str, NodeTable]
    edges: Mapping[EdgeType | None, Sequence[EdgeTable]]
    items: Sequence[Items]
    options: Options
    tasks: Sequence[Mapping[str, Any]] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_typed(self) -> bool:
        """Whether the graph has types."""
        return None not in self.edges

    def ends(self, edge_type: EdgeType | None) -> tuple[str, str]:
        """Return the node types of sources and of destinations."""
        return (next(iter(self.nodes)),) * 2 if edge_type is None else (edge_type[0], edge_type[2])

    @property
    def are_reversed(self) -> list[EdgeType | None]:
        """The edge types that get a type of reverse edges; None in a graph without types, which gets the edges."""
        if self.options.reverse:
            return list(self.edges)
        if not self.options.undirected:
            return []
        apart = [one for one in self.edges if one is not None and one[0] != one[2]]
        return [one for one in apart if lacks_reverse(one, self.edges)]

    def references(self) -> Iterator[Reference]:
        """Yield the columns with ids of nodes, in a fixed order."""
        for number, (edge_type, edge) in enumerate(self.edge_tables()):
            src, dst = self.ends(edge_type)
            yield Reference(edge.table, edge.src, src, f"edges{number}.src")
            yield Reference(edge.table, edge.dst, dst, f"edges{number}.dst")
        for number, one in enumerate(self.items):
            for column, of_type, side in zip(*self.of_items(one), ("src", "dst"), strict=False):
                yield Reference(one.table, column, of_type, f"items{number}.{side}")

    def edge_reads(self) -> list[EdgeTable]:
        """Return the tables of edges, of those with relations in a column one: they are read together."""
        found: list[EdgeTable] = []
        for _, edge in self.edge_tables():
            if not any(one.reads_with(edge) for one in found):
                found.append(edge)
        return found

    def edge_tables(self) -> Iterator[tuple[EdgeType | None, EdgeTable]]:
        """Yield the tables of edges in the order of edge ids."""
        for edge_type, tables in self.edges.items():
            for table in tables:
                yield edge_type, table

    def of_items(self, items: Items) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns of ids of items, and the types of these."""
        columns = (items.ids,) if isinstance(items.ids, str) else tuple(items.ids)
        if isinstance(items.type, tuple):
            types: tuple[str, ...] = (items.type[0], items.type[2])
        else:
            types = (next(iter(self.nodes)) if items.type is None else items.type,) * 2
        return columns, types

    def tables(self) -> list[Table]:
        """Return all tables, each once."""
        found = [one.table for one in self.nodes.values() if one.table is not None]
        found += [one.table for _, one in self.edge_tables()]
        found += [one.table for one in self.items]
        return list({id(table): table for table in found}.values())


def checked(description: Description) -> Checked:
    """Check a description before anything is read.

    Raises
    ------
    InputError
        If a type is there twice or not at all, a column is missing, or an option has an unknown value.
    """
    if not isinstance(description, Description) or not description.edges:
        raise InputError(f"convert: expected a Description with tables of edges, got {description!r}")
    _check_options(description.options)
    description = with_relations(with_times(description))
    edges: dict[EdgeType | None, list[EdgeTable]] = {}
    for edge in description.edges:
        _check_edge(edge)
        edges.setdefault(edge.type, []).append(edge)
    if None in edges and len(edges) > 1:
        raise InputError(f"convert: expected all tables of edges to have types, or none, got {list(edges)}")
    repeated = {one.type for one in description.nodes if sum(one.type == other.type for other in description.nodes) > 1}
    if repeated:
        raise InputError(
            f"convert: expected one table for each node type, got several of {sorted(repeated)}; name several files as "
            "one table"
        )
    nodes = {one.type: one for one in description.nodes}
    if None in edges:
        if len(nodes) > 1:
            raise InputError(f"convert: expected edges with types, as there are the node types {list(nodes)}, got none")
        nodes = nodes or {"node": NodeTable()}
    for edge_type in edges:
        for end in (edge_type[0], edge_type[2]) if edge_type is not None else ():
            nodes.setdefault(end, NodeTable(end))
    for node in nodes.values():
        _check_node(node)
    nodes = {name: _with_split_names(node) for name, node in nodes.items()}
    items = tuple(replace(one, name=split_name(one.name)) for one in description.items)
    found = Checked(nodes, edges, items, description.options, description.tasks, description.notes)
    for one in found.items:
        _check_items(found, one)
    _check_added(found)
    for _, edge in found.edge_tables():
        if found.options.duplicate_edges == "sum":
            _check_sums(edge, found.options)
        if found.options.held_out == "drop":
            _check_held_out(edge)
    return found


def columns_of(columns: Columns) -> tuple[str, ...]:
    """Return the columns of a feature."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def attributes_of(edge: EdgeTable) -> dict[str, str]:
    """Return the columns of the attributes of edges by name, with weights and times."""
    extra = {name: column for name in ("weight", "time") if (column := getattr(edge, name)) is not None}
    return {**edge.attributes, **extra}


def _check_options(options: Options) -> None:
    for one in fields(options):
        value, allowed = getattr(options, one.name), get_args(get_type_hints(Options)[one.name])
        texts = [choice for choice in allowed if isinstance(choice, str)]
        choices: Sequence[Any] = texts or ([] if allowed else [True, False])
        kinds = [choice for choice in allowed if isinstance(choice, type)] or [str if texts else bool]
        if not isinstance(value, tuple(kinds)) or (texts and value not in texts) or value == "":
            expected = " or ".join(map(repr, choices)) or "a text, or None"
            raise InputError(f"convert: expected {one.name} to be {expected}, got {value!r}; correct it")


def _check_added(tables: Checked) -> None:
    """Refuse to add edges to types that cannot have them."""
    options = tables.options
    twice = [one for one in tables.edges if one is not None and reverse_type(one) in tables.edges]
    if options.reverse and twice:
        raise InputError(
            f"convert: expected no edge type {reverse_type(twice[0])} beside reverse=True (--reverse), got a table of "
            "it; leave one out"
        )
    apart = [one for one in tables.edges if one is not None and one[0] != one[2]]
    if options.held_out == "drop" and all(edge.split is None for _, edge in tables.edge_tables()):
        raise InputError(
            "convert: held_out='drop' (--held-out drop): expected a column of splits in a table of edges, got none; "
            "name it: split = COLUMN under [edges]"
        )
    if options.loops == "add" and len(apart) == len(tables.edges):
        raise InputError(
            "convert: loops='add' (--loops add): expected an edge type between nodes of one type, got "
            f"{','.join(apart[0])}; leave it out"
        )
    if options.reverse and (options.undirected or options.loops == "add"):
        other = "undirected=True (--undirected)" if options.undirected else "loops='add' (--loops add)"
        raise InputError(
            f"convert: expected reverse=True (--reverse) without {other}, got both; add them to the graph by its "
            "methods, or leave one out"
        )


def _check_held_out(edge: EdgeTable) -> None:
    """Refuse to hold out edges by a column that has no names: it is compared with some before it is read as items."""
    if edge.split is None or edge.table.is_empty(edge.split):
        return
    column = edge.table.column(edge.split)
    if not column.is_text:
        raise InputError(
            f"convert: {edge.table.name}: expected names of items in {edge.split!r}, got {column.dtype}; "
            "name a column of texts such as train"
        )


def _check_sums(edge: EdgeTable, options: Options) -> None:
    """Refuse to sum weights that are none, or of edges that are held out and others."""
    what, weight = "convert: duplicate_edges='sum' (--duplicate-edges sum)", attributes_of(edge).get("weight")
    if weight is None or edge.table.column(weight).dtype == bool:
        raise InputError(
            f"{what}: expected a column of weights in each table of edges, got "
            f"{'none' if weight is None else 'true and false'} in {edge.table.name}; name it: weight = COLUMN under "
            "[edges] of TOML, --weight COLUMN, or call an array of .npz weight"
        )
    if edge.split is not None and options.held_out == "keep":
        raise InputError(
            f"{what}: expected held_out='drop' (--held-out drop) beside a column of splits, as edges of val and test "
            "would add their weights to those of train, got 'keep'"
        )


def _check_edge(edge: EdgeTable) -> None:
    is_triple = isinstance(edge.type, tuple) and len(edge.type) == 3 and all(isinstance(one, str) for one in edge.type)
    if edge.type is not None and not is_triple:
        raise InputError(f"convert: expected (source type, relation, destination type), got {edge.type!r}")
    both = [name for name in ("weight", "time") if name in edge.attributes and getattr(edge, name) is not None]
    if both:
        raise InputError(f"convert: {edge.table.name}: expected one attribute {both[0]!r}, got it in two places")
    relation = [] if edge.relation is None else [edge.relation]
    _check_columns(edge.table, [edge.src, edge.dst, *relation, *attributes_of(edge).values()])
    _check_rows(edge.table, edge.features, edge.labels)
    if edge.split is not None:
        edge.table.column(edge.split)


def _check_node(node: NodeTable) -> None:
    if node.table is None:
        if node.features or node.labels or node.time or node.splits or node.id:
            raise InputError(f"convert: expected a table of nodes of type {node.type!r} with its columns, got none")
        return
    if node.external:
        raise InputError(f"convert: expected id= with a table of nodes of type {node.type!r}, got external=True")
    _check_columns(node.table, [one for one in (node.id, node.time) if one is not None])
    _check_rows(node.table, node.features, node.labels)
    splits = () if node.splits is None else (node.splits,) if isinstance(node.splits, str) else node.splits.values()
    for column in splits:
        node.table.column(column)


def _with_split_names(node: NodeTable) -> NodeTable:
    if node.splits is None or isinstance(node.splits, str):
        return node
    names = {split_name(name): column for name, column in node.splits.items()}
    if len(names) < len(node.splits):
        raise InputError(
            f"convert: expected one column for each split of {node.type!r}, got {list(node.splits)}, of which some are "
            "the same; leave one out"
        )
    return replace(node, splits=names)


def _check_rows(table: Table, features: Mapping[str, Columns], labels: Mapping[str, str]) -> None:
    twice = sorted(set(features) & set(labels))
    if twice:
        raise InputError(f"convert: {table.name}: expected features and labels of different names, got both of {twice}")
    for name, some in features.items():
        columns = columns_of(some)
        found = [table.column(one) for one in columns]
        texts = [column for column, one in zip(columns, found, strict=True) if one.is_text]
        if texts:
            raise InputError(
                f"convert: {table.name}: expected numbers in {texts[0]!r} of feature {name!r}, got "
                f"{first_text(table, texts[0])}; correct it, or make a column of texts labels, which numbers them: "
                f"labels = {texts[0]!r}"
            )
        if not columns or (len(columns) > 1 and any(one.shape for one in found)):
            came = {column: str(list(one.shape)) for column, one in zip(columns, found, strict=True)}
            raise InputError(
                f"convert: {table.name}: expected feature {name!r} of one column, or of several with one number in a "
                f"row, got rows of {came}; name each as a feature of its own"
            )
    for name, column in labels.items():
        if table.column(column).is_text:
            raise InputError(
                f"convert: {table.name}: expected labels {name!r} to be numbers, got texts in {column!r}; number the "
                "classes"
            )


def _check_columns(table: Table, names: Sequence[str]) -> None:
    for name in names:
        if table.column(name).shape:
            raise InputError(f"convert: {table.name}: expected one number or text a row in {name!r}, got vectors")


def _check_items(description: Checked, items: Items) -> None:
    columns, types = description.of_items(items)
    known = list(description.nodes)
    unknown = [one for one in types if one not in known]
    if unknown:
        raise InputError(f"convert: items {items.name!r}: there is no node type {unknown[0]!r}; the types are {known}")
    if isinstance(items.type, tuple) and items.type not in description.edges:
        raise InputError(
            f"convert: items {items.name!r}: there is no edge type {items.type}; the types are "
            f"{list(description.edges)}"
        )
    if (items.type is None) == description.is_typed:
        raise InputError(f"convert: items {items.name!r}: expected a type exactly where edges have types")
    pairs = isinstance(items.type, tuple)
    if (
        len(columns) not in (1, 2)
        or (pairs and len(columns) == 1)
        or (isinstance(items.type, str) and len(columns) > 1)
    ):
        raise InputError(f"convert: items {items.name!r}: expected the columns of nodes, or of two ends, got {columns}")
    _check_columns(items.table, [*columns, *([items.time] if items.time else [])])
    if items.labels is not None and items.table.column(items.labels).is_text:
        raise InputError(
            f"convert: items {items.name!r}: expected labels to be numbers, got texts in {items.table.name} "
            f"{items.labels!r}; write the numbers of classes"
        )
