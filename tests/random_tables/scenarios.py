"""Random descriptions with their tables, of which a seed draws always the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from table_files import write_toml

from random_tables.cells import kind_of
from random_tables.files import Layout, write
from random_tables.layouts import draw_layout
from random_tables.tables import Column, Refusal, Table
from random_tables.values import NAMES, Values


@dataclass(eq=False)
class Scenario:
    """A description and its tables, by the section that reads them.

    Parameters
    ----------
    kinds
        Names of what is drawn of that a conversion may not be able to read.
    """

    description: dict[str, dict[str, Any]]
    tables: dict[str, Table]
    layouts: dict[str, Layout]
    kinds: set[str]
    dirt: str = ""

    def write(self, folder: Path) -> tuple[Path, list[Refusal]]:
        """Write the files and the description; return where the latter is, and why the files are to be refused."""
        refusals = []
        for section, table in self.tables.items():
            refusals += write(table, self.layouts[section], folder)
        return write_toml(folder / "tables.toml", self.sections()), refusals

    def sections(self) -> dict[str, Mapping[str, Any]]:
        sections: dict[str, Mapping[str, Any]] = {}
        for kind in ("nodes", "edges", "items"):
            for name, fields in self.description.get(kind, {}).items():
                is_plain = name == "" or (kind == "nodes" and name == "node")
                sections[kind if is_plain else f"{kind}.{json.dumps(name)}"] = fields
        return {**sections, "options": self.description["options"]}


@dataclass(eq=False)
class Pool:
    """The nodes of a type, as edges may name them."""

    mode: str
    keys: list[Any]


def num_rows(values: Values, seed: int) -> int:
    """The rows of the largest table."""
    if seed % 500 == 499:
        return values.one([122_879, 122_880, 122_881])
    if seed % 100 == 99:
        return values.one([65_535, 65_536, 65_537])
    if seed % 20 == 19:
        return values.one([2_047, 2_048, 2_049, 4_095, 4_096, 4_097])
    if seed % 5 == 4:
        return values.one([999, 1_000, 1_001, 1_002, 1_500])
    return values.one([1, 2, 3, 5, 9, 20, 40])


def draw_tables(seed: int, values: Values) -> Scenario:
    """Draw the tables of a seed."""
    return _Drawing(seed, values).scenario


class _Drawing:
    def __init__(self, seed: int, values: Values) -> None:
        self.values = values
        self.description: dict[str, dict[str, Any]] = {"nodes": {}, "edges": {}, "items": {}, "options": {}}
        self.tables: dict[str, Table] = {}
        self.layouts: dict[str, Layout] = {}
        self.rows = num_rows(values, seed)
        self.is_nodes_large = values.chance(0.5)
        self.times = values.one(["integers", "integers", "numbers", "unit", "unit"])
        self.has_types = values.chance(0.4)
        self.num_splits = 0
        self.draw_options()
        self.pools = {name: self.draw_nodes(name) for name in (["user", "item"] if self.has_types else ["node"])}
        types = [("user", "buys", "item"), ("user", "knows", "user"), ("item", "of", "user")]
        chosen = [one for one in types if values.chance(0.5)] or [types[0]]
        if self.description["options"].get("loops") == "add" and self.has_types:
            chosen = [*dict.fromkeys([*chosen, types[1]])]
        attributes = ["a"] if values.chance(0.3) else []
        for edge_type in chosen if self.has_types else [None]:
            self.draw_edges(edge_type, attributes)
        if values.chance(0.25):
            self.draw_items()
        self.scenario = Scenario(self.description, self.tables, self.layouts, values.kinds)

    def draw_options(self) -> None:
        one, options = self.values.one, self.description["options"]
        for name, choices in {
            "unknown_ids": ["refuse", "drop", "create"],
            "duplicate_edges": ["keep", "drop"],
            "loops": ["keep", "keep", "drop", "add"],
            "null_times": ["refuse", "earliest", "drop"],
        }.items():
            option = one(choices)
            if option != choices[0] or self.values.chance(0.1):
                options[name] = option

    def option(self, name: str, default: str) -> str:
        return self.description["options"].get(name, default)

    def add_table(self, section: str, columns: list[Column], num: int, *, is_csv: bool, fields: dict[str, Any]) -> None:
        """Add a table with some columns that nothing reads, in any order."""
        values = self.values
        named = {column.name: column for column in columns}
        for number in range(values.random.randrange(3)):
            name = f"unused {number}" if values.chance(0.7) else values.one(NAMES)
            if name not in named and not name.startswith(("x", "rowid")):
                named[name] = self.unused_column(name, num, is_csv=is_csv)
        order = list(named.values())
        values.random.shuffle(order)
        kind, _, name = section.partition(".")
        table = Table(section.replace(",", "_").replace(".", "_"), {column.name: column for column in order}, num)
        self.tables[section] = table
        layout, more = draw_layout(values, table, is_csv=is_csv)
        self.layouts[section] = layout
        self.description[kind][name] = {"files": layout.field, **more, **fields}

    def unused_column(self, name: str, num: int, *, is_csv: bool) -> Column:
        values = self.values
        if is_csv:
            return Column(name, [values.text() if values.chance(0.8) else None for _ in range(num)])
        if values.kind("types that nothing reads", 0.4):
            kind, cell = values.one(
                [("struct", {"a": 1, "b": "x"}), ("null", None), ("list<string>", ["a", None]), ("binary", b"\xff")]
            )
            return Column(name, [cell] * num, kind)
        return Column(name, [values.text() for _ in range(num)], "string")

    def name(self, usual: str) -> str:
        """A name of a column: the usual one, or one that is hard to quote."""
        return self.values.one(NAMES) + f" {usual}" if self.values.chance(0.1) else usual

    def draw_nodes(self, node_type: str) -> Pool:
        values = self.values
        num = self.rows if self.is_nodes_large else values.one([1, 2, 3, 7, 20])
        mode = values.one(["ids"] * 5 + ["rows", "numbers", "counted", "keys", "keys"])
        if mode in ("ids", "rows"):
            return self.draw_table_of_nodes(node_type, mode, num)
        if mode == "counted":
            self.description["nodes"][node_type] = {"num_nodes": num}
            return Pool(mode, list(range(num)))
        if mode == "numbers":
            self.description["nodes"][node_type] = {}
            return Pool(mode, list(range(num)))
        keys = values.keys(num)
        self.description["nodes"][node_type] = {} if isinstance(keys[0], str) else {"external": True}
        return Pool(mode, keys)

    def draw_table_of_nodes(self, node_type: str, mode: str, num: int) -> Pool:
        values, is_csv = self.values, self.values.chance(0.6)
        keys = values.keys(num) if mode == "ids" else list(range(num))
        num = len(keys)
        columns, fields = [], {}
        if mode == "ids":
            fields["id"] = self.name("key")
            columns.append(values.id_column(fields["id"], keys, is_csv=is_csv, may_be_null=False))
            self.declare(columns[-1], fields, Pool(mode, keys))
        else:  # some column, as the rows of a table without columns cannot be counted
            columns.append(values.number_column("order", num, "feature", is_csv=is_csv))
        self.draw_features(columns, fields, num, is_csv=is_csv)
        self.draw_labels(columns, fields, num, is_csv=is_csv)
        if values.chance(0.25):
            self.draw_time(columns, fields, num, is_csv=is_csv, may_be_null=self.option("null_times", "") == "earliest")
        if values.chance(0.3):
            self.draw_split(columns, fields, num, is_csv=is_csv)
        elif values.chance(0.2):
            fields["splits"] = {}
            self.num_splits += 1
            for name in values.random.sample(
                ["a", "b", "c"] if self.num_splits > 1 else ["train", "Validation", "mine"], 2
            ):
                column, kinds = f"is_{name}", ["bool", "int8", "uint8"]
                mask = [values.chance(0.4) for _ in range(num)]
                pairs = values.one([("false", "true"), ("0", "1"), ("False", "TRUE")])
                kind = "csv" if is_csv else values.one(kinds)
                cells = [pairs[one] for one in mask] if is_csv else mask if kind == "bool" else list(map(int, mask))
                cells = [None if values.chance(0.1) else cell for cell in cells] if values.chance(0.3) else cells
                columns.append(Column(column, cells, kind))
                fields["splits"][name] = column
        self.add_table(f"nodes.{node_type}", columns, num, is_csv=is_csv, fields=fields)
        return Pool(mode, keys)

    def declare(self, column: Column, fields: dict[str, Any], pool: Pool) -> None:
        """Give the type of a column of CSV, sometimes."""
        if column.type == "csv" and self.values.chance(0.1):
            may_be_text = pool.mode in ("ids", "keys")
            is_text = isinstance(pool.keys[0], str) or (may_be_text and self.values.chance(0.3))
            column.declared = "text" if is_text else "int"
            fields.setdefault("types", {})[column.name] = column.declared

    def draw_features(self, columns: list[Column], fields: dict[str, Any], num: int, *, is_csv: bool) -> None:
        values = self.values
        features: list[str] = []
        for _ in range(values.random.randrange(3)):
            name = self.name(f"f{len(features)}")
            columns.append(values.number_column(name, num, "feature", is_csv=is_csv))
            features.append(name)
            if is_csv and values.chance(0.05) and kind_of(columns[-1].cells) in ("integers", "numbers"):
                columns[-1].declared = "float"
                fields.setdefault("types", {})[name] = "float"
        if values.chance(0.3):
            width = values.one([1, 2, 3, 12])
            kind = values.number_column("", 0, "wide", is_csv=is_csv).type
            is_mixed = values.kind("integers side by side without a common type", 0.2)
            for number in range(width):
                cells = values.number_column("", num, "wide", is_csv=is_csv)
                if not is_csv and not is_mixed:
                    cells = Column("", [values.value(kind) for _ in range(num)], kind)
                columns.append(Column(f"x{number}", cells.cells, cells.type))
            features.append("x*")
        if values.chance(0.1):
            columns += [values.number_column(name, num, "feature", is_csv=is_csv) for name in ("Case", "case")]
            features += ["Case", "case"]
        if any("*" in one and one != "x*" for one in features):  # "*" makes a pattern of a name
            features = [one for one in features if "*" not in one or one == "x*"]
        if features:
            fields["features"] = features if len(features) > 1 or values.chance(0.5) else features[0]

    def draw_labels(self, columns: list[Column], fields: dict[str, Any], num: int, *, is_csv: bool) -> None:
        values, labels = self.values, []
        for number in range(values.one([0, 0, 1, 1, 2])):
            name = self.name(f"y{number}")
            columns.append(self.label_column(name, num, is_csv=is_csv))
            labels.append(name)
        if labels:
            fields["labels"] = labels if len(labels) > 1 else values.one([labels[0], {"y": labels[0]}])

    def label_column(self, name: str, num: int, *, is_csv: bool, may_be_texts: bool = True) -> Column:
        values = self.values
        if may_be_texts and values.chance(0.5):
            are_many = num > 1000 and values.kind("more than 1,000 classes", 0.3)
            words = [text for text in (values.text() for _ in range(8)) if text] or ["x"]
            cells = [f"class {row}" if are_many else values.one(words) for row in range(num)]
            kind = values.one(["string", "large_string", "dictionary"])
            if values.kind("string_view", 0.07):
                kind = "string_view"
            if is_csv and kind_of(cells) == "vectors" and not values.kind("decimal commas", 1):
                cells = ["x"] * num
            column = Column(name, cells, "csv" if is_csv else kind)
        else:
            column = values.number_column(name, num, "label", is_csv=is_csv)
        without_room = (
            column.type == "bool"
            or column.type.startswith("uint")
            or (column.cells and str(column.cells[0]).lower() in ("true", "false"))
        )
        adds = self.option("unknown_ids", "") == "create" or self.option("loops", "") == "add"
        if without_room and adds and not values.kind("unsigned labels of added nodes and loops", 1):
            column = Column(name, [1] * num, "int64") if column.type != "csv" else Column(name, ["1"] * num)
            without_room = False
        if values.kind("nulls in unsigned labels", 0.4) if without_room else values.chance(0.4):
            column.cells = [None if values.chance(0.2) else cell for cell in column.cells]
        if values.kind("labels of nulls alone", 0.02):
            return Column(name, [None] * num, "csv" if is_csv else "null")
        return column

    def draw_time(
        self, columns: list[Column], fields: dict[str, Any], num: int, *, is_csv: bool, may_be_null: bool
    ) -> None:
        values = self.values
        family = self.times if values.chance(0.97) else values.one(["integers", "numbers", "unit"])
        if {family, self.times} == {"integers", "numbers"} and not values.kind("times of integers beside fractions", 1):
            family = self.times
        column = values.time_column(self.name("time"), num, family, is_csv=is_csv)
        if may_be_null and values.chance(0.5):
            column.cells = [None if values.chance(0.2) else cell for cell in column.cells]
        if num and not any(cell is not None for cell in column.cells) and not values.kind("times of nulls alone", 1):
            column = values.time_column(column.name, num, family, is_csv=is_csv)
        columns.append(column)
        fields["time"] = column.name

    def draw_split(self, columns: list[Column], fields: dict[str, Any], num: int, *, is_csv: bool) -> None:
        names = ["train", "Train", "valid", "validation", "val", "TEST", "mine"]
        if self.num_splits:  # the items of a name are of one type
            names = [f"{name} {self.num_splits}" for name in names]
        self.num_splits += 1
        cells = [self.values.one([*names, None, None]) for _ in range(num)]
        if self.values.kind("empty split", 0.05):
            cells = [None] * num
        if any(cells) or "empty split" in self.values.kinds:
            columns.append(
                Column(self.name("split"), cells, "csv" if is_csv else self.values.one(["string", "dictionary"]))
            )
            fields["split"] = columns[-1].name

    def ends_of(self, pool: Pool, num: int) -> list[Any]:
        values, policy = self.values, self.option("unknown_ids", "refuse")
        if not pool.keys:
            return [None] * num
        keys = [values.one(pool.keys) for _ in range(num)]
        if policy == "drop" and values.chance(0.5):
            keys = [None if values.chance(0.05) else key for key in keys]
        if policy != "refuse" and pool.mode in ("ids", "rows", "counted") and values.chance(0.6):
            unknown = [values.unknown_key(pool.keys)] if pool.mode == "ids" else [len(pool.keys) + 1]
            keys = [values.one(unknown) if values.chance(0.15) else key for key in keys]
        if num and not any(key is not None for key in keys) and not values.kind("ids of nulls alone", 1):
            return [pool.keys[0]] * num
        return keys

    def draw_edges(self, edge_type: tuple[str, str, str] | None, attributes: Sequence[str]) -> None:
        values, is_csv = self.values, self.values.chance(0.6)
        num = self.rows if not self.is_nodes_large else values.one([1, 2, 5, 30, 30])
        if values.kind("table without rows", 0.04):
            num = 0
        columns, fields = [], {}
        types = ("node", "node") if edge_type is None else edge_type[::2]
        for role, end in zip(("src", "dst"), types, strict=True):
            name = self.name(role)
            keys = self.ends_of(self.pools[end], num)
            columns.append(values.id_column(name, keys, is_csv=is_csv))
            self.declare(columns[-1], fields, self.pools[end])
            if name != role or values.chance(0.5):
                fields[role] = name
        columns += [self.attribute_column(name, num, "attribute", is_csv=is_csv) for name in attributes]
        if attributes:
            fields["attributes"] = list(attributes)
        if values.chance(0.4):
            columns.append(self.attribute_column(self.name("w"), num, "weight", is_csv=is_csv))
            fields["weight"] = columns[-1].name
        if values.chance(0.5):
            may_be_null = self.option("null_times", "refuse") != "refuse"
            self.draw_time(columns, fields, num, is_csv=is_csv, may_be_null=may_be_null)
        self.draw_features(columns, fields, num, is_csv=is_csv)
        self.draw_labels(columns, fields, num, is_csv=is_csv)
        if values.chance(0.25):
            self.draw_split(columns, fields, num, is_csv=is_csv)
        name = "" if edge_type is None else ",".join(edge_type)
        self.add_table(f"edges.{name}", columns, num, is_csv=is_csv, fields=fields)

    def attribute_column(self, name: str, num: int, role: str, *, is_csv: bool) -> Column:
        """Numbers, mostly of one type in all types of edges."""
        values = self.values
        if not self.has_types or values.chance(0.1):
            return values.number_column(name, num, role, is_csv=is_csv)
        numbers = [abs(values.value("float32")) for _ in range(num)]
        if is_csv:
            return Column(name, [f"{one:.4f}" for one in numbers])
        return Column(name, numbers, "float32" if role == "weight" else "float64")

    def draw_items(self) -> None:
        values, is_csv = self.values, self.values.chance(0.6)
        num = values.one([1, 2, 5, 30])
        columns, fields = [], {}
        if values.chance(0.5):
            node_type = values.one(list(self.pools))
            columns.append(values.id_column("id", self.ends_of(self.pools[node_type], num), is_csv=is_csv))
            fields |= {"type": node_type} if self.has_types else {}
        else:
            name = values.one(list(self.description["edges"]))
            ends = [self.pools[end] for end in (name.split(",")[::2] if name else ["node", "node"])]
            keys = [self.ends_of(pool, num) for pool in ends]
            modes = ["numbers", *(["rows", "counted"] if self.option("unknown_ids", "") == "create" else [])]
            if any(pool.mode in modes for pool in ends) and not values.kind(
                "pairs with the largest number of a node", 1
            ):
                keys = [[0] * num if pool.mode in modes else one for pool, one in zip(ends, keys, strict=True)]
            columns += [values.id_column(one, some, is_csv=is_csv) for one, some in zip(("a", "b"), keys, strict=True)]
            fields |= {"ids": ["a", "b"], **({"type": name} if name else {})}
        if values.chance(0.5):
            is_text = values.kind("texts as labels of items", 0.3)
            columns.append(self.label_column("y", num, is_csv=is_csv, may_be_texts=is_text))
            fields["labels"] = "y"
        if values.chance(0.3):
            policy = self.option("null_times", "refuse")
            may_be_null = policy == "earliest" or (policy == "drop" and values.kind("items without a time", 0.5))
            self.draw_time(columns, fields, num, is_csv=is_csv, may_be_null=may_be_null)
        self.add_table("items.extra", columns, num, is_csv=is_csv, fields=fields)
