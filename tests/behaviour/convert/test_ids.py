"""Ids in files: integers where each is written as its integer is, and otherwise texts, in all columns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from table_files import Description, EdgeTable, NodeTable, Options, Table, converted, write_parquet, write_toml

import headrace as hr

ODD = ["010", "0x1F", "1_000", "-0", "9223372036854775808"]


def opened(tmp_path, edges, nodes=None, **fields):
    """The data set of files of edges and of nodes."""
    sections = {"edges": {"files": edges, **fields}}
    if nodes is not None:
        sections["nodes"] = {"files": nodes, "id": "id"}
    source = write_toml(tmp_path / "g.toml", sections)
    return hr.convert(source, tmp_path / "data", progress=False, overwrite=True)


def texts_of_ends(src, dst):
    pytest.importorskip("duckdb")
    return EdgeTable(Table("edges", {"src": np.array(src, object), "dst": np.array(dst, object)}))


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_an_id_that_is_no_integer_makes_all_of_its_type_texts(tmp_path, ending):
    """Also those of the other column and of the table of nodes, whose own texts could be integers."""
    pytest.importorskip("duckdb")
    ids = ["7", "10", *ODD]
    rows = [("10", one) for one in ids]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,x", *(f"{one},1" for one in ids)]))
    path = tmp_path / f"edges.{ending}"
    if ending == "parquet":
        src, dst = zip(*rows, strict=True)
        write_parquet(path, {"src": np.array(src, object), "dst": np.array(dst, object)})
    else:
        separator = "," if ending == "csv" else "\t"
        path.write_text("\n".join(map(separator.join, [("src", "dst"), *rows])))
    data = opened(tmp_path, path.name, "nodes.csv")
    assert data.ids["node"].external(range(7)) == ids
    assert data.graph.content_digest() == hr.Graph.from_coo([1] * 7, range(7), num_nodes=7).content_digest()
    data = opened(tmp_path, path.name)  # without a table of nodes: by their bytes
    assert data.ids["node"].external(range(7)) == sorted(ids, key=str.encode)


@pytest.mark.parametrize("odd", ["010", "0x1F", "1_000", " 1"])
def test_an_id_behind_the_first_rows_that_is_no_integer_is_refused(tmp_path, odd):
    rows = "".join(f"{one},{one}\n" for one in range(1000))
    (tmp_path / "edges.csv").write_text(f"src,dst\n{rows}1,{odd}\n")
    with pytest.raises(hr.InputError, match=rf"edges.csv, row 1002: expected an integer.*'dst', got '{odd}'.*\"text\""):
        opened(tmp_path, "edges.csv")
    # A column that was said to be of integers may have zeros in front.
    types = {"src": "int", "dst": "int"}
    if odd == "010":
        assert opened(tmp_path, "edges.csv", types=types).graph.num_edges == 1001
    else:
        with pytest.raises(hr.InputError, match="row 1002: expected an integer of 64 bits"):
            opened(tmp_path, "edges.csv", types=types)


@pytest.mark.parametrize("odd", [" 1", "1.0"])
def test_ids_with_spaces_or_points_name_the_remedy(tmp_path, odd):
    (tmp_path / "edges.csv").write_text(f"src,dst\n{odd},0\n")
    message = r"expected integers in 'src', got float64; write each as 1, not as 1.0 .*space in front.*--text-ids"
    with pytest.raises(hr.InputError, match=message):
        opened(tmp_path, "edges.csv")


def test_texts_and_integers_of_files_that_say_so_are_not_mixed(tmp_path):
    write_parquet(tmp_path / "edges.parquet", {"src": np.array([7, 10]), "dst": np.array([10, 7])})
    (tmp_path / "nodes.csv").write_text("id\n7\n10\n010\n")
    with pytest.raises(hr.InputError, match=r"texts in .*nodes.csv id and integers in .*edges.parquet src"):
        opened(tmp_path, "edges.parquet", "nodes.csv")
    (tmp_path / "nodes.csv").write_text("id\n7\n10\n")
    assert opened(tmp_path, "edges.parquet", "nodes.csv").ids["node"].external([0, 1]).tolist() == [7, 10]


@pytest.mark.filterwarnings("ignore:convert. .* rows of .* are left out")
@pytest.mark.parametrize("policy", ["create", "drop"])
def test_texts_that_no_node_has(tmp_path, policy):
    """Created nodes are behind the others, in the order of the bytes of their ids."""
    rng = np.random.default_rng(5)
    names = np.array([f"{'ab'[i % 2] * (i % 5)}é{i:05}" for i in rng.permutation(600)], object)
    src, dst = names[rng.integers(0, 600, (2, 3000))]
    known = names[:300].tolist()
    edge = EdgeTable(texts_of_ends(src, dst).table)
    node = NodeTable(table=Table("nodes", {"name": names[:300]}), id="name")
    data = converted(Description([edge], [node], options=Options(unknown_ids=policy)), tmp_path)
    created = sorted({*src, *dst} - set(known), key=str.encode) if policy == "create" else []
    assert data.ids["node"].external(range(data.graph.num_nodes)) == [*known, *created]
    number = {name: place for place, name in enumerate([*known, *created])}
    ends = [(number[a], number[b]) for a, b in zip(src, dst, strict=True) if a in number and b in number]
    graph = hr.Graph.from_coo(*zip(*ends, strict=True), num_nodes=len(number))
    assert data.graph.content_digest() == graph.content_digest()


def test_a_text_that_two_nodes_have(tmp_path):
    table = Table("nodes", {"name": np.array([*"abcdefghij", "h", "c", "h"], object)})
    message = r"parquet, row \d+: expected each id once in 'name', got 'c' again.* .*parquet, row 2 .3 such rows.;"
    with pytest.raises(hr.InputError, match=message):
        converted(Description([texts_of_ends("a", "b")], [NodeTable(table=table, id="name")]), tmp_path)


@pytest.mark.parametrize("policy", ["create", "drop"])
def test_a_column_without_rows(tmp_path, policy):
    nodes = NodeTable(table=Table("nodes", {"name": np.array(["b", "a"], object)}), id="name")
    data = converted(Description([texts_of_ends([], [])], [nodes], options=Options(unknown_ids=policy)), tmp_path)
    assert data.ids["node"].external([0, 1]) == ["b", "a"]


def test_empty_texts_and_nulls(tmp_path):
    edge = texts_of_ends(["", "a", None], ["a", "", "a"])
    data = converted(Description([edge], options=Options(unknown_ids="drop")), tmp_path)
    assert data.ids["node"].external([0, 1]) == ["", "a"]
    assert data.graph.num_edges == 2


def test_nothing_is_printed(tmp_path, capfd):
    converted(Description([texts_of_ends([*"ab" * 1000], [*"bc" * 1000])]), tmp_path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("has_statistics", [True, False])
def test_unsigned_hashes_are_texts(tmp_path, has_statistics):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    from pyarrow import parquet

    src, dst = [2**64 - 1, 7, None], [7, 2**63, 3]
    beside = pa.array([{"a": 1, "b": 2}] * 3)  # whose parts have statistics, too
    table = pa.table({"x": beside, "src": pa.array(src, pa.uint64()), "dst": pa.array(dst, pa.uint64())})
    parquet.write_table(table, tmp_path / "e.parquet", write_statistics=has_statistics)
    small = pa.table({"src": pa.array([7], pa.uint64()), "dst": pa.array([8], pa.uint64())})
    parquet.write_table(small, tmp_path / "small.parquet", write_statistics=has_statistics)
    sections = {
        "nodes.n": {},
        'edges."n,large,n"': {"files": "e.parquet"},
        'edges."n,small,n"': {"files": "small.parquet"},
        "options": {"unknown_ids": "drop"},
    }
    data = hr.convert(write_toml(tmp_path / "d.toml", sections), tmp_path / "out", progress=False)
    names = data.ids["n"].external(torch.arange(data.graph.num_nodes))
    assert names == sorted(map(str, [2**64 - 1, 7, 2**63, 3, 8]))
    assert data.graph.num_edges == 3
    # Where all are smaller, they are integers as ever.
    del sections['edges."n,large,n"']
    sections["nodes.n"] = {"external": True}
    data = hr.convert(write_toml(tmp_path / "d.toml", sections), tmp_path / "more", progress=False)
    assert data.ids["n"].external(torch.arange(2)).tolist() == [7, 8]
