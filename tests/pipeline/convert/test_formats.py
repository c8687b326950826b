"""Tables in files: each format gives the rows that were written, and names the file and row of what is malformed."""

import gzip
import os

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.convert import csv_table
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.files import files_of
from headrace.pipeline.convert.npy_table import NpyTable, NpzTable
from headrace.pipeline.convert.open_table import open_table
from headrace.pipeline.convert.table import Column

TEXT = '''id,n,x,flag,vector,rest
a,1,0.5,true,"1,2.5",
b,,1e3,False,"3,4",9
"c, ""d""",3,nan,TRUE,"5,6",
'''


@pytest.fixture(params=["pyarrow", "Python"])
def reader(request, monkeypatch):
    if request.param == "Python":
        monkeypatch.setattr(csv_table, "find_spec", lambda name: None)
    else:
        pytest.importorskip("pyarrow")


def rows_of(table, columns=None, rows=2):
    chunks = list(table.chunks(columns or list(table.columns), rows))
    assert all(0 < len(next(iter(chunk.values()))) <= rows for chunk in chunks)
    return {name: [one for chunk in chunks for one in chunk[name].tolist()] for name in chunks[0]}


def test_natural_order_of_files(tmp_path):
    for name in ("part_10.csv", "part_2.csv", "part_1.csv", ".hidden", "_SUCCESS"):
        (tmp_path / name).write_text("a\n1\n")
    names = ["part_1.csv", "part_2.csv", "part_10.csv"]
    assert [one.name for one in files_of(tmp_path)] == names
    assert [one.name for one in files_of(str(tmp_path / "part_*.csv"))] == names
    assert [one.name for one in files_of([tmp_path / "part_10.csv", tmp_path / "part_1.csv"])] == [names[2], names[0]]
    with pytest.raises(hr.InputError, match="names none"):
        files_of(str(tmp_path / "*.parquet"))
    with pytest.raises(hr.InputError, match="cannot be read"):
        files_of(tmp_path / "none.csv")


@pytest.mark.parametrize("packed", [False, True])
def test_csv(tmp_path, reader, packed):
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(TEXT.encode()) if packed else TEXT.encode())
    table = CsvTable(path)
    kinds = {name: column.dtype.name for name, column in table.columns.items()}
    assert kinds == {
        "id": "object",
        "n": "int64",
        "x": "float64",
        "flag": "bool",
        "vector": "float64",
        "rest": "int64",
    }
    assert table.columns["vector"] == Column(np.dtype("float64"), (2,))
    rows = rows_of(table)
    assert rows["id"] == ["a", "b", 'c, "d"']
    assert rows["n"] == [1, None, 3]
    assert rows["x"][:2] == [0.5, 1000.0]
    assert np.isnan(rows["x"][2])
    assert rows["flag"] == [True, False, True]
    assert rows["vector"] == [[1, 2.5], [3, 4], [5, 6]]
    assert rows["rest"] == [None, 9, None]
    assert rows_of(table, ["n"]) == {"n": [1, None, 3]}


def test_csv_with_rows_longer_than_what_is_read_at_a_time(tmp_path, reader):
    path = tmp_path / "long.csv"
    rows = [(str(row), *("x" * (100_000 if row % 2000 == 1 else 100) for _ in range(5))) for row in range(6000)]
    path.write_text("\n".join(map(",".join, [("n", *"abcde"), *rows])))
    table = CsvTable(path)
    assert rows_of(table, ["n", "e"], 1000) == {"n": list(range(6000)), "e": [row[-1] for row in rows]}
    with pytest.raises(hr.InputError, match=r"long.csv, row 6002: expected an integer"):
        path.write_text(path.read_text() + "\nx,a,b,c,d,e\n")
        rows_of(table, ["n"], 1000)


def test_csv_without_header_in_several_files(tmp_path, reader):
    (tmp_path / "part_2.tsv").write_text("3\tx\n4\ty\n")
    (tmp_path / "part_10.tsv").write_text("5\tz\n")
    table = open_table(tmp_path, names=["n", "t"])
    assert rows_of(table) == {"n": [3, 4, 5], "t": ["x", "y", "z"]}
    assert table.where(2) == f"{tmp_path / 'part_10.tsv'}, row 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "t.csv"),
        ("a,b\n" + "1,2\n" * 1000 + "x,2\n", r"t.csv, row 1002: expected an integer of 64 bits in 'a', got 'x'"),
        ("a,b\n" + "1,2\n" * 1000 + "9223372036854775808,2\n", r"row 1002: expected an integer of 64 bits"),
        ("a,b\n" + '1,"1,2"\n' * 1000 + '1,"1,2,3"\n', r"row 1002: expected a list of 2 numbers in 'b'"),
        ("a,a\n1,2\n", "columns of different names"),
        ("", "expected a header in .*, got an empty file"),
        ('a,b\n1,"2\n', "t.csv"),
    ],
)
def test_malformed_csv(tmp_path, reader, text, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(hr.InputError, match=message):
        list(CsvTable(path).chunks(["a", "b"], 100))


def test_types_of_csv_may_be_given(tmp_path, reader):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    table = CsvTable(path, types={"a": "text", "b": "float"})
    assert rows_of(table) == {"a": ["1", "3"], "b": [2.0, 4.0]}
    with pytest.raises(hr.InputError, match="no column 'c'"):
        CsvTable(path, types={"c": "int"})
    with pytest.raises(hr.InputError, match="expected a type of"):
        CsvTable(path, types={"a": "integer"})


def test_npy(tmp_path):
    edges = np.arange(20).reshape(2, 10)
    np.save(tmp_path / "edges.npy", edges)
    np.save(tmp_path / "pairs.npy", edges.T.copy())
    np.save(tmp_path / "x_2.npy", np.ones((4, 3), np.float32))
    np.save(tmp_path / "x_10.npy", np.zeros((6, 3), np.float32))
    table = NpyTable(
        {
            "src": (tmp_path / "edges.npy", 0),
            "dst": (tmp_path / "pairs.npy", 1),
            "x": str(tmp_path / "x_*.npy"),
        }
    )
    assert table.num_rows == 10
    assert table.columns["x"] == Column(np.dtype(np.float32), (3,))
    rows = rows_of(table, rows=3)
    assert rows["src"] == list(range(10))
    assert rows["dst"] == list(range(10, 20))
    assert rows["x"] == [[1] * 3] * 4 + [[0] * 3] * 6
    np.save(tmp_path / "objects.npy", np.array(["a", None], object), allow_pickle=True)
    for file, message in (("objects.npy", "Python objects"), ("none.npy", "cannot be read")):
        with pytest.raises(hr.InputError, match=message):
            NpyTable({"a": tmp_path / file})
    with pytest.raises(hr.InputError, match="one length"):
        NpyTable({"a": tmp_path / "x_2.npy", "b": tmp_path / "x_10.npy"})
    with open(tmp_path / "x_10.npy", "r+b") as file:  # noqa: PTH123 - cut short
        file.truncate(150)
    with pytest.raises(hr.InputError, match="became shorter"):
        rows_of(table, rows=3)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    save(tmp_path / "t.npz", src=np.arange(5), x=np.ones((5, 2)), other=np.zeros(3))
    table = open_table(tmp_path / "t.npz")
    assert list(table.columns) == ["src", "x"]
    assert rows_of(table) == {"src": [0, 1, 2, 3, 4], "x": [[1, 1]] * 5}
    with pytest.raises(hr.InputError, match="one length"):
        NpzTable(tmp_path / "t.npz", ["src", "other"])
    with pytest.raises(hr.InputError, match=r"expected arrays \['y'\]"):
        NpzTable(tmp_path / "t.npz", ["src", "y"])
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(hr.InputError, match="damaged"):
        NpzTable(tmp_path / "bad.npz")


def test_dtypes_of_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    names = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    names += ["float16", "float32", "float64", "bool"]
    parquet.write_table(pa.table({name: np.zeros(2, name) for name in names}), tmp_path / "all.parquet")
    assert open_table(tmp_path / "all.parquet").columns == {name: Column(np.dtype(name)) for name in names}


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for name, start in (("part_10", 3), ("part_2", 0)):
        columns = {
            "id": pa.array([f"n{start + i}" for i in range(3)]).dictionary_encode(),
            "n": pa.array([start, None, start + 2], pa.int32()),
            "v": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32())),
            "t": pa.array([0, 1, 2], pa.timestamp("ms")),
            "flag": pa.array([True, None, False]),
        }
        parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet", row_group_size=2)
    table = open_table(tmp_path)
    assert table.num_rows == 6
    assert table.columns["v"] == Column(np.dtype(np.float32), (2,))
    rows = rows_of(table)
    assert rows["id"] == [f"n{i}" for i in range(6)]
    assert rows["n"] == [0, None, 2, 3, None, 5]
    assert rows["v"] == [[1, 2]] * 6
    assert rows["t"] == [0, 1, 2] * 2
    assert rows["flag"] == [True, None, False] * 2
    assert table.where(4) == f"{tmp_path / 'part_10.parquet'}, row 1"
    parquet.write_table(pa.table({"v": [[1.0, 2.0], [1.0]]}), tmp_path / "odd.parquet")
    with pytest.raises(hr.InputError, match=r"odd.parquet, row 1: expected a vector of 2 in 'v', got one of 1"):
        rows_of(open_table(tmp_path / "odd.parquet"))
    with pytest.raises(hr.InputError, match="expected the columns of"):
        open_table([tmp_path / "odd.parquet", tmp_path / "part_2.parquet"])
    content = (tmp_path / "part_2.parquet").read_bytes()
    (tmp_path / "part_2.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(hr.InputError, match="damaged"):
        open_table(tmp_path / "part_2.parquet")


def test_formats_by_name(tmp_path):
    (tmp_path / "a.xlsx").write_text("a")
    with pytest.raises(hr.InputError, match=r"expected .csv, .tsv"):
        open_table(tmp_path / "a.xlsx")
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(hr.InputError, match="one format"):
        open_table(tmp_path)
    os.mkfifo(tmp_path / "b.csv")
    with pytest.raises(hr.InputError, match="FIFO"):
        open_table(tmp_path / "b.csv")


def test_a_file_with_a_near_name_is_named(tmp_path):
    (tmp_path / "products.csv").write_text("a\n1\n")
    with pytest.raises(hr.InputError, match=r"No such file or directory\); did you mean products\.csv\?"):
        open_table(tmp_path / "product.csv")


@pytest.mark.parametrize("num_before", [0, 3000])
def test_a_file_of_another_encoding_says_so(tmp_path, reader, num_before):
    (tmp_path / "a.csv").write_bytes(b"a\n" + b"b\n" * num_before + "fa\xe7ade\n".encode("latin-1"))
    with pytest.raises(hr.InputError, match="write the file as UTF-8"):
        list(open_table(tmp_path / "a.csv").chunks(["a"], 1000))
