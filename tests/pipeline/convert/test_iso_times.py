"""Times that are texts: ISO dates and datetimes."""

from __future__ import annotations

from datetime import datetime

import numpy as np

import headrace as hr
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.description import Description, EdgeTable, Items, NodeTable, Options
from headrace.pipeline.convert.table import ArrayTable


def convert(tmp_path, edge, *, nodes=(), items=(), **options):
    description = Description([edge], nodes, items, Options(**options))
    convert_tables(description, tmp_path / "data", progress=False, overwrite=True)
    return hr.open_dataset(tmp_path / "data")


def of(times, name="edges"):
    ids = np.arange(len(times))
    return ArrayTable(name, {"src": ids, "dst": ids, "id": ids, "t": np.array(times, object)})


def test_dates_and_datetimes(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst,t\n0,1,1970-01-02\n1,0,\n1,2,2024-02-29\n2,0,1969-12-31\n")
    data = convert(tmp_path, EdgeTable(CsvTable(tmp_path / "e.csv"), time="t"), null_times="earliest")
    assert data.graph.edge_attrs["time"].tolist() == [1, np.iinfo(np.int64).min, 19782, -1]
    assert data.notes["options"]["time_unit"] == "days"
    assert "unit of times: days" in data.info()
    in_utc = {
        "2024-05-31T13:45:00.25+02:00": "2024-05-31T11:45:00.250+00:00",
        "2024-05-31 13:45": "2024-05-31T13:45:00+00:00",
        "2024-05-31T13:45:00Z": "2024-05-31T13:45:00+00:00",
        "2024-05-31": "2024-05-31T00:00:00+00:00",
        "1900-01-01T00:00:01-0330": "1900-01-01T03:30:01+00:00",
    }
    wanted = [round(datetime.fromisoformat(one).timestamp() * 10**6) for one in in_utc.values()]
    times = list(in_utc)
    (tmp_path / "e.csv").write_text("src,dst,t\n" + "".join(f"{i},{i},{one}\n" for i, one in enumerate(times)))
    items = [Items("train", of(times, "items"), "id", time="t")]
    nodes = [NodeTable(table=of(times, "nodes"), time="t")]
    data = convert(tmp_path, EdgeTable(CsvTable(tmp_path / "e.csv"), time="t"), nodes=nodes, items=items)
    assert data.graph.edge_attrs["time"].tolist() == data.graph.node_attrs["time"].tolist() == wanted
    assert data.items["train"].times.tolist() == wanted
    assert data.notes["options"]["time_unit"] == "us"
