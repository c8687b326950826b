"""The passes that find the nodes of a type whose ids are texts, by DuckDB in bounded memory.

Texts are divided by their hash, so that what one query compares fits in memory. DuckDB compares texts by their bytes.
Its threads return rows in any order, so every row has its number with it, and the numbers of nodes are scattered to
rows in memory, a part of the rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.ops.text import utf8
from headrace.pipeline.convert.checked import Reference
from headrace.pipeline.convert.description import NodeTable
from headrace.pipeline.convert.duck_database import BATCH_ROWS, Database, Rows, database
from headrace.pipeline.convert.memory import rows_within
from headrace.pipeline.convert.node_ids import UNKNOWN, ExternalIds, IdReader, Ids, NodeIds
from headrace.pipeline.convert.raw_array import RawArray
from headrace.pipeline.convert.table import Table
from headrace.pipeline.convert.text_parts import TextParts, parts_for
from headrace.pipeline.convert.work_folder import Facts, WorkFolder

_INT64 = np.dtype(np.int64)
_FOUND = np.dtype([("row", np.int64), ("node", np.int64)])


class TextIds(NodeIds):
    """Texts that are keys of nodes.

    Parameters
    ----------
    resolve
        Runs the pass that writes the numbers of the nodes of a column, and returns the file and its rows.
    """

    def __init__(
        self, external: ExternalIds, num_nodes: int, num_rows: int, resolve: Callable[[Reference], tuple[RawArray, int]]
    ) -> None:
        self.external = external
        self.num_nodes = num_nodes
        self.num_rows = num_rows
        self._resolve = resolve

    def reader(self, reference: Reference) -> IdReader:
        """Return a reader of numbers that a pass of its own has found."""
        return _FoundReader(*self._resolve(reference))


class _FoundReader(IdReader):
    column = None

    def __init__(self, numbers: RawArray, num_rows: int) -> None:
        self._numbers = numbers
        self.num_rows = num_rows
        self._row = 0

    def take(self, values: NDArray[Any] | None, count: int) -> Ids:  # noqa: ARG002 - numbers are known
        start, self._row = self._row, self._row + count
        return self._numbers.rows(start, self._row)


def find_texts(work: WorkFolder, node: NodeTable, references: Sequence[Reference], *, create: bool, room: int) -> Facts:
    """Write the texts of the nodes of a type: those of its table, then those that other columns have, ascending.

    Returns
    -------
    Facts
        ``num_rows`` of the table, ``num_nodes``, ``num_bytes`` of texts, and whether they are ascending.

    Raises
    ------
    InputError
        If a text of the table is null or there twice.
    """
    values, starts, order = text_files(work, node.type)
    of_table = [node.table] if node.table is not None else []
    num_parts = parts_for(sum(one.about_rows() or 0 for one in [*of_table, *(one.table for one in references)]), room)
    known, is_sorted, num_rows = known_texts(work, node.type, num_parts), True, 0
    is_collected = create or node.table is None
    with database(work.file("duckdb"), room) as base:
        with values.writer() as texts, starts.writer() as ends:
            ends.append(np.zeros(1, np.int64))
            writer = _TextWriter(texts, ends)
            if node.table is not None and node.id is not None:
                known.write(base, _numbered(node.table, node.id, refuse_null=node.type, also=writer.append))
                num_rows = writer.num_texts
                _refuse_repeats(base, node.table, node.id, known)
            if is_collected:
                _collect(base, references, known if num_rows else None, num_parts, work)
                for batch in base.batches("SELECT id FROM fresh ORDER BY id"):
                    writer.append(batch.column(0))
                base.execute("DROP TABLE fresh")
        if is_collected:
            known.write(base, _known_texts(values, starts, writer.num_texts))
        if num_rows:
            base.receive(_known_texts(values, starts, writer.num_texts))
            is_sorted = _write_order(base, order)
    return {
        "num_rows": num_rows,
        "num_nodes": writer.num_texts,
        "num_bytes": writer.num_bytes,
        "is_sorted": is_sorted,
        "num_parts": num_parts,
        "is_collected": is_collected,
    }


def text_ids(work: WorkFolder, node_type: str, facts: Facts, run: Callable[..., Facts], room: int) -> TextIds:
    """Return the ids of a type that `find_texts` has written.

    Parameters
    ----------
    run
        Runs a pass by its name, unless it is finished.
    """
    values, starts, order = text_files(work, node_type)
    num_nodes = facts["num_nodes"]
    external = ExternalIds(values, facts["num_bytes"], starts, None if facts["is_sorted"] else order)

    def resolve(reference: Reference) -> tuple[RawArray, int]:
        numbers = RawArray(work.file(f"{reference.key}.numbers"), _INT64)
        known = known_texts(work, node_type, facts["num_parts"])
        column = texts_of(work, reference, facts["num_parts"])
        found = run(
            f"look up {reference.key}",
            lambda: _look_up(work, None if facts["is_collected"] else reference, known, column, numbers, room),
        )
        column.remove()
        return numbers, found["num_rows"]

    return TextIds(external, num_nodes, facts["num_rows"], resolve)


def text_files(work: WorkFolder, node_type: str) -> tuple[RawArray, RawArray, RawArray]:
    """Return the files of the bytes of texts, of their starts, and of their order."""
    name = utf8(node_type).hex()
    return (
        RawArray(work.file(f"texts.{name}"), np.dtype(np.uint8)),
        RawArray(work.file(f"starts.{name}"), _INT64),
        RawArray(work.file(f"order.{name}"), _INT64),
    )


def known_texts(work: WorkFolder, node_type: str, num_parts: int) -> TextParts:
    """Return the texts of the nodes of a type with their numbers."""
    return TextParts(work, f"known.{utf8(node_type).hex()}", num_parts)


def texts_of(work: WorkFolder, reference: Reference, num_parts: int) -> TextParts:
    """Return the texts of a column with their rows."""
    return TextParts(work, f"{reference.key}.texts", num_parts)


class _TextWriter:
    """Appends texts to the files of their bytes and starts."""

    def __init__(self, texts: Any, ends: Any) -> None:
        self._texts, self._ends = texts, ends
        self.num_texts = self.num_bytes = 0

    def append(self, values: Any) -> None:
        """Append an array of pyarrow without nulls."""
        import pyarrow as pa

        if not len(values):
            return
        values = values.cast(pa.large_string())
        _, offsets, content = values.buffers()
        ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
        self._texts.append(np.frombuffer(content or b"", np.uint8)[ends[0] : ends[-1]])
        self._ends.append(ends[1:] - ends[0] + self.num_bytes)
        self.num_texts += len(values)
        self.num_bytes += int(ends[-1] - ends[0])


def _numbered(
    table: Table, column: str, *, refuse_null: str | None = None, also: Callable[[Any], None] | None = None
) -> Rows:
    """Yield the texts of a column, each with its row, as arrays of pyarrow."""
    import pyarrow as pa

    start = 0
    for values in table.texts(column, BATCH_ROWS):
        some = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        if refuse_null is not None and some.null_count:
            row = start + int(np.asarray(some.is_null().to_numpy(zero_copy_only=False)).argmax())
            raise InputError(
                f"convert: {table.where(row)}: expected an id of a {refuse_null} in {column!r}, got null; remove "
                "the row, or name it"
            )
        some = some.cast(pa.large_string())
        if also is not None:
            also(some)
        yield some, pa.array(np.arange(start, start + len(some)))
        start += len(some)


def _refuse_repeats(base: Database, table: Table, column: str, known: TextParts) -> None:
    found = []
    for part in range(known.num_parts):
        _load_known(base, known, part)
        repeated = base.only_row(
            "SELECT id, min(node), min(node) FILTER (node > first), count(*) FROM "
            "(SELECT known.id, node, first FROM known JOIN (SELECT id, min(node) AS first FROM known GROUP BY id "
            "HAVING count(*) > 1) AS twice ON known.id = twice.id) GROUP BY id ORDER BY min(node) LIMIT 1"
        )
        found += [] if repeated is None else [repeated]
    repeated = min(found, key=lambda row: row[1], default=None)
    if repeated is not None:
        text, first, second, _ = repeated
        raise InputError(
            f"convert: {table.where(second)}: expected each id once in {column!r}, got {text!r} again, which is in "
            f"{table.where(first)}; remove the repeats"
        )


def _load_known(base: Database, known: TextParts, part: int) -> None:
    """Make a table of the nodes whose texts are in a part."""
    base.receive(known.rows(part))
    base.execute("CREATE OR REPLACE TEMP TABLE known AS SELECT id, row AS node FROM incoming")


def _collect(
    base: Database, references: Sequence[Reference], known: TextParts | None, num_parts: int, work: WorkFolder
) -> None:
    """Make a table of the texts that columns have and nodes do not, each once."""
    columns = [texts_of(work, one, num_parts) for one in references]
    for reference, column in zip(references, columns, strict=True):
        column.write(base, _numbered(reference.table, reference.column))
    base.execute("CREATE TEMP TABLE fresh (id VARCHAR)")
    for part in range(num_parts):
        base.execute("CREATE OR REPLACE TEMP TABLE found (id VARCHAR)")
        for column in columns:
            base.receive(column.rows(part))
            base.execute("INSERT INTO found SELECT DISTINCT id FROM incoming WHERE id IS NOT NULL")
        if known is not None:
            _load_known(base, known, part)
        without = "" if known is None else "WHERE id NOT IN (SELECT id FROM known)"
        base.execute(f"INSERT INTO fresh SELECT DISTINCT id FROM found {without}")  # noqa: S608 - no values of users
    for name in ("found", "known"):
        base.execute(f"DROP TABLE IF EXISTS {name}")


def _write_order(base: Database, order: RawArray) -> bool:
    """Write the nodes in the order of their texts, and return whether it is their own."""
    is_sorted, last = True, -1
    with order.writer() as writer:
        for batch in base.batches("SELECT row FROM incoming ORDER BY id"):
            nodes = batch.column(0).to_numpy(zero_copy_only=False)
            if len(nodes):
                is_sorted &= last < int(nodes[0]) and bool((nodes[1:] > nodes[:-1]).all())
                last = int(nodes[-1])
                writer.append(nodes)
    return is_sorted


def _look_up(
    work: WorkFolder,
    reference: Reference | None,
    known: TextParts,
    column: TextParts,
    numbers: RawArray,
    room: int,
) -> Facts:
    """Write the number of the node of each row of a column; of one, if given, whose texts are not in parts yet."""
    part_rows = max(1 << 16, room // 4 // 48)
    parts: list[RawArray] = []
    num_rows = 0
    with database(work.file("duckdb"), room) as base, ExitStack() as stack:
        if reference is not None:
            column.write(base, _numbered(reference.table, reference.column))
        writers: list[Any] = []
        # The table of known texts is the one to be hashed, however few rows the other side seems to have.
        base.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        query = f"SELECT row, coalesce(node, {UNKNOWN}) FROM incoming LEFT JOIN known ON incoming.id = known.id"  # noqa: S608
        for place in range(known.num_parts):
            _load_known(base, known, place)
            base.receive(column.rows(place))
            for batch in base.batches(query):
                found = np.empty(len(batch), _FOUND)
                found["row"], found["node"] = (batch.column(side).to_numpy(zero_copy_only=False) for side in (0, 1))
                num_rows += len(found)
                of_part = found["row"] // part_rows
                for one in np.unique(of_part).tolist():
                    while len(parts) <= one:
                        parts.append(RawArray(work.file(f"found{len(parts)}"), _FOUND))
                        writers.append(stack.enter_context(parts[-1].writer()))
                    writers[one].append(found[of_part == one])
    with numbers.writer() as writer:
        for place, part in enumerate(parts):
            count = min(part_rows, num_rows - place * part_rows)
            ordered = np.empty(count, np.int64)
            for some in part.pieces(count, rows_within(room // 16, _FOUND.itemsize)):
                ordered[some["row"] - place * part_rows] = some["node"]
            writer.append(ordered)
            part.remove()
    return {"num_rows": num_rows}


def _known_texts(values: RawArray, starts: RawArray, num_nodes: int) -> Rows:
    """Yield the texts of nodes with their numbers, as arrays of pyarrow."""
    import pyarrow as pa

    for first, last in pairwise([*range(0, num_nodes, BATCH_ROWS), num_nodes]):
        bounds = starts.rows(first, last + 1)
        content = values.rows(int(bounds[0]), int(bounds[-1]))
        offsets = pa.py_buffer((bounds - bounds[0]).tobytes())
        texts = pa.Array.from_buffers(pa.large_string(), last - first, [None, offsets, pa.py_buffer(content.tobytes())])
        yield texts, pa.array(np.arange(first, last))
