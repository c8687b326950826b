"""Columns without any value, and tables without rows: nothing tells what these hold, so they fit those of others."""

from __future__ import annotations

import pytest
import torch
from table_files import write_toml

import headrace as hr

pytestmark = pytest.mark.filterwarnings("ignore:.*are left out")


def converted(folder, edges, nodes=None, **options):
    """Convert edges, and perhaps nodes, whose files are given by name with their texts."""
    sections = {"nodes.n": {}, "options": options}
    for name, text in edges.items():
        (folder / f"{name}.csv").write_text(text)
        fields = {"files": f"{name}.csv", **({"time": "time"} if "time" in text else {})}
        sections[f'edges."n,{name},n"'] = {**fields, **({"attributes": ["a"]} if "dst,a\n" in text else {})}
    if nodes is not None:
        (folder / "nodes.csv").write_text(nodes)
        sections["nodes.n"] = {"files": "nodes.csv", "id": "id"}
    return hr.convert(write_toml(folder / "d.toml", sections), folder / "out", progress=False)


@pytest.mark.parametrize("text", ["src,dst", "src,dst\n", "src,dst\n,\n,\n"])
def test_ids_are_what_those_of_other_tables_are(tmp_path, text):
    data = converted(tmp_path, {"some": "src,dst\na,b\n", "none": text}, unknown_ids="drop")
    assert (data.graph.num_edges, data.ids["n"].external(torch.arange(2))) == (1, ["a", "b"])


def test_ids_of_one_column_alone(tmp_path):
    data = converted(tmp_path, {"some": "src,dst\n,b\n,a\n"}, nodes="id\na\nb\n", unknown_ids="drop")
    assert (data.graph.num_nodes, data.graph.num_edges) == (2, 0)


@pytest.mark.parametrize("dates", ["2024-05-31", "2024-05-31T10:00"])
def test_times_have_the_unit_of_others(tmp_path, dates):
    edges = {"some": f"src,dst,time\n0,1,{dates}\n", "none": "src,dst,time\n", "null": "src,dst,time\n1,0,\n"}
    data = converted(tmp_path, edges, null_times="earliest")
    assert data.notes["options"]["time_unit"] == ("days" if len(dates) == 10 else "us")
    assert data.graph.edge_attrs["time"].dtype == torch.int64


def test_times_alone_have_no_unit(tmp_path):
    data = converted(tmp_path, {"none": "src,dst,time\n0,1,\n"}, null_times="earliest")
    assert data.notes["options"]["time_unit"] is None


@pytest.mark.parametrize(("values", "dtype"), [("1", torch.int64), ("1.5", torch.float64)])
def test_attributes_have_the_dtype_of_others(tmp_path, values, dtype):
    data = converted(tmp_path, {"some": f"src,dst,a\n0,1,{values}\n", "none": "src,dst,a\n"})
    assert data.graph.edge_attrs["a"].dtype == dtype


def test_columns_of_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    times = pa.array([None, None], pa.string())
    parquet.write_table(pa.table({"src": ["a", "b"], "dst": pa.nulls(2), "time": times}), tmp_path / "null.parquet")
    parquet.write_table(pa.table({"src": pa.array([], pa.int8()), "dst": [], "time": []}), tmp_path / "no.parquet")
    some = pa.table({"src": ["a"], "dst": ["b"], "time": pa.array([7], pa.timestamp("ns"))})
    parquet.write_table(some, tmp_path / "some.parquet")
    edges = {f'edges."n,{name},n"': {"files": f"{name}.parquet", "time": "time"} for name in ("null", "no", "some")}
    options = {"unknown_ids": "drop", "null_times": "earliest"}
    source = write_toml(tmp_path / "d.toml", {"nodes.n": {}, **edges, "options": options})
    data = hr.convert(source, tmp_path / "out", progress=False)
    assert data.graph.edge_attrs["time"].tolist() == [7]
    assert (data.graph.num_edges, data.notes["options"]["time_unit"]) == (1, "ns")


@pytest.mark.parametrize("count", [999, 1_000, 2_000])
def test_columns_of_any_length(tmp_path, count):
    null = "".join(",0\n" for _ in range(count))
    data = converted(tmp_path, {"some": "src,dst\na,b\n", "none": f"src,dst\n{null}"}, unknown_ids="drop")
    assert data.graph.num_edges == 1
    nodes = "id\na\nb\n"
    (tmp_path / "more").mkdir()
    with pytest.raises(hr.InputError, match=r"there is no node with the id (null|'0')"):
        converted(tmp_path / "more", {"some": f"src,dst\n{null}"}, nodes=nodes)


@pytest.mark.parametrize("split", ["part", None])
def test_splits_without_any_name_hold_nothing_out(tmp_path, split):
    (tmp_path / "e.csv").write_text("src,dst,part,number\n0,1,,1\n1,0,,2\n")
    sections = {"edges": {"files": "e.csv", "split": split or "number"}, "options": {"held_out": "drop"}}
    source = write_toml(tmp_path / "d.toml", sections)
    if split is None:
        with pytest.raises(hr.InputError, match=r"e\.csv: expected names of items in 'number', got int64"):
            hr.convert(source, tmp_path / "out", progress=False)
    else:
        assert hr.convert(source, tmp_path / "out", progress=False).graph.num_edges == 2
