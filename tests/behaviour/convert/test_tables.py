"""Tables in files: each format gives the rows that were written, and names the file and row of what is malformed."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest
import torch
from table_files import write_parquet, write_toml

import headrace as hr


def of_nodes(tmp_path, table, num_nodes=None, **fields):
    """A data set whose nodes are the rows of a table; node 0 has a loop."""
    np.save(tmp_path / "ends.npy", np.zeros(1, int))
    edges = {"columns": {"src": "ends.npy", "dst": "ends.npy"}}
    source = write_toml(tmp_path / "g.toml", {"edges": edges, "nodes": {**table, **fields}})
    data = hr.convert(source, tmp_path / "data", progress=False, overwrite=True)
    assert num_nodes in (None, data.graph.num_nodes)
    return data


def rows_of(data, name):
    return data.store.node[name].read(torch.arange(data.graph.num_nodes)).rows


def refused(tmp_path, table, message, **fields):
    with pytest.raises(hr.InputError, match=message):
        of_nodes(tmp_path, table, **fields)


TEXT = '''name,n,x,flag,vector,rest
a,1,0.5,true,"1,2.5",
b,,1e3,False,"3,4",9
"c, ""d""",3,nan,TRUE,"5,6",
'''


@pytest.mark.parametrize("packed", [False, True])
def test_csv(tmp_path, packed):
    """Texts, integers and nulls, floating point, booleans in any case, vectors; packed or not."""
    pytest.importorskip("duckdb")
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(TEXT.encode()) if packed else TEXT.encode())
    wanted = {"features": ["x", "vector"], "labels": ["n", "rest"], "splits": {"train": "flag"}}
    data = of_nodes(tmp_path, {"files": path.name}, 3, **wanted)
    assert rows_of(data, "x").tolist()[:2] == [0.5, 1000.0]
    assert bool(rows_of(data, "x")[2].isnan())
    assert rows_of(data, "vector").tolist() == [[1, 2.5], [3, 4], [5, 6]]
    assert rows_of(data, "n").tolist() == [1, -100, 3]
    assert rows_of(data, "rest").tolist() == [-100, 9, -100]
    assert data.items["train"].ids.tolist() == [0, 2]
    (tmp_path / "edges.csv").write_text('src,dst\na,b\n"c, ""d""",a\n')
    sections = {"edges": {"files": "edges.csv"}, "nodes": {"files": path.name, "id": "name"}}
    data = hr.convert(write_toml(tmp_path / "ids.toml", sections), tmp_path / "ids", progress=False)
    assert data.ids["node"].external(range(3)) == ["a", "b", 'c, "d"']
    assert data.graph.indices.tolist() == [2, 0]


def test_csv_with_long_rows(tmp_path):
    rows = [(str(row), *("x" * (100_000 if row % 500 == 1 else 100) for _ in range(5))) for row in range(1500)]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(map(",".join, [("n", *"abcde"), *rows])))
    assert rows_of(of_nodes(tmp_path, {"files": "long.csv"}, 1500, features="n"), "n").tolist() == [*range(1500)]
    path.write_text(path.read_text() + "\nx,a,b,c,d,e\n")
    refused(tmp_path, {"files": "long.csv"}, r"long.csv, row 1502: expected an integer", features="n")


def test_csv_without_header_in_several_files(tmp_path):
    """Files are in the order of the numbers in their names; hidden ones and marks of writers are none."""
    (tmp_path / "parts").mkdir()
    for name, text in (("part_2.tsv", "3\tx\n4\ty\n"), ("part_10.tsv", "5\tz\n"), (".hidden", "?"), ("_SUCCESS", "")):
        (tmp_path / "parts" / name).write_text(text)
    for files in ("parts", "parts/part_*.tsv", ["parts/part_2.tsv", "parts/part_10.tsv"]):
        data = of_nodes(tmp_path, {"files": files, "names": ["n", "t"]}, 3, features="n", labels="t")
        assert rows_of(data, "n").tolist() == [3, 4, 5]
        assert rows_of(data, "t").tolist() == [0, 1, 2]
    (tmp_path / "parts/part_10.tsv").write_text("5\tz\n\tw\n")
    message = r"part_10\.tsv, row 2: expected a number in 'n' for a feature, got null"
    refused(tmp_path, {"files": "parts", "names": ["n", "t"]}, message, features="n")


def test_parts_of_csv_have_their_columns_in_any_order(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/1.csv").write_text("n,t\n3,x\n4,y\n")
    (tmp_path / "parts/2.csv").write_text("t,n\nx,5\n")
    data = of_nodes(tmp_path, {"files": "parts"}, 3, features="n", labels="t")
    assert rows_of(data, "n").tolist() == [3, 4, 5]
    assert rows_of(data, "t").tolist() == [0, 1, 0]
    (tmp_path / "parts/2.csv").write_text("t,n\nx,5\ny\n")
    refused(tmp_path, {"files": "parts"}, r"2\.csv, row 3: expected 2 columns, got 1", features="n")
    (tmp_path / "parts/2.csv").write_text("t,m\nx,5\n")
    refused(tmp_path, {"files": "parts"}, r"the columns \['n', 't'\] in .*2\.csv, got \['t', 'm'\]", features="n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "t.csv"),
        ("a,b\n" + "1,2\n" * 1000 + "x,2\n", r"t.csv, row 1002: expected an integer of 64 bits in 'a', got 'x'"),
        ("a,b\n" + "1,2\n" * 1000 + "9223372036854775808,2\n", r"row 1002: expected an integer of 64 bits"),
        ("a,b\n" + '1,"1,2.5"\n' * 1000 + '1,"1,2.5,3"\n', r"row 1002: expected a list of 2 numbers in 'b'"),
        ("a,a\n1,2\n", "columns of different names"),
        ("", "expected a header in .*, got an empty file"),
        ('a,b\n1,"2\n', "t.csv"),
        ("a,b\n1,2\nfa\xe7ade,3\n", "write the file as UTF-8"),
        ("a,b\n" + "1,2\n" * 3000 + "fa\xe7ade,3\n", "write the file as UTF-8"),
    ],
)
def test_malformed_csv(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text, encoding="latin-1")
    refused(tmp_path, {"files": "t.csv"}, message, features=["a", "b"])


def test_types_of_csv_may_be_given(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    table = {"files": "t.csv", "types": {"a": "text", "b": "float"}}
    data = of_nodes(tmp_path, table, 2, labels="a", features="b")
    assert rows_of(data, "a").tolist() == [0, 1]
    assert data.notes["sources"][0]["classes"] == {"a": ["1", "3"]}
    assert rows_of(data, "b").tolist() == [2.0, 4.0]
    refused(tmp_path, {"files": "t.csv", "types": {"c": "int"}}, "no column 'c'")
    refused(tmp_path, {"files": "t.csv", "types": {"a": "integer"}}, "expected a type of")


def test_npy(tmp_path):
    """Rows of a matrix, its columns, and several files that follow each other."""
    edges = np.arange(20).reshape(2, 10)
    np.save(tmp_path / "edges.npy", edges)
    np.save(tmp_path / "pairs.npy", edges.T.copy())
    np.save(tmp_path / "x_2.npy", np.ones((4, 3), np.float32))
    np.save(tmp_path / "x_10.npy", np.zeros((6, 3), np.float32))
    columns = {"a": ["edges.npy", 0], "b": ["pairs.npy", 1], "x": "x_*.npy"}
    data = of_nodes(tmp_path, {"columns": columns}, 10, features=["a", "b", "x"])
    assert rows_of(data, "a").tolist() == [*range(10)]
    assert rows_of(data, "b").tolist() == [*range(10, 20)]
    assert rows_of(data, "x").tolist() == [[1] * 3] * 4 + [[0] * 3] * 6
    assert rows_of(data, "x").dtype == torch.float32
    np.save(tmp_path / "objects.npy", np.array(["a", None], object), allow_pickle=True)
    for file, message in (("objects.npy", "Python objects"), ("none.npy", "cannot be read")):
        refused(tmp_path, {"columns": {"a": file}}, message)
    refused(tmp_path, {"columns": {"a": "x_2.npy", "b": "x_10.npy"}}, "one length")
    os.truncate(tmp_path / "x_10.npy", 150)
    refused(tmp_path, {"columns": columns}, "x_10.npy", features="x")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    save(tmp_path / "t.npz", n=np.arange(5), x=np.ones((5, 2)), other=np.zeros(3))
    data = of_nodes(tmp_path, {"files": "t.npz"}, 5, features=["n", "x"])
    assert rows_of(data, "n").tolist() == [0, 1, 2, 3, 4]
    assert rows_of(data, "x").tolist() == [[1, 1]] * 5
    refused(tmp_path, {"files": "t.npz"}, "'y'", features="y")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 and no more")
    refused(tmp_path, {"files": "bad.npz"}, "damaged")


def test_dtypes_of_parquet(tmp_path):
    names = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    names += ["float16", "float32", "float64"]
    write_parquet(tmp_path / "all.parquet", {name: np.arange(2).astype(name) for name in names})
    data = of_nodes(tmp_path, {"files": "all.parquet"}, 2, features=names)
    for name in names:
        assert str(rows_of(data, name).dtype) == f"torch.{name}"
        assert rows_of(data, name).double().tolist() == [0, 1]


def test_parquet(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "parts").mkdir()
    for name, start in (("part_10", 3), ("part_2", 0)):
        columns = {
            "name": pa.array([f"n{start + i}" for i in range(3)]).dictionary_encode(),
            "n": pa.array([start, None, start + 2], pa.int32()),
            "v": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32())),
            "t": pa.array([0, 1, 2], pa.timestamp("ms")),
            "flag": pa.array([True, None, False]),
        }
        parquet.write_table(pa.table(columns), tmp_path / "parts" / f"{name}.parquet", row_group_size=2)
    wanted = {"features": "v", "labels": ["name", "n"], "time": "t", "splits": {"train": "flag"}}
    data = of_nodes(tmp_path, {"files": "parts"}, 6, **wanted)
    assert rows_of(data, "v").tolist() == [[1, 2]] * 6
    assert rows_of(data, "n").tolist() == [0, -100, 2, 3, -100, 5]
    assert rows_of(data, "name").tolist() == [*range(6)]
    assert data.graph.node_attrs["time"].tolist() == [0, 1, 2] * 2
    assert data.items["train"].ids.tolist() == [0, 3]
    refused(tmp_path, {"files": "parts"}, r"part_2.parquet, row 1: expected a number in 'n'", features="n")
    parquet.write_table(pa.table({"v": [[1.0, 2.0], [1.0]]}), tmp_path / "odd.parquet")
    message = r"odd.parquet, row 1: expected a vector of 2 in 'v', got one of 1"
    refused(tmp_path, {"files": "odd.parquet"}, message, features="v")
    refused(tmp_path, {"files": ["odd.parquet", "parts/part_2.parquet"]}, "expected the columns of")
    content = (tmp_path / "parts/part_2.parquet").read_bytes()
    (tmp_path / "parts/part_2.parquet").write_bytes(content[: len(content) // 2])
    refused(tmp_path, {"files": "parts/part_2.parquet"}, "damaged")


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "a.xlsx").write_text("a")
    refused(tmp_path, {"files": "a.xlsx"}, r"expected .csv, .tsv")
    refused(tmp_path, {"files": "*.parquet"}, "names none")
    refused(tmp_path, {"files": "none.csv"}, "cannot be read")
    (tmp_path / "mixed").mkdir()
    for name in ("a.csv", "b.parquet"):
        (tmp_path / "mixed" / name).write_text("a\n1\n")
    refused(tmp_path, {"files": "mixed"}, "one format")
    os.mkfifo(tmp_path / "b.csv")
    refused(tmp_path, {"files": "b.csv"}, "FIFO")
    (tmp_path / "products.csv").write_text("a\n1\n")
    refused(tmp_path, {"files": "product.csv"}, r"No such file or directory\); did you mean products\.csv\?")
