"""Random files for a table: separators, quotes, line ends, parts, packed or not, row groups."""

from __future__ import annotations

from typing import Any

from random_tables.files import Layout
from random_tables.tables import Table
from random_tables.values import Values

#: Names of files that patterns and quoting go wrong with.
FILES = ("a[1]", "it's", 'q"q', "größe", "with space", "%41", "x{1,2}", "#1", "$HOME", "a!b")


def draw_layout(values: Values, table: Table, *, is_csv: bool) -> tuple[Layout, dict[str, Any]]:
    """Return how a table is written, and the fields of the description for that."""
    names, field = _parts(values, table, is_csv=is_csv)
    layout = Layout(names, field)
    if not is_csv:
        layout.group = values.one([1, 2, 3, 7, 1000, 1001]) if table.num_rows < 3000 else values.one([999, 1 << 20])
        _draw_types_of_parts(values, table, layout)
        return layout, {}
    fields: dict[str, Any] = {}
    is_tsv = all(".tsv" in name for name, _ in names)
    layout.separator = "\t" if is_tsv else values.one([",", ",", ";", "|", "\t"])
    if not is_tsv and (layout.separator != "," or values.chance(0.1)):
        fields["separator"] = layout.separator
    if values.chance(0.15):
        layout.has_header = False
        fields["names"] = list(table.columns)
    layout.newline = values.one(["\n", "\n", "\r\n"]) if values.chance(0.95) else "\r"
    layout.bare_quotes = values.chance(0.1)
    layout.ends_with_newline = values.chance(0.8)
    if not layout.ends_with_newline and any(count == 0 for _, count in names):
        layout.ends_with_newline = not values.kind("a header alone without a line end", 1)
    layout.bom = values.chance(0.1)
    layout.quoting = values.one(["minimal", "minimal", "texts", "all"])
    if len(names) > 1 and values.chance(0.2):
        layout.without_header = frozenset(place for place, (_, count) in enumerate(names) if count == 0)
    if len(table.columns) > 1 and values.chance(0.1):
        rows = values.one([1, 3])
        layout.blank_lines = frozenset(values.random.randrange(table.num_rows + 1) for _ in range(rows))
    if layout.quoting == "all" or len(table.columns) == 1:  # null is written as ""
        for column in table.columns.values():
            column.cells = [cell or "" for cell in column.cells]
    return layout, fields


def _parts(values: Values, table: Table, *, is_csv: bool) -> tuple[list[tuple[str, int]], Any]:
    """The files with the rows of each, and the field that names them."""
    ending = values.one(["csv", "csv", "csv", "csv.gz", "tsv"]) if is_csv else "parquet"
    if values.chance(0.7):
        name = f"{values.one(FILES)} {table.name}" if values.chance(0.1) else table.name
        return [(f"{name}.{ending}", table.num_rows)], f"{name}.{ending}"
    num = values.one([1, 2, 3, 11])
    cuts = sorted(values.random.randrange(table.num_rows + 1) for _ in range(num - 1))
    counts = [end - start for start, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True)]
    if values.chance(0.5):
        counts = [count for count in counts if count] or counts[:1]
    if values.kind("stars in patterns", 0.15):
        deep = [f"{number}/{'deep/' * (number % 3)}" for number in range(len(counts))]
        names = [f"{table.name}/{one}{table.name}_{number}.{ending}" for number, one in enumerate(deep)]
        return list(zip(names, counts, strict=True)), f"{table.name}/**/*_*.{ending}"
    names = [f"{table.name}/{table.name}_{number}.{ending}" for number in range(len(counts))]
    form = values.one(["folder", "pattern", "list"])
    field = {"folder": table.name, "pattern": f"{table.name}/*_*.{ending}", "list": names}[form]
    return list(zip(names, counts, strict=True)), field


def _draw_types_of_parts(values: Values, table: Table, layout: Layout) -> None:
    """Let a column have another width in one of the files."""
    if len(layout.names) < 2 or not values.kind("types of part files", 0.5):
        return
    wider = {"int64": ["int32"], "string": ["large_string"], "float64": ["float32"]}
    for column in table.columns.values():
        small = [other for other in wider.get(column.type, ()) if _fits(column.cells, other)]
        if small and values.chance(0.5):
            layout.types.setdefault(0, {})[column.name] = small[0]


def _fits(cells: list[Any], kind: str) -> bool:
    there = [cell for cell in cells if cell is not None]
    if kind == "float32":
        return False
    return kind != "int32" or all(abs(cell) < 2**31 for cell in there)
