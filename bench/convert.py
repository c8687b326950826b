"""Conversions of files to data sets beside plain SQL that writes the same arrays: time, and peak memory.

Files are generated once for a run: edges between a tenth as many nodes, a third of them to one node, with node numbers
and with texts as ids, in Parquet and in CSV, with weights and times, and from nodes of one type to those of another.
Each turn is a process of its own, which says how much memory it had at most.

What a conversion does beyond plain SQL is most of what numbers with times cost it in Parquet, of 2.6 s within 4 GB: 0.4
keep rows in a file, from which a killed conversion goes on; 0.2 check sums and the wait for the disk to have the
arrays; 0.2 count repeated edges and where rows end; 0.3 read the file by Arrow, as the engine may open none.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from bars import BARS
from harness import Gain, Metrics, System, arguments, describe_machine, interleave, print_table, write_json
from plot import draw_bars
from pyarrow import csv, parquet

#: Rows that are generated at a time.
ROWS = 1 << 20

KINDS = (
    "numbers",
    "numbers of CSV",
    "texts",
    "texts of CSV",
    "numbers with times",
    "texts with times of CSV",
    "texts of types",
)

CONVERSION, PLAIN = "conversion", "plain SQL"

PROGRAM = """
import json, sys, time
from pathlib import Path
import duckdb, numpy, pyarrow, torch
import headrace as hr
hr.convert
source, target, memory = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
started, worked = time.perf_counter(), time.process_time()
hr.convert(source, target, memory=memory, progress=False)
seconds, work = time.perf_counter() - started, time.process_time() - worked
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps([seconds, work, int(peak.split()[1]) * 1024]))
"""


def generate(folder: Path, kind: str, num_edges: int) -> None:
    """Write a table of edges of a kind, and the TOML file that describes it."""
    rng = np.random.default_rng(0)
    num_nodes = max(1, num_edges // 10)
    file = folder / f"{kind}.{'csv' if kind.endswith('CSV') else 'parquet'}"
    ids = pa.string() if kind.startswith("texts") else pa.int64()
    more = [("w", pa.float64()), ("t", pa.int64())] if "times" in kind else []
    schema = pa.schema([("src", ids), ("dst", ids), *more])
    with (csv.CSVWriter if file.suffix == ".csv" else parquet.ParquetWriter)(file, schema) as writer:
        for start in range(0, num_edges, ROWS):
            count = min(ROWS, num_edges - start)
            src, dst = rng.integers(0, num_nodes, (2, count))
            dst[rng.random(count) < 1 / 3] = num_nodes // 2
            sides = [src, dst]
            if ids == pa.string():
                sides = [pa.array([f"node-{one:010}" for one in side.tolist()]) for side in sides]
            others = [rng.random(count), np.arange(start, start + count)] if more else []
            writer.write_table(pa.table([*sides, *others], schema=schema))
    fields = 'weight = "w"\ntime = "t"\n' if more else ""
    edges = '[nodes.user]\n[nodes.item]\n[edges."user,buys,item"]' if "types" in kind else "[edges]"
    (folder / f"{kind}.toml").write_text(f'{edges}\nfiles = "{file.name}"\n{fields}')


def turn(folder: Path, system: str, kind: str, memory: int, _: int) -> Metrics:
    """Run a system once, in a process of its own, and return what it took."""
    target = folder / "made"
    plain = [str(Path(__file__).with_name("plain_sql.py")), kind, str(folder), str(target), str(memory)]
    ours = ["-c", PROGRAM, str(folder / f"{kind}.toml"), str(target), str(memory)]
    command = [sys.executable, *(plain if system == PLAIN else ours)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(target, ignore_errors=True)
    if run.returncode:
        raise RuntimeError(f"{system} of {kind}: {run.stderr}")
    seconds, work, peak = json.loads(run.stdout)
    return {
        "time": seconds * 1e3,
        "CPU time": work * 1e3,
        "peak memory": peak / 1e9,
        "peak over the limit": peak / memory,
    }


def main() -> int:
    parser = arguments(__doc__ or "", rounds=3)
    parser.add_argument("--edges", type=int, default=10_000_000, help="edges of a file (default: %(default)s)")
    parser.add_argument("--memory", type=int, nargs="+", default=[600, 4000], help="MB for a process")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    print(describe_machine(["headrace", "duckdb", "pyarrow", "numpy"]))
    records = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in options.kinds:
            generate(folder, kind, options.edges)
            for memory in options.memory:
                systems = [System(one, partial(turn, folder, one, kind, memory * 10**6)) for one in (CONVERSION, PLAIN)]
                gains = [Gain((PLAIN, 1), (CONVERSION, 1), metric) for metric in ("time", "CPU time")]
                case = f"{kind}: {options.edges:,} edges, {memory:,} MB"
                records += interleave("convert", case, systems, rounds=options.rounds, gains=gains, warm_up=0)
            for file in folder.glob(f"{kind}.*"):
                file.unlink()
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "time")
    missed = [
        bar.claim for bar in BARS if bar.bench == "convert" for one in bar.decided_by(records) if not bar.met(one)
    ]
    print(f"\nmissed: {', '.join(missed) or 'none'}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
