"""What is done with odd rows, and what a description may say."""

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.description import Description, EdgeTable, Items, NodeTable
from headrace.pipeline.convert.table import ArrayTable

BUYS = ("user", "buys", "item")


def edges_of(src, dst, **more):
    return ArrayTable("edges", {"src": src, "dst": dst, **more})


def test_a_dry_run_reads_no_rows(tmp_path, monkeypatch):
    table = edges_of(np.array([0, 1]), np.array([1, 0]), f=np.ones((2, 3), np.float32))
    monkeypatch.setattr(ArrayTable, "chunks", None)
    nodes = NodeTable(num_nodes=2)
    report = convert_tables(
        Description([EdgeTable(table, features={"f": "f"})], [nodes]), tmp_path / "data", dry_run=True, memory="1GiB"
    )
    assert report.nodes == {"node": 2}
    assert report.edges == {None: 2}
    assert report.arrays == {"edge feature f of the graph": "float32[n, 3]"}
    assert report.memory == 1 << 30
    assert "write arrays" in str(report)
    assert not list(tmp_path.iterdir())


ONE = edges_of(np.array([0]), np.array([1]), t=np.array(["a"], object), w=np.ones(1), v=np.ones((1, 2)))


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (Description([]), "expected a Description with tables of edges"),
        (Description([EdgeTable(ONE, ("a", "b"))]), "expected .source type, relation, destination type."),
        (Description([EdgeTable(ONE), EdgeTable(ONE, BUYS)]), "to have types, or none"),
        (Description([EdgeTable(ONE, BUYS)], [NodeTable("user"), NodeTable("user")]), "several of"),
        (Description([EdgeTable(ONE, features={"f": "t"})]), "expected numbers in 't' of feature 'f'"),
        (Description([EdgeTable(ONE, labels={"y": "t"})]), "number the classes"),
        (Description([EdgeTable(ONE, attributes={"a": "t"})]), "expected numbers in the columns"),
        (Description([EdgeTable(ONE, BUYS, features={"a": "w"}), EdgeTable(ONE, BUYS)]), "in all tables of"),
        (Description([EdgeTable(ONE)], [NodeTable(features={"x": "x"})]), "expected a table of nodes"),
        (Description([EdgeTable(ONE)], items=[Items("a", ONE, "src")] * 2), "expected items 'a' once for a type"),
    ],
)
def test_what_only_descriptions_can_have_is_refused(tmp_path, description, message):
    with pytest.raises(hr.InputError, match=message):
        convert_tables(description, tmp_path / "data", progress=False)
    assert not list(tmp_path.iterdir())
