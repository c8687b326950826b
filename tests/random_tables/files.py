"""Tables written to files of CSV and Parquet, byte for byte under control: no writer of another library but Arrow's."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from random_tables.cells import NUMBER
from random_tables.tables import Refusal, Table

#: What stands for the byte that is no UTF-8, while rows are text.
BYTE = "\ue000"


@dataclass(eq=False)
class Layout:
    """How a table is written.

    Parameters
    ----------
    names
        The files, below the folder of the description, with the rows of each.
    field
        The field `files` of the description.
    quoting
        "minimal", "all" or "texts".
    blank_lines
        The rows that a blank line precedes; the number of rows is that behind the last one.
    damage
        What is wrong: ("short", "long", "quote" or "bytes", row), ("column" or "end", place of the file), ("twice", 0).
    bare_quotes
        Quotes within words are written as they are, which Python reads.
    without_header
        The places of files of no bytes.
    """

    names: list[tuple[str, int]]
    field: Any
    separator: str = ","
    has_header: bool = True
    newline: str = "\n"
    ends_with_newline: bool = True
    bom: bool = False
    quoting: str = "minimal"
    blank_lines: frozenset[int] = frozenset()
    encoding: str = "utf-8"
    damage: tuple[str, int] | None = None
    bare_quotes: bool = False
    without_header: frozenset[int] = frozenset()
    #: Of Parquet: rows of a group, and by place of the file other types of columns.
    group: int = 1000
    types: dict[int, dict[str, str]] = field(default_factory=dict)


def write(table: Table, layout: Layout, folder: Path) -> list[Refusal]:
    """Write the files; return the reasons to refuse these, and fill in the places of rows."""
    table.files = [Path(name).name for name, _ in layout.names] or [table.name]
    table.counts = [count for _, count in layout.names]
    table.places = []
    table.may_be_refused = []
    refusals: list[Refusal] = []
    start = 0
    for place, (name, count) in enumerate(layout.names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = range(start, start + count)
        if table.is_csv and not name.endswith(".parquet"):
            refusals += _write_csv(table, layout, path, rows, place)
        else:
            refusals += _write_parquet(table, layout, path, rows, place)
        start += count
    assert start == table.num_rows
    return refusals


def _quoted(cell: str | None, layout: Layout, *, is_alone: bool) -> str:
    if cell is None and not (layout.quoting == "all" or is_alone):
        return ""
    text = cell or ""
    is_needed = text == "" or any(one in text for one in (layout.separator, "\n", "\r"))
    is_needed |= '"' in text and not (layout.bare_quotes and _may_be_bare(text))
    is_text = layout.quoting == "texts" and any(one.isalpha() for one in text)
    if is_needed or layout.quoting == "all" or is_text:
        text = '"' + text.replace('"', '""') + '"'
    return text


def _seems_to_have_header(records: Sequence[Sequence[str | None]]) -> bool:
    """Whether a text stands above a column of numbers."""
    for first, *others in zip(*records, strict=True):
        there = [cell for cell in others[:90] if cell]
        if first and there and not NUMBER.fullmatch(first) and all(map(NUMBER.fullmatch, there)):
            return True
    return False


def _may_be_bare(cell: str | None) -> bool:
    """Whether a cell has quotes that Python reads as they are."""
    return cell is not None and '"' in cell and not cell.startswith('"')


def _write_csv(table: Table, layout: Layout, path: Path, rows: range, place: int) -> list[Refusal]:
    columns = list(table.columns.values())
    kind, at = layout.damage or ("", -1)
    if kind == "column" and place == at:
        columns = columns[:-1]
    has_header = layout.has_header and place not in layout.without_header
    records: list[list[str | None]] = [[column.name for column in columns]] if has_header else []
    if kind == "twice" and records:
        records[0][-1] = records[0][0]
    lines = [_line(records[0], layout)] if records else []
    refusals = []
    returns = 0  # within quotes, which some count as ends of lines
    number = with_blank = len(lines)
    line = 1 + lines[0].count("\n") if lines else 0
    for row in rows:
        if row in layout.blank_lines:
            lines.append("")
            with_blank, line = with_blank + 1, line + 1
        cells = [column.cells[row] for column in columns]
        records.append(cells)
        text = _line(cells, layout)
        if row == at:
            if kind == "short":
                text = _line(cells[:-1], layout)
            elif kind == "long":
                text += layout.separator + "more"
            elif kind == "quote":
                text = layout.separator.join([*(_quoted(cell, layout, is_alone=False) for cell in cells[:-1]), '"open'])
            elif kind == "bytes":
                text = f'{text[:-1]}{BYTE}"' if text.endswith('"') else text + BYTE
        number, with_blank, first = number + 1, with_blank + 1, line + 1
        line += 1 + text.count("\n")
        returns += text.count("\r") - text.count("\r\n")
        numbers = frozenset({number, with_blank, first, line, line + returns})
        table.places.append((path.name, numbers))
        if row == at and kind in ("short", "long"):
            refusals.append(Refusal(f"a {kind} row", (path.name,), numbers))
        if row == at and kind == "quote":  # errors name where the quote begins, or how far the file was read
            refusals.append(Refusal("an open quote", (path.name,), frozenset(range(10**6))))
        lines.append(text)
    if rows.stop in layout.blank_lines:
        lines.append("")
    content = layout.newline.join(lines) + (layout.newline if layout.ends_with_newline and lines else "")
    encoded = ("\ufeff" * layout.bom + content).encode(layout.encoding)
    if layout.encoding != "utf-8" and not _is_utf8(encoded):
        refusals.append(Refusal("no UTF-8", (path.name,)))
    if kind == "twice":
        refusals.append(Refusal("two columns of one name", (path.name,)))
    has_bare_quotes = layout.bare_quotes and any(_may_be_bare(cell) for record in records for cell in record)
    if not layout.has_header and _seems_to_have_header(records):
        table.may_be_refused.append(Refusal("a first row of texts above numbers", (path.name,)))
    if "\0" in content or has_bare_quotes or layout.newline == "\r" or not content.strip():
        table.may_be_refused.append(Refusal("a notation that not every reader takes", (path.name,)))
    if kind == "bytes" and at in rows:
        encoded = encoded.replace(BYTE.encode(), b"\xe9")
        refusals.append(Refusal("no UTF-8", (path.name,)))
    if kind == "column" and place == at:
        refusals.append(Refusal("a column that is not in all files", tuple(table.files)))
    if "\0" in content:  # which csv refuses in Python 3.10
        pass
    elif kind in ("", "column", "end", "twice"):
        _check_csv(content, records, layout)
    elif kind == "quote" and at in rows:
        _check_open_quote(content, len(columns), layout)
    if path.name.endswith(".gz"):
        encoded = gzip.compress(encoded, mtime=0)
    if kind == "end" and place == at:
        encoded = encoded[: len(encoded) * 2 // 3]
        refusals.append(Refusal("a file that is cut", (path.name,)))
    path.write_bytes(encoded)
    return refusals


def _line(cells: Sequence[str | None], layout: Layout) -> str:
    return layout.separator.join(_quoted(cell, layout, is_alone=len(cells) == 1) for cell in cells)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _check_csv(content: str, records: Sequence[Sequence[str | None]], layout: Layout) -> None:
    """Python reads the records that were to be written."""
    csv.field_size_limit(2**30)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=layout.separator, strict=True)
    read = [record for record in reader if record]
    assert read == [[cell or "" for cell in record] for record in records]


def _check_open_quote(content: str, num_columns: int, layout: Layout) -> None:
    """Python does not read the file either."""
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=layout.separator, strict=True)
    try:
        assert any(len(record) not in (0, num_columns) for record in reader)
    except csv.Error:
        return


def _write_parquet(table: Table, layout: Layout, path: Path, rows: range, place: int) -> list[Refusal]:
    import pyarrow as pa
    from pyarrow import parquet

    kind, at = layout.damage or ("", -1)
    columns = list(table.columns.values())
    if kind == "column" and place == at:
        columns = columns[:-1]
    arrays = {}
    for column in columns:
        name = layout.types.get(place, {}).get(column.name, column.type)
        arrays[column.name] = arrow_array([column.cells[row] for row in rows], name)
    parquet.write_table(pa.table(arrays), path, row_group_size=layout.group)
    table.places += [(path.name, frozenset({row - rows.start})) for row in rows]
    if kind == "column" and place == at:
        return [Refusal("a column that is not in all files", tuple(table.files))]
    if kind == "end" and place == at:
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
        return [Refusal("a file that is cut", (path.name,))]
    return []


def arrow_array(cells: Sequence[Any], name: str) -> Any:
    """An array of a type by its name, such as "list<float32>"."""
    import pyarrow as pa

    if name == "dictionary":
        return pa.array(cells, pa.string()).dictionary_encode()
    kind = arrow_type(name)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        if pa.types.is_date64(kind):
            cells = [None if cell is None else cell * 86_400_000 for cell in cells]
        whole = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        return pa.array(cells, whole).cast(kind)
    return pa.array(cells, kind)


def arrow_type(name: str) -> Any:
    import pyarrow as pa

    outer, _, inner = name.partition("<")
    if inner:
        item, _, size = inner.rstrip(">").partition(">[")
        make = {"list": pa.list_, "large_list": pa.large_list, "fixed_size_list": pa.list_}[outer]
        return make(arrow_type(item), *([int(size.rstrip("]"))] if size else []))
    if name.startswith("timestamp"):
        unit, _, zone = name[len("timestamp[") : -1].partition(", ")
        return pa.timestamp(unit, zone or None)
    if name.startswith("decimal128"):
        return pa.decimal128(*(int(part) for part in name[len("decimal128(") : -1].split(", ")))
    if name == "struct":
        return pa.struct({"a": pa.int64(), "b": pa.string()})
    if name == "bool":
        return pa.bool_()
    return getattr(pa, name)()
