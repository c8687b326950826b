"""Kernels on a GPU beside what its memory and its bus allow, and beside our own CPU.

Rows of several widths are gathered from memory of the device and, over the bus, from pinned memory of the host; a copy
of as many bytes is the limit of each. Hops are sampled from a graph in memory of the device and from one in pinned
memory. Times are those of the device, between two events.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from graphs import SHAPES, cached_csc
from harness import Record, arguments, describe_machine, print_table, summarised, write_json

from headrace import ops
from headrace.ops.features.pinned import Pinned

BENCH = "gpu"
FANOUTS = (10, 10, 10)


def device_seconds(run: Callable[[], Any]) -> float:
    """Return the seconds that the device takes for what a function launches."""
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / 1e3


def rates(run: Callable[[], Any], amount: float, rounds: int) -> list[float]:
    """Return what a function does of something per second, round by round, after one that does not count."""
    run()
    return [amount / device_seconds(run) for _ in range(rounds)]


def gather_records(width: int, options: argparse.Namespace) -> list[Record]:
    """Measure rows of so many numbers."""
    x = torch.rand(options.rows, width)
    pinned = Pinned(x)
    there = x.cuda()
    ids = torch.randint(options.rows, (min(options.ids, options.rows),), device="cuda")
    out = torch.empty(len(ids), width, device="cuda")
    first = x[: len(ids)]
    systems: dict[str, Callable[[], Any]] = {
        "gather from the device": lambda: ops.gather_rows(there, ids, out=out, trusted=True),
        "limit: copy on the device": lambda: out.copy_(there[: len(ids)]),
        "torch.index_select on the device": lambda: torch.index_select(there, 0, ids, out=out),
        "gather from pinned memory": lambda: ops.gather_rows(x, ids, out=out, trusted=True),
        "limit: copy from pinned memory": lambda: out.copy_(first, non_blocking=True),
    }
    records = []
    for name, run in systems.items():
        found = rates(run, out.nbytes / 1e9, options.rounds)
        records.append(summarised(BENCH, f"{width * 4} bytes a row", name, "row rate", "GB/s", found, 1))
    del pinned
    return records


def sampling_records(options: argparse.Namespace) -> list[Record]:
    folder = cached_csc(options.shape)
    indptr, indices = (torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("indptr", "indices"))
    pins = [Pinned(indptr), Pinned(indices)]
    seeds = torch.randperm(len(indptr) - 1)[: options.batch_size]
    threads = torch.get_num_threads()
    records = []
    for name, rule in (("NS", ops.NeighborRule(10)), ("LABOR-0", ops.LaborRule(10)), ("LABOR-*", None)):
        rules = [ops.LaborImportanceRule(10) if rule is None else rule] * len(FANOUTS)
        samplers = {
            "CPU": (ops.BlockSampler(indptr, indices), seeds, threads),
            "graph on the device": (ops.BlockSampler(indptr.cuda(), indices.cuda()), seeds.cuda(), 1),
        }
        for system, (sampler, given, num_threads) in samplers.items():
            found = []
            for number in range(options.rounds + 1):
                torch.cuda.synchronize()
                started = time.perf_counter()
                sampled = sampler.sample(given, rules, [number, number + 1, number + 2], num_threads=num_threads)
                torch.cuda.synchronize()
                found.append(sum(sampled.num_sampled_edges) / (time.perf_counter() - started) / 1e6)
            case = f"{name}, {options.shape}, batch {options.batch_size}, fanouts 10,10,10"
            records.append(summarised(BENCH, case, system, "edge rate", "M edges/s", found[1:], num_threads))
    del pins
    return records


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--shape", default="products", choices=sorted(SHAPES))
    parser.add_argument("--rows", type=int, default=1 << 21)
    parser.add_argument("--ids", type=int, default=1 << 20)
    parser.add_argument("--widths", type=int, nargs="+", default=[16, 100, 128, 256])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--smoke", action="store_true", help="few rows and a small graph, for compute-sanitizer")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("gpu_kernels: torch finds no GPU here; bench/gpu.sh says how it is run")
    if options.smoke:
        options.rows, options.ids, options.rounds, options.shape = 4096, 1024, 1, "small"
    print(describe_machine(["headrace", "torch", "cupy-cuda13x"]), torch.cuda.get_device_name(), sep="\n")
    records = [record for width in options.widths for record in gather_records(width, options)]
    records += sampling_records(options)
    print_table(records)
    write_json(options.json, records)


if __name__ == "__main__":
    main()
