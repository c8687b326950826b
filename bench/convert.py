"""Conversions of Parquet files to data sets: time over that of reading and writing the bytes, and peak memory.

Files are generated once for a run: edges between a tenth as many nodes, a third of them to one node, with node numbers
and with texts as ids. Each turn is a process of its own, which says how much memory it had at most.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from bars import BARS
from harness import Gain, Metrics, System, arguments, describe_machine, interleave, print_table, write_json
from plot import draw_bars
from pyarrow import parquet

#: Rows that are generated at a time.
ROWS = 1 << 20

PROGRAM = """
import json, sys, time
from pathlib import Path
import numpy as np
what, source, target, memory = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
import torch
import headrace as hr
from headrace.pipeline.convert.convert_tables import convert_tables
from headrace.pipeline.convert.description import Description, EdgeTable
from headrace.pipeline.convert.open_table import open_table
started, worked = time.perf_counter(), time.process_time()
table = open_table(source)
if what == "convert":
    convert_tables(Description([EdgeTable(table)]), target, memory=memory, overwrite=True, progress=False)
else:
    with target.open("wb") as file:
        for chunk in table.chunks(["src", "dst"], 1 << 20):
            for column in chunk.values():
                file.write(np.ascontiguousarray(column).data)
seconds, work = time.perf_counter() - started, time.process_time() - worked
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps([seconds, work, int(peak.split()[1]) * 1024]))
"""


def generate(folder: Path, num_edges: int) -> None:
    """Write edges with node numbers and with texts."""
    rng = np.random.default_rng(0)
    num_nodes = max(1, num_edges // 10)
    integers = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
    texts = pa.schema([("src", pa.string()), ("dst", pa.string())])
    with (
        parquet.ParquetWriter(folder / "numbers.parquet", integers) as of_numbers,
        parquet.ParquetWriter(folder / "texts.parquet", texts) as of_texts,
    ):
        for start in range(0, num_edges, ROWS):
            count = min(ROWS, num_edges - start)
            src, dst = rng.integers(0, num_nodes, (2, count))
            dst[rng.random(count) < 1 / 3] = num_nodes // 2
            of_numbers.write_table(pa.table([src, dst], schema=integers))
            named = [pa.array([f"node-{one:010}" for one in side.tolist()]) for side in (src, dst)]
            of_texts.write_table(pa.table(named, schema=texts))


def process(folder: Path, what: str, kind: str, memory: int) -> Metrics:
    """Run one turn, and return what it took."""
    target = folder / f"{what}-{kind}"
    command = [sys.executable, "-c", PROGRAM, what, str(folder / f"{kind}.parquet"), str(target), str(memory)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, work, peak = json.loads(printed)
    return {
        "time": seconds * 1e3,
        "CPU time": work * 1e3,
        "peak memory": peak / 1e9,
        "peak over the limit": peak / memory,
    }


def main() -> int:
    parser = arguments(__doc__ or "", rounds=3)
    parser.add_argument("--edges", type=int, default=5_000_000, help="edges of the files (default: %(default)s)")
    parser.add_argument("--memory", type=int, default=800, help="MB that a conversion is given (default: %(default)s)")
    options = parser.parse_args()
    print(describe_machine(["headrace", "duckdb", "pyarrow", "numpy"]))
    case = f"{options.edges:,} edges, {options.memory:,} MB"
    records = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder, options.edges)
        for kind in ("numbers", "texts"):
            convert, copy = f"conversion of {kind}", "reading and writing"

            def system(name: str, what: str, kind: str = kind) -> System:
                return System(name, lambda _: process(folder, what, kind, options.memory * 10**6))

            systems = [system(convert, "convert")]
            gains = []
            if kind == "numbers":
                systems.append(system(copy, "copy"))
                gains += [Gain((copy, 1), (convert, 1), metric) for metric in ("time", "CPU time")]
            records += interleave("convert", case, systems, rounds=options.rounds, gains=gains, warm_up=0)
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
