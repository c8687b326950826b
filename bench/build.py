"""COO -> CSC with edge ids: time and peak memory of headrace, SciPy, PyG and DGL, each in a fresh process every time.

The peak is that of the resident memory during the conversion, beyond what the inputs and the library held before it;
the result is part of it. It is reported in GB and in arrays of one int64 per edge. DGL is measured when
`make peers-graphbolt` has built its environment. Linux only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from environments import ENVIRONMENTS, GRAPHBOLT
from graphs import SHAPES, Shape, cached_coo
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    add_threads,
    arguments,
    check_same_work,
    describe_machine,
    interleave,
    print_table,
    write_json,
)
from plot import draw_bars

ONE_BUILD = Path(__file__).resolve().parent / "one_build.py"
OURS, KERNEL = "headrace", "headrace, coo_to_csc alone"
LIBRARIES = {OURS: "headrace", KERNEL: "kernel", "SciPy": "scipy", "PyG": "pyg", "DGL": "dgl"}


def built(python: Path, library: str, folder: Path, dtype: str, shape: Shape, threads: int, _: int) -> Metrics:
    command = [str(python), str(ONE_BUILD), library, str(folder), dtype, str(shape.num_nodes), str(threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    result = json.loads(answer.stdout.splitlines()[-1])
    return {
        "time": result["seconds"] * 1e3,
        "edge rate": result["edges"] / result["seconds"] / 1e6,
        "peak memory": result["peak"] / 1e9,
        "peak in arrays": result["peak"] / (8 * shape.num_edges),
        "edges": result["edges"],
    }


def dtype_records(dtype: str, name: str, threads: list[int], rounds: int) -> list[Record]:
    folder, shape = cached_coo(name), SHAPES[name]
    systems = []
    for system, library in LIBRARIES.items():
        environment = ENVIRONMENTS[GRAPHBOLT]
        if system == "DGL" and not environment.ready:
            print(f"DGL: not measured; `{environment.target}` builds its environment")
            continue
        python = environment.python if system == "DGL" else Path(sys.executable)
        # SciPy has no threads.
        for count in [1] if system == "SciPy" else threads:
            run = partial(built, python, library, folder, dtype, shape, count)
            systems.append(System(system, run, count))
    peers = [system.key for system in systems if system.name not in (OURS, KERNEL)]
    gains = [
        Gain((OURS, count), peer, metric)
        for count in threads
        for peer in peers
        for metric in ("time", "peak memory", "edges")
        if peer[1] == count or peer == ("SciPy", 1)
    ]
    gains += [Gain((KERNEL, count), (OURS, count)) for count in threads]
    gains += [Gain((OURS, count), (OURS, min(threads))) for count in threads if count > min(threads)]
    case = f"{name}, {shape.num_edges:,} edges, {dtype} ids"
    return interleave("build", case, systems, rounds=rounds, gains=gains, warm_up=0)


def main() -> None:
    parser = arguments(__doc__ or "", rounds=3)
    add_threads(parser)
    parser.add_argument("--shape", choices=SHAPES, default="products", help="generator graph (default: %(default)s)")
    parser.add_argument("--dtypes", nargs="+", choices=("int32", "int64"), default=["int64", "int32"])
    options = parser.parse_args()

    print(describe_machine(["headrace", "torch", "numpy", "scipy", "torch-geometric"]))
    records: list[Record] = []
    for dtype in options.dtypes:
        records += dtype_records(dtype, options.shape, options.threads, options.rounds)
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "time")
    # SciPy merges repeated edges, which undirected graphs have: it has a few fewer to write.
    check_same_work(records, tolerance=0.06)


if __name__ == "__main__":
    main()
