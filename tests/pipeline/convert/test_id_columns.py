"""Ids in files of text: integers where each is written as its integer is, and otherwise texts, in all columns."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.description import Description, EdgeTable, NodeTable


def opened(tmp_path, table, nodes=None, **fields):
    node = NodeTable(**fields) if nodes is None else NodeTable(table=nodes, id="id", **fields)
    convert_tables(Description([EdgeTable(table)], [node]), tmp_path / "data", progress=False, overwrite=True)
    return hr.open_dataset(tmp_path / "data")


def test_an_id_behind_the_first_rows_that_is_no_integer_is_refused(tmp_path):
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
