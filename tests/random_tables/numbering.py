"""The nodes of each type, and the number of each id."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from random_tables.answer import Nodes
from random_tables.described import Described
from random_tables.ids import IdColumn, read_ids
from random_tables.tables import Judge, Refusal

#: Numbers of nodes without a table are never up to this one here.
MANY = 2**20

#: Columns of ids by section and role: "src", "dst" or "id".
IdColumns = dict[tuple[str, str], IdColumn]


def number_nodes(described: Described, judge: Judge) -> tuple[dict[str, Nodes], IdColumns]:
    """Return the nodes of each type, and the columns of ids that edges and items have."""
    nodes: dict[str, Nodes] = {}
    columns: IdColumns = {}
    for node_type in described.nodes:
        named = {
            (section, role): IdColumn(*described.column(section, name))
            for section, role, name in described.columns_that_name(node_type)
        }
        nodes[node_type] = _nodes_of_type(described, node_type, named, judge)
        columns |= named
    if not any(one.order for one in nodes.values()) and judge.choose("no nodes") == "refuse":
        judge.refusals.append(Refusal("no nodes", (), words=("at least one node",)))
    return nodes, columns


def _nodes_of_type(described: Described, node_type: str, named: IdColumns, judge: Judge) -> Nodes:
    fields, table = described.nodes[node_type], described.tables.get(f"nodes.{node_type}")
    own = IdColumn(*described.column(f"nodes.{node_type}", fields["id"])) if "id" in fields else None
    count = fields.get("num_nodes", None if table is None or own else table.num_rows)
    columns = [*([own] if own else []), *named.values()]
    kind = read_ids(columns, judge, are_numbers=count is not None)
    keys = {key for column in named.values() for key in column.keys if key is not None}
    if own is not None:
        nodes = Nodes(_own_ids(own, judge))
    elif count is not None:
        nodes = Nodes([*range(count)], are_numbers=True)
    elif kind == "texts" or fields.get("external"):
        return Nodes(sorted(keys, key=_ascending))
    else:
        return _numbers_of_nodes(keys, named, judge)
    if described.options["unknown_ids"] == "create":
        return nodes.with_more(_created(nodes, keys))
    return nodes


def _ascending(key: Any) -> Any:
    """Integers by value, texts by their bytes."""
    return key.encode() if isinstance(key, str) else key


def _own_ids(own: IdColumn, judge: Judge) -> list[Any]:
    nulls = [row for row, key in enumerate(own.keys) if key is None]
    judge.refuse("a node without an id", own.table, nulls)
    first: dict[Any, int] = {}
    repeats = [row for row, key in enumerate(own.keys) if key is not None and first.setdefault(key, row) != row]
    judge.refuse("an id of two nodes", own.table, repeats)
    return list(own.keys)


def _created(nodes: Nodes, keys: Collection[Any]) -> list[Any]:
    """The nodes that tables name and none has, in ascending order of their ids."""
    if nodes.are_numbers:
        end = max((key for key in keys if isinstance(key, int)), default=-1) + 1
        return [*range(len(nodes.order), min(end, MANY))]
    return sorted((key for key in keys if key not in nodes.numbers), key=_ascending)


def _numbers_of_nodes(keys: Collection[int], named: Mapping[Any, IdColumn], judge: Judge) -> Nodes:
    """Nodes 0 to the largest number that a table names."""
    if any(key < 0 for key in keys) and judge.choose("negative numbers of nodes") == "refuse":
        for one in named.values():
            judge.refuse("a negative number of a node", one.table, _rows(one.keys, lambda key: key < 0))
    count = max(keys, default=-1) + 1
    if count > 4 * len(keys) and (count > MANY or judge.choose("numbers with gaps") == "refuse"):
        for one in named.values():
            judge.refuse("numbers of nodes with gaps", one.table, words=["external"])
    return Nodes([*range(min(count, MANY))], are_numbers=True)


def _rows(keys: Sequence[Any], is_one: Any) -> list[int]:
    return [row for row, key in enumerate(keys) if key is not None and is_one(key)]
