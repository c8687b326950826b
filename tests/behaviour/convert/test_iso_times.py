"""Times that are texts: ISO dates and datetimes."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
from table_files import Description, EdgeTable, Items, NodeTable, Options, Table, converted, write_toml

import headrace as hr


def convert(tmp_path, edge, *, nodes=(), items=(), **options):
    return converted(Description([edge], nodes, items, Options(**options)), tmp_path)


def of(times, name="edges"):
    ids = np.arange(len(times))
    return Table(name, {"src": ids, "dst": ids, "id": ids, "t": np.array(times, object)})


def test_dates_and_datetimes_in_csv(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst,t\n0,1,1970-01-02\n1,0,\n1,2,2024-02-29\n2,0,1969-12-31\n")
    fields = {"edges": {"files": "e.csv", "time": "t"}}
    source = write_toml(tmp_path / "g.toml", {**fields, "options": {"null_times": "earliest"}})
    data = hr.convert(source, tmp_path / "data", progress=False)
    assert data.graph.edge_attrs["time"].tolist() == [1, np.iinfo(np.int64).min, 19782, -1]
    assert data.notes["options"]["time_unit"] == "days"
    assert "unit of times: days" in data.info()
    in_utc = {
        "2024-05-31T13:45:00.25+02:00": "2024-05-31T11:45:00.250+00:00",
        "2024-05-31 13:45": "2024-05-31T13:45:00+00:00",
        "2024-05-31T13:45:00Z": "2024-05-31T13:45:00+00:00",
        "2024-05-31": "2024-05-31T00:00:00+00:00",
        "1900-01-01T00:00:01-0330": "1900-01-01T03:30:01+00:00",
        "2022/09/01 00:20": "2022-09-01T00:20:00+00:00",
        "2022/09/01": "2022-09-01T00:00:00+00:00",
        "2022-09-01 00:20:00.5+00": "2022-09-01T00:20:00.500+00:00",
        "2022-09-01 00:20:00-05": "2022-09-01T05:20:00+00:00",
        "2022-09-01 00:20:00 UTC": "2022-09-01T00:20:00+00:00",
        "2022-09-01 00:20:00.123456000 +01:00": "2022-08-31T23:20:00.123456+00:00",
    }
    wanted = [round(datetime.fromisoformat(one).timestamp() * 10**6) for one in in_utc.values()]
    rows = "".join(f"{i},{i},{i},{one}\n" for i, one in enumerate(in_utc))
    for name in ("e", "n", "i"):
        (tmp_path / f"{name}.csv").write_text("id,src,dst,t\n" + rows)
    fields["nodes"] = {"files": "n.csv", "time": "t"}
    fields["items.train"] = {"files": "i.csv", "time": "t"}
    data = hr.convert(write_toml(tmp_path / "g.toml", fields), tmp_path / "more", progress=False)
    assert data.graph.edge_attrs["time"].tolist() == data.graph.node_attrs["time"].tolist() == wanted
    assert data.items["train"].times.tolist() == wanted
    assert data.notes["options"]["time_unit"] == "us"


def test_labels_beside_times_keep_their_classes(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n")
    (tmp_path / "n.csv").write_text("name,kind,t\na1,cat,2024-05-31\n010,dog,2024-06-01\n")
    nodes = {"files": "n.csv", "labels": "kind", "time": "t"}
    source = write_toml(tmp_path / "g.toml", {"edges": {"files": "e.csv"}, "nodes": nodes})
    data = hr.convert(source, tmp_path / "data", progress=False)
    assert [one.get("classes") for one in data.notes["sources"]] == [{"kind": ["cat", "dog"]}, None]
    assert data.graph.node_attrs["time"].diff().tolist() == [1]


def test_nine_digits_of_a_second_are_nanoseconds(tmp_path):
    times = ["1969-12-31T23:59:59.999999999Z", "1970-01-01 00:00:01", "2261-12-31 00:00:00.1", "1970/01/02"]
    data = convert(tmp_path, EdgeTable(of(times), time="t"))
    assert data.notes["options"]["time_unit"] == "ns"
    far = int(np.datetime64("2261-12-31T00:00:00.100000000").astype(np.int64))
    assert data.graph.edge_attrs["time"].tolist() == [-1, 10**9, far, 86_400 * 10**9]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["yesterday"], "edges.*: expected times to be numbers, or texts such as 2024-05-31, .*got 'yesterday' in 't'"),
        (["2024-05-31"] * 3 + ["2024-13-01"], r"edges.parquet, row 3: expected a date as .* in 't', got '2024-13-01'"),
        (["2024-05-31"] * 1000 + ["2024-05-31T10:00"], r"edges.parquet, row 1000: expected a date"),
        (
            ["2024-05-31T10:00"] * 1000 + ["31.05.2024"],
            r"edges.parquet, row 1000: expected a time as .*got '31.05.2024'",
        ),
        (["2024-05-31T25:00"], r"edges.parquet, row 0: expected a time"),
        (["2022/09-01 00:20"], "expected times to be numbers, or texts"),
        (["09/01/2022 00:20"], "expected times to be numbers, or texts"),
        (["2022-09-01 00:20.5"], "expected times to be numbers, or texts"),
        (
            ["2024-05-31T10:00"] * 1000 + ["2024-05-31T10:00:00.0000001"],
            r"edges.parquet, row 1000: expected at most six digits of a second, .*got '2024-05-31T10:00:00.0000001'",
        ),
        (["2024-05-31T10:00:00.000000001", "2600-01-01"], r"edges.parquet, row 1: expected a time from 1678 to 2261"),
    ],
)
def test_other_texts_are_refused(tmp_path, times, message):
    with pytest.raises(hr.InputError, match=message):
        convert(tmp_path, EdgeTable(of(times), time="t"))
    assert [one.name for one in tmp_path.iterdir()] == ["tables"]


def test_the_finest_unit_is_that_of_all_times(tmp_path):
    days, times = of(["1970-01-03", None, "1969-12-31"]), of(["1970-01-01T00:00:01"], "items")
    items = [Items("train", times, "id", time="t")]
    data = convert(tmp_path, EdgeTable(days, time="t"), items=items, null_times="earliest")
    day = 86_400_000_000
    assert data.graph.edge_attrs["time"].tolist() == [2 * day, np.iinfo(np.int64).min, -day]
    assert data.items["train"].times.tolist() == [1_000_000]
    assert data.notes["options"]["time_unit"] == "us"
    with pytest.raises(hr.InputError, match=r"time_unit to be 'days', as .*edges.parquet t has"):
        convert(tmp_path, EdgeTable(days, time="t"), time_unit="s")


def test_dates_of_parquet_beside_timestamps(tmp_path):
    pa = pytest.importorskip("pyarrow")
    kinds = {"e": (pa.date32(), 3), "n": (pa.timestamp("ms"), 5), "far": (pa.date32(), 2_000_000)}
    tables = {}
    for name, (kind, value) in kinds.items():
        times = pa.array([value], pa.int64() if name == "n" else pa.int32()).cast(kind)
        tables[name] = Table(name, {"src": np.zeros(1, int), "dst": np.zeros(1, int), "t": times})
    data = convert(tmp_path, EdgeTable(tables["e"], time="t"), nodes=[NodeTable(table=tables["n"], time="t")])
    assert data.graph.edge_attrs["time"].tolist() == [3 * 86_400_000]
    assert data.graph.node_attrs["time"].tolist() == [5]
    assert data.notes["options"]["time_unit"] == "ms"
    nanoseconds = Table("ns", {"src": np.zeros(1, int), "t": pa.array([0], pa.timestamp("ns"))})
    with pytest.raises(hr.InputError, match=r"far\.parquet, row 0: expected a time in 't' .* unit 'ns'.* got 2000000"):
        convert(tmp_path, EdgeTable(tables["far"], time="t"), items=[Items("train", nanoseconds, "src", time="t")])
