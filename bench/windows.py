"""Epochs over features on disk four times as large as the memory for them: by windows, and with a look-ahead cache.

In turns, on one file that is read past the page cache: the plan as it is (windows of batches, each row once, in the
order of the file), the same with the look-ahead cache that ``lookahead=False`` leaves in the plan, and one scan of the
file. The machine is said to have as much memory as gives windows a quarter of the file. Batches are only made: what is
measured is reading, sampling, and copying rows to batches. A model would hide some of it.

In the last case windows have memory for more than 60 % of the rows, and want as many: each window reads about as much
as a scan of the file, and a turn of ``windows`` is the epoch divided by such scans, by the bytes that it read.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from harness import Gain, Metrics, Record, System, arguments, describe_machine, interleave, print_table, write_json

import headrace as hr

WIDTH, DEGREE, FANOUTS = 256, 10, [10, 5]
WINDOWS, CACHE, SCAN = "windows", "look-ahead cache", "one scan of the file"
#: Of the memory, what windows have: the shares of caches and of batches in view.
OF_WINDOWS = 1 / 4 + 1 / 8


class Case(NamedTuple):
    """How source nodes of edges are drawn, one node of how many is a seed, and the part of the file in windows."""

    skew: float
    seeds_of: int
    in_windows: float = 1 / 4
    by_scan: bool = False


CASES = {
    "uniform": Case(0.0, 16),
    "skewed": Case(1.2, 16),
    "skewed, more seeds": Case(1.2, 2),
    "most rows": Case(0.0, 8, 2 * 0.65, by_scan=True),
}


def write_rows(path: Path, num_rows: int) -> None:
    """Write random features, in pieces."""
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (num_rows, WIDTH))
    random = np.random.default_rng(0)
    for start in range(0, num_rows, 1 << 16):
        end = min(start + (1 << 16), num_rows)
        rows[start:end] = random.random((end - start, WIDTH), np.float32)
    rows.flush()


def graph_of(num_nodes: int, skew: float) -> hr.Graph:
    """Return a graph whose nodes are sources as often as a Pareto law of that exponent has it; 0: all alike."""
    random = np.random.default_rng(1)
    num_edges = DEGREE * num_nodes
    dst = random.integers(0, num_nodes, num_edges)
    if not skew:
        return hr.Graph.from_coo(random.integers(0, num_nodes, num_edges), dst, num_nodes=num_nodes)
    drawn = (random.pareto(skew, num_edges) * num_nodes / 500).astype(np.int64) % num_nodes
    return hr.Graph.from_coo(random.permutation(num_nodes)[drawn], dst, num_nodes=num_nodes)


def epoch(
    number: int, *, path: Path, graph: hr.Graph, case: Case, batch_size: int, memory: int, lookahead: bool = True
) -> Metrics:
    """Make all batches of an epoch, of other seeds in each round."""
    num_seeds = graph.num_nodes // case.seeds_of
    seeds = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(number))[:num_seeds]
    store = hr.FeatureStore(node={"x": hr.DiskFeature(path, direct=True)})
    items = hr.ItemSampler(seeds, batch_size=batch_size, shuffle=True, seed=number % 1000)
    plan = items.sample_neighbor(graph, FANOUTS).fetch_feature(store, node=["x"])
    with plan.loader(machine=hr.Machine(cores=2, memory=memory), lookahead=lookahead) as loader:
        started, worked = time.perf_counter(), time.process_time()
        rows = sum(len(batch.n_id) for batch in loader)
        seconds, work = time.perf_counter() - started, time.process_time() - worked
        stats = loader.stats()["fetch_feature"]
    scans = stats["disk_bytes"] / (graph.num_nodes * 4 * WIDTH)
    return {
        "time": seconds * 1e3 / (max(scans, 1) if case.by_scan else 1),
        "CPU time": work * 1e3,
        "scans": scans,
        "inputs": float(rows),
        "rows read": stats["bytes_from_disk"] / (4 * WIDTH),
        "row rate": rows * 4 * WIDTH / seconds / 1e9,
    }


def scan(number: int, *, path: Path, num_rows: int) -> Metrics:
    """Read the file once, from its beginning to its end."""
    del number
    rows = hr.DiskFeature(path, direct=True)
    started = time.perf_counter()
    for start in range(0, num_rows, 1 << 16):
        rows.read(torch.arange(start, min(start + (1 << 16), num_rows)))
    seconds = time.perf_counter() - started
    return {"time": seconds * 1e3, "row rate": num_rows * 4 * WIDTH / seconds / 1e9}


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--nodes", type=int, default=1 << 20, help="rows of 1 KiB (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=512, help="seeds (default: %(default)s)")
    options = parser.parse_args()
    print(describe_machine(["headrace", "torch", "numpy"]))
    num_bytes = options.nodes * 4 * WIDTH
    records: list[Record] = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        path = Path(folder) / "x.npy"
        write_rows(path, options.nodes)
        for name, case in CASES.items():
            graph = graph_of(options.nodes, case.skew)
            memory = round(num_bytes * case.in_windows / OF_WINDOWS)
            run = partial(epoch, path=path, graph=graph, case=case, batch_size=options.batch_size, memory=memory)
            by_scan = System(SCAN, partial(scan, path=path, num_rows=options.nodes))
            systems, gains = [System(WINDOWS, run), by_scan], [Gain((SCAN, 1), (WINDOWS, 1))]
            if not case.by_scan:
                systems.insert(1, System(CACHE, partial(run, lookahead=False)))
                gains.insert(0, Gain((WINDOWS, 1), (CACHE, 1)))
            label = f"{name}, {num_bytes / 2**20:,.0f} MiB of rows, {case.in_windows:.0%} of it in windows"
            records += interleave("windows", label, systems, rounds=options.rounds, gains=gains, warm_up=0)
    print_table(records)
    write_json(options.json, records)


if __name__ == "__main__":
    main()
