"""Conversions that are killed, run out of disk, or whose files change."""

import errno
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from shell import main

from headrace.pipeline.cli import command_line
from headrace.pipeline.convert import convert_tables as door
from headrace.pipeline.convert import duck_database, raw_array
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.description import Description, EdgeTable, NodeTable, Options
from headrace.pipeline.convert.npy_table import NpyTable

from described_tables import differences


def write_tables(folder):
    rng = np.random.default_rng(3)
    np.save(folder / "edges.npy", rng.integers(0, 40, (2, 300)))
    np.save(folder / "w.npy", rng.random(300))
    np.save(folder / "f.npy", rng.random((300, 2)))
    np.save(folder / "keys.npy", rng.permutation(40) + 7)
    np.save(folder / "x.npy", rng.random((40, 3)))


def description(folder):
    edges = NpyTable(
        {
            "src": (folder / "edges.npy", 0),
            "dst": (folder / "edges.npy", 1),
            "w": folder / "w.npy",
            "f": folder / "f.npy",
        }
    )
    nodes = NpyTable({"key": folder / "keys.npy", "x": folder / "x.npy"})
    return Description(
        [EdgeTable(edges, weight="w", features={"f": "f"})],
        [NodeTable(table=nodes, id="key", features={"x": "x"})],
        options=Options(unknown_ids="drop", duplicate_edges="drop", undirected=True, loops="add"),
    )


def converted(folder, name, room=1 << 30):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "room", lambda *_: room)
        return convert_tables(description(folder), folder / name, progress=False)


def test_passes_that_are_finished_are_not_run_again(tmp_path, monkeypatch):
    write_tables(tmp_path)
    whole = converted(tmp_path, "whole")
    real = raw_array.os.fsync
    calls = []

    def full(number):
        calls.append(number)
        if len(calls) == 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(number)

    monkeypatch.setattr(raw_array.os, "fsync", full)
    message = r"the disk is full \(.*/\.data\.converting/\S+\); make room and convert again: finished passes"
    with pytest.raises(OSError, match=message) as error:
        converted(tmp_path, "data")
    assert error.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert not (tmp_path / "data").exists()
    journal = (tmp_path / ".data.converting" / "journal").read_text()
    assert "read edges 0" in journal
    with (tmp_path / ".data.converting" / "journal").open("a") as file:
        file.write('{"pass": "sort')  # as of a process that was killed while it wrote
    reads = []
    chunks = NpyTable.chunks
    monkeypatch.setattr(
        NpyTable, "chunks", lambda self, columns, rows: reads.append(columns) or chunks(self, columns, rows)
    )
    again = converted(tmp_path, "data")
    assert ["src", "dst", "w"] not in reads
    assert not differences(tmp_path / "data", tmp_path / "whole")
    assert again.counts == whole.counts
    assert not (tmp_path / ".data.converting").exists()


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interruption_names_what_is_kept(tmp_path, monkeypatch, capsys):
    write_tables(tmp_path)
    (tmp_path / "g.toml").write_text('[edges]\ncolumns = { src = ["edges.npy", 0], dst = ["edges.npy", 1] }\n')
    chunks, work = NpyTable.chunks, tmp_path / ".data.converting"
    monkeypatch.setattr(NpyTable, "chunks", interrupted)
    command = ["convert", str(tmp_path / "g.toml"), str(tmp_path / "data")]
    assert main(command) == 130
    error = capsys.readouterr().err
    assert error.startswith("headrace: interrupted; ")
    assert f"kept in {work}, and the same conversion goes on" in error
    assert error.count("\n") == 1
    assert work.exists()
    monkeypatch.setattr(NpyTable, "chunks", chunks)
    assert main(command) == 0
    assert not work.exists()
    monkeypatch.setattr(command_line.doctor, "run", interrupted)
    capsys.readouterr()
    assert main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "headrace: interrupted\n")


def test_an_interruption_while_duckdb_reads_is_one(tmp_path):
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), duck_database.database(tmp_path, 1 << 28) as base:
        timer.start()
        base.execute("SELECT count(*) FROM range(100000000) AS a, range(100000) AS b")
    timer.join()


MEASURED = """
import sys
from pathlib import Path
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.description import Description, EdgeTable
from headrace.pipeline.convert.memory import resident
from headrace.pipeline.convert.npy_table import NpyTable
folder = Path(sys.argv[1])
table = NpyTable({"src": (folder / "edges.npy", 0), "dst": (folder / "edges.npy", 1), "w": folder / "w.npy"})
limit = resident() + (110 << 20)
convert_tables(Description([EdgeTable(table, weight="w")]), folder / "data", memory=limit, progress=False)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024 / limit)
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.uninstrumented
def test_memory_is_kept(tmp_path):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 300_000, (2, 4_000_000))
    edges[1, :1_500_000] = 7  # more edges to one node than a sort may have
    np.save(tmp_path / "edges.npy", edges)
    np.save(tmp_path / "w.npy", rng.random(4_000_000))
    run = subprocess.run([sys.executable, "-c", MEASURED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) <= 1.0


MEASURED_TABLE = """
import sys
from pathlib import Path
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.description import Description, EdgeTable
from headrace.pipeline.convert.duck_database import load_database
from headrace.pipeline.convert.memory import resident
from headrace.pipeline.convert.open_table import open_table
path = Path(sys.argv[1])
table = open_table(path)
table.load()
if "text" in path.name:
    load_database(path.parent)
limit = resident() + (160 << 20 if "text" in path.name else 84 << 20)
convert_tables(Description([EdgeTable(table, weight="w")]), path.parent / "data", memory=limit, progress=False)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024 / limit)
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.uninstrumented
@pytest.mark.parametrize("name", ["numbers.csv", "numbers.parquet", "texts.parquet"])
def test_little_memory_is_kept_by_readers(tmp_path, name):
    """Readers of CSV and Parquet read ahead, and DuckDB takes what it does not count."""
    pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    ends = {side: rng.integers(0, 300_000, 1_500_000) for side in ("src", "dst")}
    texts = {side: pa.array([f"user-{one:08d}" for one in ids.tolist()]) for side, ids in ends.items()}
    table = pa.table({**(texts if name.startswith("text") else ends), "w": rng.random(1_500_000)})
    write = csv.write_csv if name.endswith("csv") else parquet.write_table
    write(table, tmp_path / name)
    command = [sys.executable, "-c", MEASURED_TABLE, str(tmp_path / name)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) <= 1.05
