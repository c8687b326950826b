"""Conversions that are killed at random moments: nothing half is there, and the same command gives the same bytes."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from table_files import write_parquet, write_toml

from copies import Process

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

#: Kills where each change is checked, and those of `make test-thorough`.
FEW, MANY = 3, 40

COMMAND = """
import sys
import headrace as hr

hr.convert(sys.argv[1], sys.argv[2], progress=False)
"""


@dataclass(frozen=True)
class Whole:
    """A description, the files of its data set, and the seconds that an undisturbed conversion takes."""

    source: Path
    files: dict[str, bytes]
    seconds: float


def files_of(folder: Path) -> dict[str, bytes]:
    """All files of a data set; those that go while they are read are left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def write_tables(folder: Path) -> Path:
    """Write people with texts as ids in CSV, and what they buy in Parquet."""
    random_numbers = random.Random(47)
    names = [f"person {number:05}" for number in range(3_000)]
    random_numbers.shuffle(names)
    rows = [f"{name},{random_numbers.random()},{random_numbers.choice(['red', 'green', ''])}" for name in names]
    (folder / "people.csv").write_text("\n".join(["name,x,colour", *rows]), encoding="utf-8")
    num_edges = 20_000
    columns = {
        "src": pa.array([random_numbers.choice(names) for _ in range(num_edges)]),
        "dst": pa.array([random_numbers.randrange(10**12, 10**12 + 500) for _ in range(num_edges)]),
        "w": pa.array([random_numbers.random() for _ in range(num_edges)]),
        "t": pa.array([random_numbers.randrange(10**6) for _ in range(num_edges)]),
    }
    write_parquet(folder / "buys.parquet", columns)
    sections = {
        'nodes."person"': {"files": "people.csv", "id": "name", "features": "x", "labels": "colour"},
        'nodes."thing"': {"external": True},
        'edges."person,buys,thing"': {"files": "buys.parquet", "weight": "w", "time": "t", "features": "w"},
        "options": {"duplicate_edges": "drop", "reverse": True},
    }
    return write_toml(folder / "tables.toml", sections)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    source = write_tables(folder)
    begin = time.monotonic()
    assert Process(COMMAND, source, folder / "data").wait(120) == 0
    return Whole(source, files_of(folder / "data"), time.monotonic() - begin)


def run_until(whole: Whole, out: Path, seconds: float) -> int:
    """Let the command run for some seconds at most; return how it has ended.

    The folder is looked at all the while: once it is there, it is whole.
    """
    process, is_seen = Process(COMMAND, whole.source, out), False
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if out.exists() and not is_seen:
            is_seen = True
            assert files_of(out) == whole.files
        time.sleep(0.001)
    process.kill()
    assert process.returncode in (0, -signal.SIGKILL), process.communicate()
    return process.returncode


@pytest.mark.slow
@pytest.mark.uninstrumented
@pytest.mark.parametrize(
    "seed", [*range(FEW), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(FEW, MANY))]
)
def test_a_conversion_that_is_killed_leaves_nothing_half(seed, whole, tmp_path):
    moments, out = random.Random(f"kills of {seed}"), tmp_path / "data"
    for _ in range(moments.choice([1, 1, 2, 3])):
        has_ended = run_until(whole, out, moments.uniform(0, whole.seconds)) == 0
        assert not has_ended or out.exists()
        if out.exists():  # it was whole, or had just become so
            assert files_of(out) == whole.files
            shutil.rmtree(out)
    assert run_until(whole, out, 120) == 0
    assert files_of(out) == whole.files
    assert [one.name for one in tmp_path.iterdir()] == ["data"]
