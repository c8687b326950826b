"""Conversions that are killed, run out of disk, or whose files change."""

import errno
import os
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest
from shell import main

from headrace.pipeline.cli import command_line
from headrace.pipeline.convert import convert_tables as door
from headrace.pipeline.convert import database
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
    real = os.fsync
    calls = []

    def full(number):
        calls.append(number)
        if len(calls) == 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(number)

    monkeypatch.setattr(os, "fsync", full)
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
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which jobs of a shell in its background ignore
    try:
        with pytest.raises(KeyboardInterrupt), database.database(tmp_path, 1 << 28) as base:
            timer.start()
            base.execute("SELECT sum(hash(range)) FROM range(2000000000)")
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_of_the_program_goes_on(tmp_path):
    """What does not raise ends no statement."""
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        with database.database(tmp_path, 1 << 28) as base:
            os.kill(os.getpid(), signal.SIGINT)
            assert base.value("SELECT count(*) FROM range(3000000) AS a WHERE a.range % 7 = 0") == 428572
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


MEASURED = """
import sys
from itertools import product
from pathlib import Path
import headrace as hr
if sys.argv[3] == "pandas":
    import pandas
data = hr.convert(Path(sys.argv[1]) / "g.toml", Path(sys.argv[1]) / "data", memory=int(sys.argv[2]), progress=False)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024 / int(sys.argv[2]))
"""
NUM_EDGES, NUM_NODES = 1_500_000, 300_000
#: Where pandas is installed pyarrow loads it, and less is refused.
LEAST = "560MB" if find_spec("pandas") else "520MB"


def write_edges(folder, kind):
    """Edges with weights, a third of them to one node, in a file of a kind."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, NUM_NODES, (2, NUM_EDGES))
    ends[1, : NUM_EDGES // 3] = 7
    weights = rng.random(NUM_EDGES)
    if kind == "arrays":
        np.save(folder / "edges.npy", ends)
        np.save(folder / "w.npy", weights)
        return '[edges]\ncolumns = { src = ["edges.npy", 0], dst = ["edges.npy", 1], w = "w.npy" }\nweight = "w"\n'
    import pyarrow as pa
    from pyarrow import csv, parquet

    what, ending = kind.split(".")
    sides = [pa.array([f"user-{one:08d}" for one in side.tolist()] if what == "texts" else side) for side in ends]
    table = pa.table({"src": sides[0], "dst": sides[1], "w": weights})
    (csv.write_csv if ending == "csv" else parquet.write_table)(table, folder / kind)
    return f'[edges]\nfiles = "{kind}"\nweight = "w"\n'


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.uninstrumented
@pytest.mark.parametrize(
    ("others", "memory"),
    [
        *(("alone", memory) for memory in (LEAST, "600MB", "1GB")),
        *(("pandas", memory) for memory in ("600MB", "1GB", "2GB")),
    ],
)
@pytest.mark.parametrize("kind", ["arrays", "numbers.csv", "numbers.parquet", "texts.csv", "texts.parquet"])
def test_memory_is_the_peak_of_the_process(kind, memory, others, tmp_path):
    if others == "pandas":
        pytest.importorskip("pandas")
    (tmp_path / "g.toml").write_text(write_edges(tmp_path, kind))
    limit = int(memory[:-2]) * (10**6 if memory.endswith("MB") else 10**9)
    command = [sys.executable, "-c", MEASURED, str(tmp_path), str(limit), others]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) <= 1.0
