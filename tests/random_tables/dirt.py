"""One bad thing in one row or file of tables that are fine otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from random_tables.cells import FLOATS, INTEGERS, TEXTS
from random_tables.described import features_of
from random_tables.scenarios import Scenario, draw_tables
from random_tables.tables import FIRST, Column, Table
from random_tables.values import Values

#: Numbers to nobody, and times to nobody.
NO_NUMBERS = ("abc", "0x1F", "1e", "--1", "12abc", "1.2.3", "True story", "1 000", "$5")
PYTHON_NUMBERS = ("1_000", "\u0967\u0968", "1_0.5")
NO_TIMES = ("yesterday", "2024-13-01", "2024-02-30", "2024-05-31T25:00", "2024-05-31T10:61", "2024-05")
FAR = ("9223372036854775808", "-9223372036854775809", "99999999999999999999")


def draw(seed: int, without: frozenset[str] = frozenset()) -> Scenario:
    """Draw the tables of a seed, every third of which has something bad in it."""
    values = Values(seed, without)
    scenario = draw_tables(seed, values)
    if seed % 3 == 2:
        soil(scenario, values)
    return scenario


def soil(scenario: Scenario, values: Values) -> None:
    """Put something bad into a scenario, and note what it is."""
    for _ in range(10):
        what, put = values.one(list(_DIRT.items()))
        section = values.one(list(scenario.tables))
        table = scenario.tables[section]
        if table.num_rows and put(_Place(scenario, section, values)):
            scenario.dirt = f"{what} in {section}"
            return


class _Place:
    """A table, and a row of it."""

    def __init__(self, scenario: Scenario, section: str, values: Values) -> None:
        self.values = values
        self.table: Table = scenario.tables[section]
        self.layout = scenario.layouts[section]
        self.nodes = scenario.description["nodes"]
        self.options = scenario.description["options"]
        self.kind, _, name = section.partition(".")
        self.fields: dict[str, Any] = scenario.description[self.kind][name]
        last = self.table.num_rows - 1
        self.row = values.one([last, values.random.randrange(last + 1), values.random.randrange(last + 1)])

    def column(self, names: list[str | None], is_fit: Callable[[Column], bool]) -> Column | None:
        columns = [self.table.columns[name] for name in names if name]
        fitting = [column for column in columns if is_fit(column)]
        return self.values.one(fitting) if fitting else None

    def put(self, column: Column | None, cell: Any) -> bool:
        """Write another cell, if there is such a column."""
        if column is None:
            return False
        is_null_quoted = self.table.is_csv and (self.layout.quoting == "all" or len(self.table.columns) == 1)
        column.cells = list(column.cells)
        column.cells[self.row] = "" if cell is None and is_null_quoted else cell
        return True

    def features(self) -> list[str | None]:
        of_features = features_of(list(self.table.columns), self.fields.get("features", ())).values()
        return [name for some in of_features for name in ([some] if isinstance(some, str) else some)]

    def number_columns(self) -> list[str | None]:
        return [*self.features(), self.fields.get("weight"), *self.fields.get("attributes", ())]

    def has_others(self, column: Column) -> bool:
        """Whether other rows of a column have something."""
        return any(cell not in (None, "") for row, cell in enumerate(column.cells) if row != self.row)

    def ends(self) -> list[str | None]:
        if self.kind == "edges":
            return [self.fields.get(role, role) for role in ("src", "dst")]
        ids = self.fields.get("ids", "id")
        return [] if self.kind == "nodes" else [ids] if isinstance(ids, str) else list(ids)


def _is_csv(column: Column) -> bool:
    return column.type == "csv"


def _text_among_numbers(at: _Place) -> bool:
    text = at.values.one([*NO_NUMBERS, *PYTHON_NUMBERS])
    columns = at.features()
    if at.values.chance(0.5):
        is_odd = text in PYTHON_NUMBERS or len(at.layout.names) > 1
        if is_odd and not at.values.kind("texts among numbers of attributes in part files, or like Python's", 1):
            return False
        columns = [at.fields.get("weight"), *at.fields.get("attributes", ())]
    return at.put(at.column(columns, _is_csv), text)


def _far_integer(at: _Place) -> bool:
    return at.put(at.column(at.number_columns(), _is_csv), at.values.one(FAR))


def _null_number(at: _Place) -> bool:
    return at.put(at.column(at.number_columns(), lambda column: True), None)


def _no_weight(at: _Place) -> bool:
    column = at.column([at.fields.get("weight")], lambda column: column.type in ("csv", *FLOATS))
    wrong = at.values.one(["nan", "-1", "inf"])
    return at.put(column, wrong if column is not None and column.type == "csv" else float(wrong))


def _unknown_id(at: _Place) -> bool:
    if at.kind == "items" and len(at.ends()) > 1 and not at.values.kind("pairs with the largest number of a node", 1):
        return False
    column = at.column(at.ends(), lambda column: column.type in ("csv", "int64", *TEXTS))
    if column is None:
        return False
    there = [cell for cell in column.cells if cell]
    numbers = [int(cell) for cell in there if str(cell).lstrip("-").isdigit()]
    if len(numbers) < len(there):
        return at.put(column, f"unknown {at.row}")
    if {} in at.nodes.values():  # a number of a node is never unknown
        return False
    unknown = min(max(numbers, default=0) + at.values.random.randrange(1, 6), 2**63 - 1)
    return at.put(column, str(unknown) if column.type != "int64" else unknown)


def _null_id(at: _Place) -> bool:
    return at.put(at.column([*at.ends(), at.fields.get("id")], at.has_others), None)


def _repeated_id(at: _Place) -> bool:
    column = at.column([at.fields.get("id")], lambda column: True)
    return at.row > 0 and at.put(column, column and column.cells[at.values.random.randrange(at.row)])


def _odd_id(at: _Place) -> bool:
    are_counted = any("num_nodes" in fields for fields in at.nodes.values())
    if are_counted and not at.values.kind("texts beside num_nodes", 1):
        return False
    column = at.column([*at.ends(), at.fields.get("id")], _is_csv)
    return at.put(column, at.values.one(["010", "-0", " 1", "1.5", "0x1F", "1_000", *FAR]))


def _no_time(at: _Place) -> bool:
    return at.put(
        at.column([at.fields.get("time")], lambda column: column.type in ("csv", *TEXTS)), at.values.one(NO_TIMES)
    )


def _null_time(at: _Place) -> bool:
    is_dropped = at.kind == "items" and at.options.get("null_times") == "drop"
    if is_dropped and not at.values.kind("items without a time", 1):
        return False
    return at.put(at.column([at.fields.get("time")], at.has_others), None)


def _no_mask(at: _Place) -> bool:
    column = at.column([*at.fields.get("splits", {}).values()], lambda column: column.type in ("csv", *INTEGERS))
    return at.put(column, "2" if column is not None and column.type == "csv" else 2)


def _other_length(at: _Place) -> bool:
    column = at.column(at.number_columns(), lambda column: column.type.startswith(("list", "large_list")))
    return at.put(column, column and [*column.cells[at.row], *column.cells[at.row][:1]])


def _hole_in_vector(at: _Place) -> bool:
    column = at.column(at.number_columns(), lambda column: "list" in column.type)
    return at.put(column, column and [*column.cells[at.row][:-1], None])


def _damage(kind: str) -> Callable[[_Place], bool]:
    def put(at: _Place) -> bool:
        layout = at.layout
        if kind in ("short", "long", "quote", "bytes"):
            if not at.table.is_csv or len(at.table.columns) < 2:
                return False
            is_late = kind == "quote" and at.row >= FIRST
            if is_late and not at.values.kind("an open quote behind the first rows", 1):
                return False
            layout.damage = kind, at.row
            return True
        if kind == "utf-16":
            layout.encoding = kind if at.table.is_csv else layout.encoding
            return at.table.is_csv
        if kind == "twice":
            if not (at.table.is_csv and layout.has_header and len(at.table.columns) > 1):
                return False
            layout.damage = kind, 0
            return True
        if kind == "column":
            if len(layout.names) < 2 or len(at.table.columns) < 2 or not layout.has_header:
                return False
            layout.damage = kind, at.values.random.randrange(len(layout.names))
            return True
        packed = [place for place, (name, count) in enumerate(layout.names) if count and not name.endswith("sv")]
        if not packed:
            return False
        layout.damage = kind, at.values.one(packed)
        return True

    return put


_DIRT: dict[str, Callable[[_Place], bool]] = {
    "a text among numbers": _text_among_numbers,
    "an integer beyond 64 bits": _far_integer,
    "a null number": _null_number,
    "no weight": _no_weight,
    "an unknown id": _unknown_id,
    "a null id": _null_id,
    "a repeated id": _repeated_id,
    "an odd id": _odd_id,
    "no time": _no_time,
    "a null time": _null_time,
    "no mask": _no_mask,
    "another length of a vector": _other_length,
    "null in a vector": _hole_in_vector,
    "a short row": _damage("short"),
    "a long row": _damage("long"),
    "an open quote": _damage("quote"),
    "no UTF-8": _damage("bytes"),
    "UTF-16": _damage("utf-16"),
    "two columns of one name": _damage("twice"),
    "a column that one file lacks": _damage("column"),
    "a file that is cut": _damage("end"),
}
