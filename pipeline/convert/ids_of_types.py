"""How the ids of the nodes of a type are found: they are row numbers, or keys that are integers or texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.ops import InputError
from headrace.pipeline.convert.checked import Reference
from headrace.pipeline.convert.description import NodeTable
from headrace.pipeline.convert.integer_keys import find_keys, integer_ids
from headrace.pipeline.convert.node_ids import DenseIds, NodeIds, chunks_of
from headrace.pipeline.convert.text_keys import find_texts, text_ids
from headrace.pipeline.convert.unused_ids import advice_of

if TYPE_CHECKING:
    from headrace.pipeline.convert.conversion import Conversion


def ids_of_type(conversion: Conversion, node: NodeTable, references: Sequence[Reference]) -> NodeIds:
    """Run the pass that finds the ids of the nodes of a type, if that takes one.

    Raises
    ------
    InputError
        If there are other numbers of nodes than was said, or as `find_keys`.
    """
    create = conversion.tables.options.unknown_ids == "create"
    if _are_texts(node, references):
        facts = conversion.source_pass(
            f"ids of {node.type}",
            lambda: find_texts(conversion.work, node, references, create=create, room=conversion.room),
        )
        _check_number(node, facts["num_rows"])
        return text_ids(conversion.work, node.type, facts, conversion.source_pass, conversion.room)
    if (node.table is not None and node.id is not None) or node.external:
        facts = conversion.source_pass(
            f"ids of {node.type}",
            lambda: find_keys(conversion.work, node, references, create=create, room=conversion.room),
        )
        _check_number(node, facts["num_rows"])
        if facts["is_number"]:
            return DenseIds(facts["num_nodes"], facts["num_rows"])
        return integer_ids(conversion.work, node.type, facts)
    if node.table is None:
        return DenseIds(None if create else node.num_nodes, node.num_nodes or 0)
    num_rows = node.table.num_rows
    if num_rows is None:
        num_rows = conversion.source_pass(f"rows of {node.type}", lambda: {"num_rows": _count_rows(node)})["num_rows"]
    _check_number(node, num_rows)
    return DenseIds(None if create else num_rows, num_rows, advice_of(node))


def _are_texts(node: NodeTable, references: Sequence[Reference]) -> bool:
    if node.table is not None:
        return node.id is not None and node.table.column(node.id).is_text
    return any(one.table.column(one.column).is_text for one in references)


def _count_rows(node: NodeTable) -> int:
    assert node.table is not None
    return sum(map(len, chunks_of(node.table, next(iter(node.table.columns)), 1 << 16)))


def _check_number(node: NodeTable, num_rows: int) -> None:
    if node.table is not None and node.num_nodes not in (None, num_rows):
        raise InputError(
            f"convert: expected {node.num_nodes} nodes of type {node.type!r}, got {num_rows} rows in "
            f"{node.table.name}; correct num_nodes"
        )
