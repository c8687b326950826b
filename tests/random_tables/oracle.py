"""The data set that tables become, row by row: dictionaries and lists, and no array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from random_tables.answer import Answer, Edges, ItemRows
from random_tables.cells import labels, numbers, settled_kind, side_by_side, texts, without_nulls
from random_tables.described import (
    SPLITS,
    Described,
    EdgeType,
    by_name,
    edge_section,
    edges_in_words,
    ends_of,
    features_of,
    item_columns,
    item_type,
)
from random_tables.numbering import IdColumns, number_nodes
from random_tables.tables import ABSENT, EARLIEST, MISSING, Judge, Numbers, Table
from random_tables.times import Times, as_numbers, in_one_unit, times


def read_tables(description: Mapping[str, Any], tables: Mapping[str, Table], judge: Judge) -> Answer:
    """Return what the data set must have; reasons to refuse the tables are noted with the judge.

    Parameters
    ----------
    description, tables
        As of `Described`.
    """
    described = Described(description, tables)
    nodes, ends = number_nodes(described, judge)
    answer = Answer(nodes, warnings=judge.warnings)
    for node_type, one in nodes.items():
        answer.count(f"nodes of {node_type} added", one.num_added)
    columns = {}
    for attribute, section, name in described.time_columns():
        column, table = described.column(section, name)
        columns[section] = times(column, table, judge), column, table, attribute
    answer.time_unit = in_one_unit([*columns.values()], described.options.get("time_unit"), judge)
    reading = _Reading(described, judge, answer, ends, {section: found for section, (found, *_) in columns.items()})
    for edge_type in described.edges:
        reading.read_edges(edge_type)
    reading.join_attributes()
    for node_type in described.nodes:
        if f"nodes.{node_type}" in tables:
            reading.read_nodes(node_type)
    for name in described.items:
        reading.read_items(name)
    return answer


class _Reading:
    def __init__(
        self, described: Described, judge: Judge, answer: Answer, ends: IdColumns, found_times: dict[str, Times]
    ) -> None:
        self.described = described
        self.options = described.options
        self.judge = judge
        self.answer = answer
        self.ends = ends
        self.times = found_times

    # Edges

    def read_edges(self, edge_type: EdgeType | None) -> None:
        section, fields = edge_section(edge_type), self.described.edges[edge_type]
        table = self.described.tables[section]
        kept, pairs = self.kept_rows(section, ends_of(edge_type), ("src", "dst"), edges_in_words(edge_type))
        edges = self.answer.edges[edge_type] = Edges(pairs, kept)
        if edge_type is None and not self.described.nodes["node"].keys() & {"id", "files", "num_nodes"}:
            self.count_ids_in_both_columns(section, fields)
        read = self.columns_of(section, fields, kept, ("edge", edge_type), edges_in_words(edge_type))
        attributes = by_name(fields.get("attributes", {})) | (
            {"weight": fields["weight"]} if "weight" in fields else {}
        )
        for name, column_name in attributes.items():
            is_weight = name == "weight" or name.endswith("_weight")
            rows = numbers(table.columns[column_name], table, self.judge, "weight" if name == "weight" else "attribute")
            reason = f"no {'weight' if is_weight else 'number'} in {column_name!r}"
            is_wrong = _is_no_weight if is_weight else None
            rows = without_nulls(rows, kept, table, self.judge, reason, is_wrong=is_wrong)
            self.answer.edge_attrs.setdefault(name, {})[edge_type] = rows
        own_times = None
        if section in self.times:
            own_times = as_numbers(self.times[section], kept, self.answer.time_unit)
            self.answer.edge_attrs.setdefault("time", {})[edge_type] = own_times
        if "split" in fields:
            names = by_name(fields.get("labels", {}))
            own_labels = read[next(iter(names))] if len(names) == 1 else None
            self.add_items(
                self.names_of_splits(section, fields["split"]), kept, edge_type, pairs, own_labels, own_times
            )
        self.add_loops(edge_type, edges, read, attributes, table)

    def kept_rows(
        self, section: str, types: Sequence[str], roles: Sequence[str], what: str
    ) -> tuple[list[int], list[Any]]:
        """The rows of edges or items that no policy leaves out, with the numbers of their nodes."""
        table, found, options = self.described.tables[section], self.times.get(section), self.options
        sides = [(self.ends[section, role], self.answer.nodes[end]) for role, end in zip(roles, types, strict=True)]
        are_edges = section.startswith("edges")
        kept, numbers_of_kept, seen = [], [], set()
        for row in range(table.num_rows):
            keys = [side.keys[row] for side, _ in sides]
            number = tuple(nodes.numbers.get(key) for key, (_, nodes) in zip(keys, sides, strict=True))
            if None in number:
                if options["unknown_ids"] == "refuse" or (options["unknown_ids"] == "create" and None in keys):
                    self.judge.refuse("an unknown id", table, [row])
                self.answer.count(f"{what} {'to' if are_edges else 'of'} unknown nodes left out", 1)
                continue
            is_loop = are_edges and types[0] == types[1] and number[0] == number[1]
            if is_loop and options["loops"] == "drop":
                self.answer.count(f"{what} that are loops left out", 1)
                continue
            if found is not None and found.values[row] is None:
                if options["null_times"] == "refuse":
                    self.judge.refuse("no time", table, [row])
                if options["null_times"] == "drop":
                    self.answer.count(f"{what} without a time left out", 1)
                    continue
                if are_edges:
                    self.answer.count(f"{what} without a time made the earliest", 1)
            if are_edges and number in seen:
                is_left_out = options["duplicate_edges"] == "drop"
                self.answer.count(f"{what} that repeat another one, {'left out' if is_left_out else 'kept'}", 1)
                if is_left_out:
                    continue
            seen.add(number)
            kept.append(row)
            numbers_of_kept.append(number if len(number) > 1 else number[0])
        return kept, numbers_of_kept

    def count_ids_in_both_columns(self, section: str, fields: Mapping[str, Any]) -> None:
        names = [fields.get(role, role) for role in ("src", "dst")]
        if not self.answer.nodes["node"].are_numbers and names[0] != names[1]:
            src, dst = ({*self.ends[section, role].keys} - {None} for role in ("src", "dst"))
            what = f"ids that are both in {names[0]!r} and in {names[1]!r}, one node each"
            self.answer.count(f"{what} (if they are of two types, describe these in TOML)", len(src & dst))

    def add_loops(
        self,
        edge_type: EdgeType | None,
        edges: Edges,
        read: Mapping[str, Numbers],
        attributes: Mapping[str, str],
        table: Table,
    ) -> None:
        """Add one to each node that has none, behind the other edges."""
        src_type, dst_type = ends_of(edge_type)
        if self.options["loops"] != "add" or src_type != dst_type:
            return
        there = {*edges.ends}
        lacking = [node for node in range(len(self.answer.nodes[src_type].order)) if (node, node) not in there]
        edges.ends += [(node, node) for node in lacking]
        self.answer.count(f"{edges_in_words(edge_type)} that are loops added", len(lacking))
        of_labels = by_name(self.described.edges[edge_type].get("labels", {}))
        for name, rows in read.items():
            self.add_rows(rows, MISSING if name in of_labels else 1, len(lacking), table)
        for name in attributes:
            self.answer.edge_attrs[name][edge_type].values += [1] * len(lacking)
        if edge_section(edge_type) in self.times:
            self.answer.edge_attrs["time"][edge_type].values += [EARLIEST] * len(lacking)

    def join_attributes(self) -> None:
        """Let an attribute have one dtype in all types."""
        for name, of_types in self.answer.edge_attrs.items():
            dtypes = {rows.dtypes for rows in of_types.values()}
            if name != "time" and len(dtypes) > 1 and self.judge.choose("attributes of several dtypes") == "refuse":
                for edge_type in of_types:
                    table = self.described.tables[edge_section(edge_type)]
                    self.judge.refuse(f"{name!r} of several dtypes", table, words=[repr(name)])

    # Columns

    def columns_of(
        self, section: str, fields: Mapping[str, Any], kept: Sequence[int], owner: tuple[str, Any], what: str
    ) -> dict[str, Numbers]:
        """Read features and labels of the rows that stay."""
        table, read = self.described.tables[section], {}
        of_features = features_of([*table.columns], fields.get("features", ()))
        in_wide = {name for some in of_features.values() if not isinstance(some, str) for name in some}
        for name, some in of_features.items():
            if isinstance(some, str):
                rows = numbers(table.columns[some], table, self.judge, "feature", is_wide_too=some in in_wide)
            else:
                rows = side_by_side([table.columns[one] for one in some], table, self.judge)
            read[name] = without_nulls(rows, kept, table, self.judge, f"null in {some!r}")
        for name, column_name in by_name(fields.get("labels", {})).items():
            read[name] = self.labels_of(table, column_name, kept, f"labels {name} of {what}")
        self.answer.features |= {(*owner, name): rows for name, rows in read.items()}
        return read

    def labels_of(self, table: Table, column_name: str, kept: Sequence[int], what: str) -> Numbers:
        rows, classes = labels(table.columns[column_name], kept, table, self.judge)
        if classes is not None:
            self.answer.classes[table.files[0], column_name] = classes
        self.answer.count(f"{what} that are missing", rows.values.count(MISSING))
        return rows

    def add_rows(self, rows: Numbers, value: Any, count: int, table: Table) -> None:
        """Add rows of nodes or edges that no table has."""
        rows.values += [value] * count
        has_room = rows.dtypes is None or any(one[0] in "if" for one in rows.dtypes)
        if value is MISSING and count and not has_room:
            if self.judge.choose("booleans or unsigned labels with nulls") == "refuse":
                self.judge.refuse("labels without room for -100", table, words=["labels"])
            rows.dtypes = None

    # Nodes and items

    def read_nodes(self, node_type: str) -> None:
        section, fields = f"nodes.{node_type}", self.described.nodes[node_type]
        table, num_added = self.described.tables[section], self.answer.nodes[node_type].num_added
        rows = range(table.num_rows)
        own_times = None
        if section in self.times:
            own_times = as_numbers(self.times[section], rows, self.answer.time_unit)
            if self.options["null_times"] != "earliest":
                self.judge.refuse("no time", table, [row for row in rows if self.times[section].values[row] is None])
            more = Numbers([*own_times.values, *[EARLIEST] * num_added], own_times.dtypes)
            self.answer.node_attrs.setdefault("time", {})[node_type] = more
        if "split" in fields:
            names = self.names_of_splits(section, fields["split"])
            self.add_items(names, rows, node_type, rows, None, own_times)
        for name, column_name in fields.get("splits", {}).items():
            names = [SPLITS.get(name.lower(), name) if is_one else None for is_one in self.mask(table, column_name)]
            self.add_items(names, rows, node_type, rows, None, own_times)
        of_labels = by_name(fields.get("labels", {}))
        for name, one in self.columns_of(section, fields, rows, ("node", node_type), node_type).items():
            self.add_rows(one, MISSING if name in of_labels else ABSENT, num_added, table)

    def add_items(
        self,
        names: Sequence[str | None],
        kept: Sequence[int],
        of_type: Any,
        ids: Sequence[Any],
        own_labels: Numbers | None,
        own_times: Numbers | None,
    ) -> None:
        """Add those of the rows that stay, in their order, to the items of their names."""
        places: dict[str, list[int]] = {}
        for place, row in enumerate(kept):
            if names[row] is not None:
                places.setdefault(str(names[row]), []).append(place)
        for name, some in places.items():
            items = ItemRows([ids[place] for place in some], own_labels and own_labels.of(some))
            items.times = own_times and own_times.of(some)
            self.answer.items.setdefault(name, {})[of_type] = items

    def names_of_splits(self, section: str, name: str) -> list[str | None]:
        """The items that each row is one of."""
        column, table = self.described.column(section, name)
        kind = settled_kind(column, table, self.judge) if column.type == "csv" else ""
        is_empty = all(cell in (None, "") for cell in column.cells)
        if is_empty and table.num_rows and self.judge.choose("empty split") == "refuse":
            self.judge.refuse("an empty split", table, words=["empty", "no item"])
        if not is_empty and (kind not in ("texts", "") or column.type in ("bool", "int64")):
            self.judge.refuse(f"numbers as names in {name!r}", table, words=[f"names of items in {name!r}"])
        found = column.cells if is_empty or kind else texts(column, table, self.judge)
        return [SPLITS.get(str(one).lower(), one) if one else None for one in found]

    def mask(self, table: Table, name: str) -> list[bool]:
        found = numbers(table.columns[name], table, self.judge, "mask").values
        wrong = [row for row, value in enumerate(found) if value is not None and value not in (0, 1)]
        self.judge.refuse(f"no mask in {name!r}", table, wrong)
        return [value == 1 for value in found]

    def read_items(self, name: str) -> None:
        section, fields = f"items.{name}", self.described.items[name]
        table = self.described.tables[section]
        roles, types, _ = zip(*item_columns(fields), strict=True)
        kept, ids = self.kept_rows(section, types, roles, f"items {name}")
        own_labels = own_times = None
        for column_name in by_name(fields.get("labels", {})).values():
            own_labels = self.labels_of(table, column_name, kept, f"labels {column_name} of items {name}")
        if section in self.times:
            own_times = as_numbers(self.times[section], kept, self.answer.time_unit)
        of_name = self.answer.items.setdefault(SPLITS.get(name.lower(), name), {})
        of_name[item_type(fields)] = ItemRows(ids, own_labels, own_times)


def _is_no_weight(value: Any) -> bool:
    return value != value or value < 0 or value == float("inf")  # noqa: PLR0124 - NaN
