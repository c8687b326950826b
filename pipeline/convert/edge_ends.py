"""The pass over a table of edges: node numbers of both ends, attributes, and which rows stay, in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.attributes import Attribute, nulls
from headrace.pipeline.convert.bit_set import BitSet
from headrace.pipeline.convert.checked import Reference, attributes_of
from headrace.pipeline.convert.description import NULL_TIMES, EdgeTable, Options
from headrace.pipeline.convert.memory import rows_within
from headrace.pipeline.convert.node_ids import UNKNOWN, IdReader, NodeIds
from headrace.pipeline.convert.raw_array import RawArray
from headrace.pipeline.convert.table import Table
from headrace.pipeline.convert.work_folder import Facts, WorkFolder
from headrace.pipeline.data.type_attributes import value_without

_BOOL = np.dtype(bool)


@dataclass(frozen=True, eq=False)
class EndFiles:
    """Files of the edges of one table that stay, in the order of their rows.

    Parameters
    ----------
    src, dst
        Node numbers within their types.
    attributes
        By name.
    kept
        bool, of each row of the table whether it stays.
    reversed
        bool, of each row whether a reverse edge of it was added.
    """

    src: RawArray
    dst: RawArray
    attributes: Mapping[str, RawArray]
    kept: RawArray
    reversed: RawArray


def end_files(
    work: WorkFolder, number: int, ids: tuple[NodeIds, NodeIds], edge: EdgeTable, attributes: Mapping[str, Attribute]
) -> EndFiles:
    """Return the files of the table of edges of a number."""
    src, dst = (
        RawArray(work.file(f"edges{number}.{side}"), np.dtype(np.int32 if _is_narrow(one) else np.int64))
        for one, side in zip(ids, ("src", "dst"), strict=True)
    )
    rows = {
        name: RawArray(work.file(f"edges{number}.attribute{place}"), attributes[name].dtype)
        for place, name in enumerate(attributes_of(edge))
    }
    kept, back = (RawArray(work.file(f"edges{number}.{what}"), _BOOL) for what in ("kept", "reversed"))
    return EndFiles(src, dst, rows, kept, back)


def read_ends(
    edge: EdgeTable,
    files: EndFiles,
    readers: tuple[IdReader, IdReader],
    attributes: Mapping[str, Attribute],
    options: Options,
    *,
    same_type: bool,
    shared_keys: int | None,
    room: int,
    advance: Any,
) -> Facts:
    """Read a table of edges once, and write what stays of it.

    Parameters
    ----------
    shared_keys
        The number of nodes, where it is to be counted how many are both a source and a destination; or None.

    Returns
    -------
    Facts
        ``num_rows`` and ``num_edges`` that stay, the largest numbers ``src`` and ``dst`` of all rows, and
        counts of rows that were left out or have no time, and of nodes that are at ``both ends``.

    Raises
    ------
    InputError
        If an id is unknown, a value null, and that is not allowed; with its file and row.
    """
    of_edge = attributes_of(edge)
    columns = list(dict.fromkeys([*(one.column for one in readers if one.column), *of_edge.values()]))
    counts = {"unknown": 0, "loops": 0, "null times": 0}
    largest, start, kept_rows = [-1, -1], 0, 0
    seen = None if shared_keys is None else (BitSet(shared_keys), BitSet(shared_keys))
    with ExitStack() as stack:
        ends = [stack.enter_context(one.writer()) for one in (files.src, files.dst)]
        writers = {name: stack.enter_context(one.writer()) for name, one in files.attributes.items()}
        flags = stack.enter_context(files.kept.writer())
        for chunk in _chunks(edge.table, columns, readers, rows_within(room // 8, 64 + 16 * len(columns))):
            count = len(next(iter(chunk.values()))) if columns else int(chunk["rows"][0])
            numbers = [one.take(chunk[one.column] if one.column else None, count) for one in readers]
            kept = np.ones(count, bool)
            _leave_out_unknown(edge, readers, numbers, kept, counts, options, start)
            if options.loops == "drop" and same_type:
                loops = kept & (numbers[0] == numbers[1])
                counts["loops"] += int(loops.sum())
                kept &= ~loops
            values = {
                name: _values(edge.table, name, column, chunk[column], attributes[name], options, kept, counts, start)
                for name, column in of_edge.items()
            }
            everything = bool(kept.all())
            for side, (writer, found) in enumerate(zip(ends, numbers, strict=True)):
                largest[side] = max(largest[side], int(found.max(initial=-1)))
                if seen is not None:
                    seen[side].add(found[found != UNKNOWN])
                writer.append(found if everything else found[kept])
            for name, rows in values.items():
                writers[name].append(rows if everything else rows[kept])
            flags.append(kept)
            start += count
            kept_rows += int(kept.sum())
            advance(count)
    if kept_rows == start:
        files.kept.remove()
    counts["both ends"] = 0 if seen is None else seen[0].num_shared(seen[1])
    return {"num_rows": start, "num_edges": kept_rows, "src": largest[0], "dst": largest[1], "counts": counts}


def _is_narrow(ids: NodeIds) -> bool:
    return ids.num_nodes is not None and ids.num_nodes <= np.iinfo(np.int32).max


def _chunks(
    table: Table, columns: list[str], readers: tuple[IdReader, IdReader], rows: int
) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield the chunks of a table, or the numbers of their rows where nothing is left to read."""
    if columns:
        yield from table.chunks(columns, rows)
        return
    for start in range(0, readers[0].num_rows, rows):
        yield {"rows": np.array([min(rows, readers[0].num_rows - start)])}


def _leave_out_unknown(
    edge: EdgeTable,
    readers: tuple[IdReader, IdReader],
    numbers: list[NDArray[np.int64]],
    kept: NDArray[np.bool_],
    counts: dict[str, int],
    options: Options,
    start: int,
) -> None:
    # Both ends may be of one column, and of two types.
    of_ends = [found == UNKNOWN for found in numbers]
    firsts = [(int(unknown.argmax()), side) for side, unknown in enumerate(of_ends) if unknown.any()]
    if firsts and options.unknown_ids != "drop":
        first, side = min(firsts)
        refuse_unknown(edge.table, (edge.src, edge.dst)[side], start + first, readers[side].advice)
    for unknown in of_ends:
        counts["unknown"] += int((unknown & kept).sum())
        kept &= ~unknown


def refuse_unknown(table: Table, column: str, row: int, advice: str) -> None:
    """Refuse an id that no node has, with its value; `advice` is the beginning of what to do.

    Raises
    ------
    InputError
        Always.
    """
    value = value_at(Reference(table, column, "", ""), row)
    drop = "pass unknown_ids='drop' (--unknown-ids drop: leave such rows out)"
    if value is None:
        raise InputError(
            f"convert: {table.where(row)}: there is no node with the id null of {column!r}; fill it in, or {drop}"
        )
    raise InputError(
        f"convert: {table.where(row)}: there is no node with the id {value!r} of {column!r}; {advice}add the node, or "
        f"{drop} or 'create' (--unknown-ids create: add nodes)"
    )


def value_at(reference: Reference, row: int) -> Any:
    """Return one value of a column; None for null."""
    start = 0
    for chunk in reference.table.chunks([reference.column], 1 << 16):
        values = chunk[reference.column]
        if start + len(values) > row:
            value = values[row - start]
            return None if value is None or value is np.ma.masked else value if isinstance(value, str) else value.item()
        start += len(values)
    raise AssertionError(row)


def _values(
    table: Table,
    name: str,
    column: str,
    values: NDArray[Any],
    attribute: Attribute,
    options: Options,
    kept: NDArray[np.bool_],
    counts: dict[str, int],
    start: int,
) -> NDArray[Any]:
    """Return values of an attribute, without nulls in rows that stay."""
    null = nulls(values, nan=attribute.is_time)
    plain = np.ma.getdata(values)
    if value_without(name) == 1:
        _refuse_odd_weights(table, column, plain, kept & ~null, start)
    if not null.any():
        return plain
    if attribute.is_time and options.null_times != "refuse":
        counts["null times"] += int((null & kept).sum())
        if options.null_times == "drop":
            kept &= ~null
            return plain
        filled = plain.astype(attribute.dtype)
        filled[null] = attribute.fill
        return filled
    lacking = null & kept
    if lacking.any():
        filling = "fill it in, remove the row, or make the column labels of edges, which may be missing"
        advice = f"; {NULL_TIMES if attribute.is_time else filling}"
        raise InputError(
            f"convert: {table.where(start + int(lacking.argmax()))}: expected a number in {column!r} for attribute "
            f"{name!r}, got null{advice}"
        )
    return plain


def _refuse_odd_weights(table: Table, column: str, weights: NDArray[Any], kept: NDArray[np.bool_], start: int) -> None:
    """Refuse weights that nothing can be drawn by."""
    if weights.dtype.kind not in "if":
        return
    odd = kept & ~((weights >= 0) & np.isfinite(weights))
    if odd.any():
        row = int(odd.argmax())
        raise InputError(
            f"convert: {table.where(start + row)}: expected a weight that is finite and not negative in {column!r}, "
            f"got {weights[row]}; correct it, or make the column an attribute or feature of another name"
        )
