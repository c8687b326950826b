"""Tables in files: each format gives the rows that were written, and names the file and row of what is malformed."""

import gzip

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.files import files_of
from headrace.pipeline.convert.open_table import open_table
from headrace.pipeline.convert.table import Column

TEXT = '''id,n,x,flag,vector,rest
a,1,0.5,true,"1,2.5",
b,,1e3,False,"3,4",9
"c, ""d""",3,nan,TRUE,"5,6",
'''


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
def test_csv(tmp_path, packed):
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


def test_csv_with_rows_longer_than_what_is_read_at_a_time(tmp_path):
    path = tmp_path / "long.csv"
    rows = [(str(row), *("x" * (100_000 if row % 2000 == 1 else 100) for _ in range(5))) for row in range(6000)]
    path.write_text("\n".join(map(",".join, [("n", *"abcde"), *rows])))
    table = CsvTable(path)
    assert rows_of(table, ["n", "e"], 1000) == {"n": list(range(6000)), "e": [row[-1] for row in rows]}
    with pytest.raises(hr.InputError, match=r"long.csv, row 6002: expected an integer"):
        path.write_text(path.read_text() + "\nx,a,b,c,d,e\n")
        rows_of(table, ["n"], 1000)


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
    ],
)
def test_malformed_csv(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(hr.InputError, match=message):
        list(CsvTable(path).chunks(["a", "b"], 100))


@pytest.mark.parametrize("num_before", [0, 3000])
def test_a_file_of_another_encoding_says_so(tmp_path, num_before):
    (tmp_path / "a.csv").write_bytes(b"a\n" + b"b\n" * num_before + "fa\xe7ade\n".encode("latin-1"))
    with pytest.raises(hr.InputError, match="write the file as UTF-8"):
        list(open_table(tmp_path / "a.csv").chunks(["a"], 1000))
