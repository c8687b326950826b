"""Ids in files of text: integers where each is written as its integer is, and otherwise texts, in all columns."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.pipeline.convert import csv_table
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.description import Description, EdgeTable, NodeTable
from headrace.pipeline.convert.open_table import open_table


def opened(tmp_path, table, nodes=None, **fields):
    node = NodeTable(**fields) if nodes is None else NodeTable(table=nodes, id="id", **fields)
    convert_tables(Description([EdgeTable(table)], [node]), tmp_path / "data", progress=False, overwrite=True)
    return hr.open_dataset(tmp_path / "data")


ODD = ["010", "0x1F", "1_000", "-0", "9223372036854775808"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_an_id_that_is_no_integer_makes_all_of_its_type_texts(tmp_path, ending):
    """Also those of the other column and of the table of nodes, whose own texts could be integers."""
    pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    ids = ["7", "10", *ODD]
    rows = [("10", one) for one in ids]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,x", *(f"{one},1" for one in ids)]))
    path = tmp_path / f"edges.{ending}"
    if ending == "parquet":
        parquet.write_table(pa.table({"src": [one for one, _ in rows], "dst": [one for _, one in rows]}), path)
    else:
        separator = "," if ending == "csv" else "\t"
        path.write_text("\n".join(map(separator.join, [("src", "dst"), *rows])))
    data = opened(tmp_path, open_table(path), open_table(tmp_path / "nodes.csv"), features={"x": "x"})
    assert data.ids["node"].external(range(7)) == ids
    assert data.graph.content_digest() == hr.Graph.from_coo([1] * 7, range(7), num_nodes=7).content_digest()
    data = opened(tmp_path, open_table(path))  # without a table of nodes: by their bytes
    assert data.ids["node"].external(range(7)) == sorted(ids, key=str.encode)


@pytest.mark.parametrize("reader", ["pyarrow", "Python"])
def test_an_id_behind_the_first_rows_that_is_no_integer_is_refused(tmp_path, monkeypatch, reader):
    if reader == "Python":
        monkeypatch.setattr(csv_table, "find_spec", lambda name: None)
    else:
        pytest.importorskip("pyarrow")
    path = tmp_path / "edges.csv"
    rows = "".join(f"{one},{one}\n" for one in range(1000))
    for odd in ("010", "0x1F", "1_000", " 1"):
        path.write_text(f"src,dst\n{rows}1,{odd}\n")
        with pytest.raises(
            hr.InputError, match=rf"edges.csv, row 1002: expected an integer.*'dst', got '{odd}'.*\"text\""
        ):
            opened(tmp_path, CsvTable(path))
        # A column that was said to be of integers, and no column of ids, may have zeros in front.
        table = CsvTable(path, types={"src": "int", "dst": "int"})
        if odd == "010":
            assert opened(tmp_path, table).graph.num_edges == 1001
        else:
            with pytest.raises(hr.InputError, match="row 1002: expected an integer of 64 bits"):
                opened(tmp_path, table)


def test_ids_with_spaces_or_points_name_the_remedy(tmp_path):
    for odd in (" 1", "1.0"):
        (tmp_path / "edges.csv").write_text(f"src,dst\n{odd},0\n")
        message = r"expected integers in 'src', got float64; write each as 1, not as 1.0 .*space in front.*--text-ids"
        with pytest.raises(hr.InputError, match=message):
            opened(tmp_path, CsvTable(tmp_path / "edges.csv"))


def test_texts_and_integers_of_files_that_say_so_are_not_mixed(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"src": [7, 10], "dst": [10, 7]}), tmp_path / "edges.parquet")
    (tmp_path / "nodes.csv").write_text("id\n7\n10\n010\n")
    with pytest.raises(hr.InputError, match=r"texts in .*nodes.csv id and integers in .*edges.parquet src"):
        opened(tmp_path, open_table(tmp_path / "edges.parquet"), open_table(tmp_path / "nodes.csv"))
    (tmp_path / "nodes.csv").write_text("id\n7\n10\n")
    data = opened(tmp_path, open_table(tmp_path / "edges.parquet"), open_table(tmp_path / "nodes.csv"))
    assert data.ids["node"].external([0, 1]).tolist() == [7, 10]
