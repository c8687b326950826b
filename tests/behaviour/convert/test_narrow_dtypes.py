"""Numbers that another dtype is asked for: a value that would change is refused with its file and row."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from table_files import Description, EdgeTable, Table, converted, write_parquet, write_toml

import headrace as hr


def of_graphstorm(folder, values, out_dtype, *, as_csv=False):
    """The feature of a folder of GraphStorm whose column has these values."""
    folder.mkdir()
    form = "csv" if as_csv else "parquet"
    if as_csv:
        (folder / "n.csv").write_text("id,age\n" + "".join(f"{row},{one}\n" for row, one in enumerate(values)))
        (folder / "e.csv").write_text("s,d\n0,0\n")
    else:
        write_parquet(folder / "n.parquet", {"id": np.arange(len(values)), "age": values})
        write_parquet(folder / "e.parquet", {"s": np.array([0]), "d": np.array([0])})
    feature = {"feature_col": "age", **({} if out_dtype is None else {"out_dtype": out_dtype})}
    node = {
        "node_type": "n",
        "format": {"name": form},
        "files": f"n.{form}",
        "node_id_col": "id",
        "features": [feature],
    }
    edge = {"relation": ["n", "r", "n"], "format": {"name": form}, "files": f"e.{form}"}
    edges = [{**edge, "source_id_col": "s", "dest_id_col": "d"}]
    (folder / "build.json").write_text(json.dumps({"nodes": [node], "edges": edges}))
    data = hr.convert(folder / "build.json", folder.with_name("out"), progress=False)
    return data.store.node["n", "age"].read(torch.arange(len(values))).rows


REFUSED = {
    "int8": ([100, 300], "row 1: expected a number of int8 in 'age', got 300"),
    "negative": ([0, -1], "row 1: expected a number of uint8 in 'age', got -1"),
    "int32": ([2**31], "row 0: expected a number of int32 in 'age', got 2147483648"),
    "int64 of unsigned": (np.array([2**63], np.uint64), "row 0: expected a number of int64 in 'age', got 92233720"),
    "float16": ([1.0, 90_000.0], "row 1: expected a number of float16 in 'age', got 90000.0"),
    "float16 of integers": ([1, 90_000], "row 1: expected a number of float16 in 'age', got 90000"),
    "float32": ([1.0, -1e39], r"row 1: expected a number of float32 in 'age', got -1e\+39"),
    "int16": ([1.0, 2.5], "row 1: expected a number of int16 in 'age', got 2.5"),
    "nan": ([np.nan], "row 0: expected a number of int64 in 'age', got nan"),
    "infinite": ([np.inf], "row 0: expected a number of int64 in 'age', got inf"),
    "large": ([2.0**63], r"row 0: expected a number of int64 in 'age', got 9.22"),
    "vector": (np.array([[1, 2], [3, 400]]), "row 1: expected a number of int8 in 'age', got 400"),
}
DTYPES = {"negative": "uint8", "int64 of unsigned": "int64", "float16 of integers": "float16", "vector": "int8"}
DTYPES |= {"nan": "int64", "infinite": "int64", "large": "int64"}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_values_that_would_change(tmp_path, name):
    values, message = REFUSED[name]
    with pytest.raises(hr.InputError, match=rf"n\.parquet, {message}.*; correct it, or ask for a wider out_dtype"):
        of_graphstorm(tmp_path / "source", np.asarray(values), DTYPES.get(name, name))
    assert not (tmp_path / "out").exists()


def test_the_row_is_counted_over_all_that_are_read(tmp_path):
    values = np.zeros(300_000, np.int64)
    values[250_000] = 128
    with pytest.raises(hr.InputError, match=r"n\.parquet, row 250000: expected a number of int8"):
        of_graphstorm(tmp_path / "source", values, "int8")


def test_the_row_of_csv_is_its_line(tmp_path):
    with pytest.raises(hr.InputError, match=r"n\.csv, row 3: expected a number of int8 in 'age', got 300"):
        of_graphstorm(tmp_path / "source", [100, 300], "int8", as_csv=True)


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([127, -128], "int8", [127, -128]),
        ([255, 0], "uint8", [255, 0]),
        ([3.0, -4.0], "int16", [3, -4]),
        ([0.1, 1e-50, np.nan, np.inf], None, [np.float32(0.1), 0, np.nan, np.inf]),
        ([65504.0, 0.1], "float16", [65504, np.float16(0.1)]),
        ([2**24 + 1, 1], "float32", [2.0**24, 1]),
        ([[0.1, 2.0]], "float64", [[0.1, 2.0]]),
    ],
)
def test_rounding_is_none(tmp_path, values, dtype, expected):
    rows = of_graphstorm(tmp_path / "source", np.asarray(values), dtype)
    assert rows.dtype == getattr(torch, dtype or "float32")
    np.testing.assert_array_equal(rows.numpy(), np.asarray(expected, rows.numpy().dtype))


def test_a_feature_of_csv_that_float32_does_not_hold(tmp_path):
    (tmp_path / "n.csv").write_text("x\n1\n0.5\n1e39\n")
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n")
    sections = {"nodes": {"files": "n.csv", "features": ["x"]}, "edges": {"files": "e.csv"}}
    with pytest.raises(hr.InputError, match=r"n\.csv, row 4: expected a number of float32 in 'x', got 1e\+39"):
        hr.convert(write_toml(tmp_path / "g.toml", sections), tmp_path / "out", progress=False)


def test_columns_of_parquet_keep_their_dtype(tmp_path):
    table = Table("edges", {"src": np.array([0]), "dst": np.array([1]), "w": np.array([1e39])})
    data = converted(Description([EdgeTable(table, features={"w": "w"})]), tmp_path)
    assert data.store.edge["w"].read(torch.arange(1)).rows.tolist() == [1e39]
