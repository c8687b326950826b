"""The pass that finds the nodes of a type whose ids are integers and no node numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from headrace.ops import InputError
from headrace.ops.text import utf8
from headrace.pipeline.convert.checked import Reference
from headrace.pipeline.convert.description import NodeTable
from headrace.pipeline.convert.memory import rows_within
from headrace.pipeline.convert.node_ids import UNKNOWN, ExternalIds, Ids, IntegerIds, KeyReader, RowsOf, chunks_of
from headrace.pipeline.convert.raw_array import RawArray
from headrace.pipeline.convert.table import Table
from headrace.pipeline.convert.work_folder import Facts, WorkFolder

#: Bytes for each node while keys are sorted, and while they are looked up.
KEY_BYTES = 40

_INT64 = np.dtype(np.int64)


def find_keys(work: WorkFolder, node: NodeTable, references: Iterable[Reference], *, create: bool, room: int) -> Facts:
    """Write the keys of the nodes of a type: those of its table, then those that other columns have, ascending.

    Returns
    -------
    Facts
        ``num_rows`` of the table, ``num_nodes``, whether keys ``is_sorted``, and whether they are the node numbers.

    Raises
    ------
    InputError
        If a key of the table is null or there twice, or keys take more than half of the memory.
    """
    keys = np.empty(0, np.int64)
    if node.table is not None and node.id is not None:
        keys = _keys_of_table(node.table, node.id, node.type, room)
    num_rows = len(keys)
    order = np.argsort(keys, kind="stable")
    keys_in_order = keys[order]
    if node.table is not None and node.id is not None:
        _refuse_repeats(keys_in_order, order, node.table, node.id)
    added = np.empty(0, np.int64)
    if create or node.table is None:
        for reference in references:
            added = _with_unknown(added, reference, keys_in_order, num_rows + len(added), room)
    values, in_order = raw_keys(work, node.type)
    with values.writer() as writer:
        writer.append(keys)
        writer.append(added)
    is_sorted = bool((keys[1:] > keys[:-1]).all()) and not (len(keys) and len(added) and added[0] < keys[-1])
    if not is_sorted:
        everything = np.concatenate([keys, added])
        with in_order.writer() as writer:
            writer.append(np.argsort(everything, kind="stable"))
    is_number = is_sorted and len(keys) + len(added) > 0 and _are_numbers(keys, added)
    return {"num_rows": num_rows, "num_nodes": num_rows + len(added), "is_sorted": is_sorted, "is_number": is_number}


def integer_ids(work: WorkFolder, node_type: str, facts: Facts) -> IntegerIds:
    """Return the ids of a type that `find_keys` has written."""
    values, order = raw_keys(work, node_type)
    return IntegerIds(
        ExternalIds(values, facts["num_nodes"], None, None if facts["is_sorted"] else order), facts["num_rows"]
    )


def raw_keys(work: WorkFolder, node_type: str) -> tuple[RawArray, RawArray]:
    """Return the files of the keys of a type, and of their order."""
    values, order = (RawArray(work.file(f"{what}.{utf8(node_type).hex()}"), _INT64) for what in ("keys", "order"))
    return values, order


def _keys_of_table(table: Table, column: str, node_type: str, room: int) -> Ids:
    source, parts, count = RowsOf(table, column), [], 0
    for chunk in chunks_of(table, column, rows_within(room // 16, 32)):
        keys, null = source.integers(chunk)
        if null.any():
            raise InputError(
                f"convert: {table.where(count + int(null.argmax()))}: expected an id of a {node_type} in {column!r}, "
                "got null; remove the row, or number it"
            )
        parts.append(keys)
        count += len(keys)
        _check_room(count, room)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _refuse_repeats(keys: Ids, order: Ids, table: Table, column: str) -> None:
    repeats = np.flatnonzero(keys[1:] == keys[:-1])
    if len(repeats):
        first, second = (int(order[repeats[0] + side]) for side in (0, 1))
        raise InputError(
            f"convert: {table.where(second)}: expected each id once in {column!r}, got {keys[repeats[0]]} again, which "
            f"is in {table.where(first)} ({len(repeats)} such row{'s' * (len(repeats) > 1)}); remove the repeats"
        )


def _with_unknown(added: Ids, reference: Reference, keys: Ids, known: int, room: int) -> Ids:
    """Return keys that were added before and those of one column that no row has, ascending."""
    reader, source = KeyReader(reference, keys, None), RowsOf(reference.table, reference.column)
    waiting, num_waiting = [added], 0
    for chunk in chunks_of(reference.table, reference.column, rows_within(room // 16, 32)):
        found, null = source.integers(chunk)
        new = np.unique(found[(reader.take(chunk, len(chunk)) == UNKNOWN) & ~null])
        waiting.append(new)
        num_waiting += len(new)
        # Merged when there are as many as before: each key is then sorted a few times, and not once a chunk.
        if num_waiting > max(len(waiting[0]), 1 << 16):
            waiting, num_waiting = [np.unique(np.concatenate(waiting))], 0
            _check_room(known + len(waiting[0]), room)
    return np.unique(np.concatenate(waiting))


def _check_room(num_keys: int, room: int) -> None:
    if num_keys * KEY_BYTES > room:
        raise InputError(
            f"convert: expected memory for the ids of nodes, {KEY_BYTES} bytes each, got room for "
            f"{room // KEY_BYTES:,}; give more memory, or node numbers in place of ids"
        )


def _are_numbers(keys: Ids, added: Ids) -> bool:
    first = keys[0] if len(keys) else added[0]
    last = added[-1] if len(added) else keys[-1]
    return int(first) == 0 and int(last) == len(keys) + len(added) - 1
