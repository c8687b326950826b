"""Repeated edges whose weights are summed, and rows of nodes that repeat an id."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
import torch
from shell import main
from table_files import write_toml

import headrace as hr

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

EDGES = "src,dst,w,y\na,b,1,5\nb,c,2,6\na,b,4,7\nc,a,8,8\na,b,16,9\nb,c,32,4\n"


def converted(folder, files, sections, **options):
    for name, text in files.items():
        (folder / name).write_text(text)
    return hr.convert(write_toml(folder / "d.toml", sections), folder / "out", progress=False, **options)


def _plain(one):
    return one if isinstance(one, str) else int(one)


def edges_of(data):
    """The edges by the users' ids, with their weights."""
    graph, ids = data.graph, data.ids["node"]
    dst = torch.repeat_interleave(torch.arange(graph.num_nodes), torch.as_tensor(graph.indptr).diff())
    edge_ids = torch.arange(len(dst)) if graph.edge_ids is None else graph.edge_ids
    weights = graph.edge_attrs["weight"]
    src, dst = (list(ids.external(end)) for end in (torch.as_tensor(graph.indices), dst))
    ends = zip(map(_plain, src), map(_plain, dst), strict=True)
    return {pair: weights[place].item() for place, pair in zip(edge_ids.tolist(), ends, strict=True)}


def test_weights_are_summed_into_the_first_edge(tmp_path):
    sections = {"edges": {"files": "e.csv", "weight": "w", "features": ["y"]}}
    data = converted(tmp_path, {"e.csv": EDGES}, sections, duplicate_edges="sum")
    assert edges_of(data) == {("a", "b"): 21, ("b", "c"): 34, ("c", "a"): 8}
    assert data.store.edge["y"].read(torch.arange(3)).rows.reshape(-1).tolist() == [5, 6, 8]
    assert data.notes["counts"]["edges that repeat another one, summed up in it"] == 3


def test_sums_over_several_tables_of_a_type(tmp_path):
    """As DGL has them: also where all rows of the first table stay, and none of the second."""
    files = "- file_name: a.csv\n- file_name: b.csv\n"
    (tmp_path / "meta.yaml").write_text(f"dataset_name: d\nnode_data:\n- file_name: n.csv\nedge_data:\n{files}")
    (tmp_path / "n.csv").write_text("node_id\n0\n1\n")
    (tmp_path / "a.csv").write_text("src_id,dst_id,weight\n0,1,1\n1,0,2\n")
    (tmp_path / "b.csv").write_text("src_id,dst_id,weight\n0,1,4\n0,1,8\n")
    data = hr.convert(tmp_path, tmp_path / "out", progress=False, duplicate_edges="sum")
    assert edges_of(data) == {(0, 1): 13, (1, 0): 2}


@pytest.mark.parametrize("seed", range(4))
def test_sums_are_those_of_the_rows_in_their_order(tmp_path, seed):
    draws = random.Random(seed)
    rows = [(f"n{draws.randrange(6)}", f"n{draws.randrange(6)}", draws.randrange(1 << 12) / 8) for _ in range(400)]
    wanted: dict[tuple[str, str], Fraction] = {}
    for src, dst, weight in rows:
        wanted[src, dst] = wanted.get((src, dst), Fraction(0)) + Fraction(weight)
    text = "src,dst,w\n" + "".join(f"{src},{dst},{weight}\n" for src, dst, weight in rows)
    sections = {"edges": {"files": "e.csv", "weight": "w"}, "options": {"duplicate_edges": "sum"}}
    assert edges_of(converted(tmp_path, {"e.csv": text}, sections)) == wanted


def test_undirected_edges_have_the_sums(tmp_path):
    sections = {"edges": {"files": "e.csv", "weight": "w"}}
    data = converted(tmp_path, {"e.csv": EDGES}, sections, duplicate_edges="sum", undirected=True, loops="add")
    assert {pair: w for pair, w in edges_of(data).items() if pair[0] != pair[1]} == {
        ("a", "b"): 21, ("b", "c"): 34, ("c", "a"): 8, ("b", "a"): 21, ("c", "b"): 34, ("a", "c"): 8,
    }  # fmt: skip


def test_sums_need_weights(tmp_path):
    with pytest.raises(hr.InputError, match=r"sum\): expected a column of weights in .*, got none in .*e\.csv"):
        converted(tmp_path, {"e.csv": EDGES}, {"edges": {"files": "e.csv"}}, duplicate_edges="sum")


def test_sums_that_their_type_has_not(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    weights = pa.array([1, 100, 100], pa.int8())
    parquet.write_table(pa.table({"src": [0, 1, 1], "dst": [1, 0, 0], "w": weights}), tmp_path / "e.parquet")
    sections = {"edges": {"files": "e.parquet", "attributes": {"weight": "w"}}}
    with pytest.raises(hr.InputError, match=r"e\.parquet, row 1: expected a sum of weights that fits int8, got 200"):
        converted(tmp_path, {}, sections, duplicate_edges="sum")
    weights = pa.array([True, True, True])
    parquet.write_table(pa.table({"src": [0, 1, 1], "dst": [1, 0, 0], "w": weights}), tmp_path / "e.parquet")
    with pytest.raises(hr.InputError, match="got true and false in"):
        converted(tmp_path, {}, sections, duplicate_edges="sum")


def test_sums_are_of_edges_that_train_alone(tmp_path):
    text = "src,dst,w,part\na,b,1,train\na,b,2,val\na,b,4,train\n"
    sections = {"edges": {"files": "e.csv", "weight": "w", "split": "part"}}
    with pytest.raises(hr.InputError, match=r"expected held_out='drop' .* beside a column of splits"):
        converted(tmp_path, {"e.csv": text}, sections, duplicate_edges="sum")
    data = converted(tmp_path, {"e.csv": text}, sections, duplicate_edges="sum", held_out="drop")
    assert edges_of(data) == {("a", "b"): 5}
    assert data.items["val"].ids.tolist() == [[0, 1]]


NODES = "id,x,y,split\na,1,red,train\nb,2,blue,val\na,3,green,test\nc,4,red,test\nb,5,blue,train\nb,6,blue,train\n"


def test_the_first_row_of_each_id_stays(tmp_path, capsys):
    nodes = {"files": "n.csv", "id": "id", "features": ["x"], "labels": "y", "split": "split", "time": "x"}
    sections = {"edges": {"files": "e.csv"}, "nodes": nodes}
    files = {"e.csv": EDGES, "n.csv": NODES}
    with pytest.raises(hr.InputError, match=r"n\.csv, row 4: .*\(3 such rows\); .* pass duplicate_ids='drop'"):
        converted(tmp_path, files, sections)
    data = converted(tmp_path, files, sections, duplicate_ids="drop")
    assert data.ids["node"].external(torch.arange(3)) == ["a", "b", "c"]
    assert data.store.node["x"].read(torch.arange(3)).rows.reshape(-1).tolist() == [1, 2, 4]
    classes = next(source["classes"]["y"] for source in data.notes["sources"] if "classes" in source)
    labels = data.store.node["y"].read(torch.arange(3)).rows.reshape(-1).tolist()
    assert [classes[label] for label in labels] == ["red", "blue", "red"]
    assert {name: items.ids.tolist() for name, items in data.items.items()} == {"train": [0], "val": [1], "test": [2]}
    assert data.graph.node_attrs["time"].tolist() == [1, 2, 4]
    assert data.notes["counts"]["rows of node that repeat an id, left out"] == 3
    command = ["convert", str(tmp_path / "d.toml"), str(tmp_path / "again"), "--duplicate-ids", "drop"]
    assert main(command) == 0
    assert hr.open_dataset(tmp_path / "again").graph.content_digest() == data.graph.content_digest()
    capsys.readouterr()


def test_errors_name_the_row_as_it_stands_in_the_file(tmp_path):
    files = {"e.csv": EDGES, "n.csv": "id,x\na,1\na,2\na,3\nb,4\nc,\n"}
    sections = {"edges": {"files": "e.csv"}, "nodes": {"files": "n.csv", "id": "id", "features": ["x"]}}
    with pytest.raises(hr.InputError, match=r"n\.csv, row 6: expected a number in 'x'"):
        converted(tmp_path, files, sections, duplicate_ids="drop")


def test_ids_that_become_numbers_once_repeats_are_left_out(tmp_path):
    files = {"e.csv": "src,dst\n0,1\n2,0\n", "n.csv": "id,x\n0,1\n1,2\n1,3\n2,4\n"}
    sections = {"edges": {"files": "e.csv"}, "nodes": {"files": "n.csv", "id": "id", "features": ["x"]}}
    data = converted(tmp_path, files, sections, duplicate_ids="drop")
    assert data.store.node["x"].read(torch.arange(3)).rows.reshape(-1).tolist() == [1, 2, 4]


def test_many_repeats(tmp_path):
    """More than are looked at together."""
    rows = [f"{number % 7},{number}\n" for number in range(200_000)]
    sections = {"edges": {"files": "e.csv"}, "nodes": {"files": "n.csv", "id": "id", "features": ["x"]}}
    files = {"e.csv": "src,dst\n0,1\n", "n.csv": "id,x\n" + "".join(rows) + "8,\n"}
    with pytest.raises(hr.InputError, match=r"n\.csv, row 200002: expected a number in 'x'"):
        converted(tmp_path, files, sections, duplicate_ids="drop")
    files["n.csv"] = files["n.csv"].replace("8,\n", "8,5\n")
    data = converted(tmp_path, files, sections, duplicate_ids="drop")
    assert data.store.node["x"].read(torch.arange(8)).rows.reshape(-1).tolist() == [0, 1, 2, 3, 4, 5, 6, 5]
