"""What a user would write in place of a conversion: DuckDB and NumPy, in some lines a kind of table.

Run by bench/convert.py in a process of its own, as ``plain_sql.py KIND FOLDER TARGET MEMORY``. It reads what the
conversion reads, and writes the same arrays in the same order, with the same memory for the whole process; it checks
nothing. Torch and headrace are loaded, too, so that both have the same room.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa  # noqa: F401 - loaded as by the conversion
import torch  # noqa: F401

import headrace as hr
from headrace.pipeline.convert.memory import room

_ = hr.convert
kind, folder, target, memory = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
started, worked = time.perf_counter(), time.process_time()
target.mkdir()
base = duckdb.connect(
    str(target / "tables.duckdb"),
    config={"memory_limit": f"{int(room(memory) * 0.75)}B", "temp_directory": str(target / "spilled"), "threads": 2},
)
base.execute("SET enable_progress_bar = false")


def write(name: str, query: str, columns: Mapping[str, type]) -> int:
    """Write the columns of a query to files."""
    files, count = {one: (target / f"{name}.{one}").open("wb") for one in columns}, 0
    for batch in base.sql(query).to_arrow_reader(1 << 17):
        for one, dtype in columns.items():
            files[one].write(batch.column(one).to_numpy(zero_copy_only=False).astype(dtype, copy=False).data)
        count += len(batch)
    return count


def write_graph(edges: str, num_nodes: int, more: Mapping[str, type]) -> None:
    """Write edges ``src, dst, edge, ...`` sorted by destination, and where each row begins."""
    columns = {"src": np.int32, "edge": np.int32, **more}
    write("graph", f"SELECT {', '.join(columns)} FROM ({edges}) ORDER BY dst, edge", columns)
    starts = np.zeros(num_nodes + 1, np.int64)
    for dst, count in base.execute(f"SELECT dst, count(*) FROM ({edges}) GROUP BY dst").fetchall():
        starts[dst + 1] = count
    np.cumsum(starts).tofile(target / "graph.indptr")


ending = next(one for one in ("parquet", "csv") if (folder / f"{kind}.{one}").exists())
of_texts = "texts" in kind
key = "VARCHAR" if of_texts else "BIGINT"
if ending == "parquet":
    table = f"(SELECT file_row_number AS edge, * FROM read_parquet('{folder / kind}.parquet', file_row_number = true))"
else:
    types = {"src": key, "dst": key, **({"w": "DOUBLE", "t": "BIGINT"} if "times" in kind else {})}
    read = f"read_csv('{folder / kind}.csv', header = true, columns = {types})"
    base.execute(f"CREATE TABLE lines AS SELECT row_number() OVER () - 1 AS edge, * FROM {read}")
    table = "lines"
base.execute("SET preserve_insertion_order = false")  # rows are numbered
more = {"w": np.float64, "t": np.int64} if "times" in kind else {}
names = "".join(f", e.{one}" for one in more)
if of_texts:
    sides = {"users": ["src"], "items": ["dst"]} if "types" in kind else {"keys": ["src", "dst"]}
    sources, destinations, num_nodes = next(iter(sides)), next(reversed(sides)), 0
    for keys, ends in sides.items():
        of_type = " UNION ".join(f"SELECT DISTINCT {end} AS key FROM {table}" for end in ends)
        number = f"{num_nodes} + row_number() OVER (ORDER BY key) - 1"
        base.execute(f"CREATE TABLE {keys} AS SELECT key, {number} AS node FROM ({of_type})")
        num_nodes += base.execute(f"SELECT count(*) FROM {keys}").fetchall()[0][0]
    if memory < 10**9:  # DuckDB cannot spill two joins of one query
        base.execute(
            f"CREATE TABLE half AS SELECT s.node AS src, e.dst, e.edge{names} FROM {table} e "
            f"JOIN {sources} s ON s.key = e.src"
        )
        base.execute(
            f"CREATE TABLE edges AS SELECT e.src, d.node AS dst, e.edge{names} FROM half e "
            f"JOIN {destinations} d ON d.key = e.dst"
        )
    else:
        base.execute(
            f"CREATE TABLE edges AS SELECT s.node AS src, d.node AS dst, e.edge{names} FROM {table} e "
            f"JOIN {sources} s ON s.key = e.src JOIN {destinations} d ON d.key = e.dst"
        )
    for keys in sides:
        with (target / f"{keys}.ids").open("wb") as file:
            for batch in base.sql(f"SELECT key FROM {keys} ORDER BY node").to_arrow_reader(1 << 17):
                file.write(batch.column(0).buffers()[2])
    write_graph("SELECT * FROM edges", num_nodes, more)
else:
    num_nodes = 1 + max(base.execute(f"SELECT max(src), max(dst) FROM {table}").fetchall()[0])
    write_graph(f"SELECT * FROM {table}", num_nodes, more)
base.close()
seconds, work = time.perf_counter() - started, time.process_time() - worked
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps([seconds, work, int(peak.split()[1]) * 1024]))
