"""What a conversion refuses before it writes anything: a description, the columns of tables, and numbers in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from table_files import Description, EdgeTable, Items, NodeTable, Options, Table, converted

import headrace as hr

BUYS, KNOWS = ("user", "buys", "item"), ("user", "knows", "item")
ENDS = {"src": np.array([0]), "dst": np.array([1])}
ODD = {"t": np.array(["a"], object), "w": np.ones(1), "h": np.full(1, 0.5), "v": np.ones((1, 2))}
ONE = Table("edges", {**ENDS, **ODD})
LOOP = EdgeTable(Table("loop", {"src": np.array([0]), "dst": np.array([0])}))
PLAIN = EdgeTable(ONE)
TYPED = EdgeTable(ONE, BUYS)
NODES = Table("nodes", ONE.columns)


def edges(**fields: object) -> Description:
    """One table of edges with other fields."""
    return Description([replace(PLAIN, **fields)])


def policies(**options: object) -> Description:
    return Description([PLAIN], options=Options(**options))


def nodes(**fields: object) -> Description:
    return Description([LOOP], [NodeTable(table=NODES, **fields)])


DESCRIPTIONS = {
    "no edges": (Description([]), r"expected a table \[edges\]"),
    "a type of two names": (edges(type=("a", "b")), "expected an edge type such as"),
    "types of nodes alone": (Description([PLAIN], [NodeTable("a"), NodeTable("b")]), "expected edges with types"),
    "no column": (edges(src="from"), "has no column 'from'"),
    "time_unit, a number": (policies(time_unit=3), "expected time_unit to be a text"),
    "time_unit, empty": (policies(time_unit=""), "expected time_unit to be a text"),
    "time_unit, a list": (policies(time_unit=[]), "expected time_unit to be a text"),
    "time_unit, a switch": (policies(time_unit=True), "expected time_unit to be a text"),
    "loops": (policies(loops="all"), "expected loops to be 'keep' or 'drop' or 'add'"),
    "reverse": (policies(reverse=1), "expected reverse to be True or False"),
    "loops of two types": (
        Description([TYPED], options=Options(loops="add")),
        r"--loops add.: .*got user,buys,item",
    ),
    "undirected and reverse": (policies(undirected=True, reverse=True), "got both"),
    "vectors as ids": (edges(src="v"), "one number or text a row in 'v'"),
    "fractions as ids": (edges(src="h"), "expected integers in .h., got float64 0.5"),
    "texts and integers as ids": (edges(src="t"), "to be texts or integers everywhere"),
    "texts as a feature": (edges(features={"f": "t"}), "feature 'f', got the text 'a'"),
    "texts as an attribute": (edges(attributes={"a": "t"}), "attribute 'a', got the text 'a'"),
    "two weights": (edges(weight="w", attributes={"weight": "w"}), "one attribute 'weight'"),
    "attributes of some types": (
        Description([EdgeTable(ONE, BUYS, attributes={"a": "w"}), EdgeTable(ONE, KNOWS)]),
        "of all tables",
    ),
    "a wrong number of nodes": (nodes(num_nodes=3), "expected 3 nodes of type 'node', got 1"),
    "items of no type": (
        Description([PLAIN], items=[Items("a", ONE, "src", "user")]),
        "there is no node type 'user'",
    ),
    "items without a type": (
        Description([TYPED], items=[Items("a", ONE, "src")]),
        "a type exactly where edges have types",
    ),
    "one end of pairs": (
        Description([TYPED], items=[Items("a", ONE, "src", BUYS)]),
        "columns of nodes, or of two ends",
    ),
    "a negative node": (
        Description([EdgeTable(Table("edges", {"src": np.array([-1]), "dst": np.array([1])}))]),
        "row 0: expected a node number",
    ),
    "a node of 64 bits": (
        Description([EdgeTable(Table("edges", {"src": np.array([2**63], np.uint64), "dst": np.array([1])}))]),
        "expected ids of 'node' to be texts or integers everywhere, got texts in",
    ),
    "numbers as names of splits": (nodes(splits="w"), "expected names of items in 'w'"),
    "texts as a mask": (nodes(splits={"a": "t"}), "got texts"),
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_descriptions(name, tmp_path):
    description, message = DESCRIPTIONS[name]
    with pytest.raises(hr.InputError, match=message):
        converted(description, tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["tables"]


@pytest.mark.parametrize(
    ("memory", "message"),
    [("4 apples", "memory to be bytes"), (0, "bytes or a text"), ("1MB", "give at least")],
)
def test_memory(tmp_path, memory, message):
    with pytest.raises(hr.InputError, match=message):
        converted(Description([PLAIN]), tmp_path, memory=memory)
