"""Parts on disk: what `headrace partition` takes beside an older commit, and what each rank's part takes in memory.

A data set of edges with weights between random nodes is cut by each build in turns, each time by a process of its own,
within a limit. Then each part of 2, 4 and 8, by nodes and by edges, is opened by a process that reads all of it to
memory: its bytes beside 1.2 times a fair share of the edges and of their features, and of what its own nodes and the
ends of its edges take.

A cut takes more than that of 0.1.0 by the check sum of each array, which there were none of: 0.26 of 3.4 s for
20 million edges.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from commits import Build, build_of
from harness import Gain, Metrics, Record, System, arguments, describe_machine, interleave, print_table, write_json
from plot import draw_bars

import headrace as hr

WORLD_SIZES = (2, 4, 8)
METHODS = ("hash", "range", "stream")
#: How much more than its share a rank may take.
SLACK = 1.2
NODE_WIDTH, EDGE_WIDTH = 16, 4

#: The command, and then the CPU time and the peak memory of its process: what `wait4` knows is that of its parent, too.
COMMAND = """
import json, runpy, sys, time
from pathlib import Path
try:
    runpy.run_module("headrace", run_name="__main__")
except SystemExit as ended:
    if ended.code:
        raise
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps([time.process_time(), int(peak.split()[1])]))
"""

#: Opens a part, reads all of it, and prints the bytes of its arrays, those of the process for them, and counts.
RANK = """
import gc, json, sys, warnings
from pathlib import Path
import torch
import headrace as hr

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def tensors():
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storages = [one.untyped_storage() for one in gc.get_objects() if isinstance(one, torch.Tensor)]
    return {one.data_ptr(): one.nbytes() for one in storages}

hr.open_dataset
before, held = tensors(), resident()
data = hr.open_dataset(sys.argv[1], rank=int(sys.argv[2]), memory_map=False)
sources = [*data.store.node.values(), *data.store.edge.values()]
taken = resident() - held
counted = sum(count for place, count in tensors().items() if place not in before)
own = data.part.partition.owned(data.part.number)
destinations = getattr(data.graph, "nodes", own)
ends = len(torch.unique(torch.cat([own, destinations, data.graph.indices.long()])))
print(json.dumps([counted, taken, ends]))
"""


def write_data(folder: Path, num_edges: int, *, typed: bool, of_edges: bool) -> None:
    """Write a data set of a tenth as many nodes, with features of nodes and, where asked for, of edges."""
    generator = torch.Generator().manual_seed(0)
    num_nodes = num_edges // 10
    half = {"a": num_nodes // 2, "b": num_nodes - num_nodes // 2}
    counts = {("a", "to", "b"): num_edges // 2, ("b", "to", "a"): num_edges - num_edges // 2}
    weight = torch.rand(num_edges, generator=generator)
    edge: dict[Any, Any]
    node: dict[Any, Any]
    if typed:
        src, dst = (
            torch.cat(
                [torch.randint(*half_of, (count,), generator=generator, dtype=torch.int32) for half_of, count in ends]
            )
            for ends in (
                [((0, half["a"]), counts["a", "to", "b"]), ((half["a"], num_nodes), counts["b", "to", "a"])],
                [((half["a"], num_nodes), counts["a", "to", "b"]), ((0, half["a"]), counts["b", "to", "a"])],
            )
        )
        graph = hr.Graph.from_coo(
            src, dst, num_nodes=num_nodes, edge_attrs={"weight": weight}, node_types=half, edge_types=counts
        )
        edge = {name: {"e": torch.rand(count, EDGE_WIDTH, generator=generator)} for name, count in counts.items()}
        node = {name: {"x": torch.rand(count, NODE_WIDTH, generator=generator)} for name, count in half.items()}
    else:
        degrees = np.bincount(
            torch.randint(num_nodes, (num_edges,), generator=generator, dtype=torch.int32), minlength=num_nodes
        )
        sources = torch.randint(num_nodes, (num_edges,), generator=generator, dtype=torch.int32)
        graph = hr.Graph.from_csc(np.concatenate([[0], degrees.cumsum()]), sources, edge_attrs={"weight": weight})
        edge = {"e": torch.rand(num_edges, EDGE_WIDTH, generator=generator)}
        node = {"x": torch.rand(num_nodes, NODE_WIDTH, generator=generator)}
    hr.save_dataset(folder, graph, hr.FeatureStore(node, edge if of_edges else {}), progress=False, overwrite=True)


def cut_by(build: Build, data: Path, out: Path, method: str, parts: int, memory: str, _: int) -> Metrics:
    """Run the command of a build, which says at its end what it took."""
    options = ["--parts", str(parts), "--method", method, "--memory", memory, "--overwrite"]
    started = time.perf_counter()
    command = [str(build.python), "-c", COMMAND, "partition", str(data), str(out), *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(run.stderr)
    work, peak = json.loads(run.stdout.splitlines()[-1])
    return {"time": (time.perf_counter() - started) * 1e3, "CPU time": work * 1e3, "peak memory": peak * 1024 / 1e9}


def shares(folder: Path, parts: int, num_edges: int, by_edges: bool, _: int) -> Metrics:
    """Open each part in a process of its own; the largest share of what a rank may take, and its bytes."""
    edge_bytes = num_edges * (4 + 4 + 4 + 4 * EDGE_WIDTH)  # sources, ids, weights, features
    node_bytes = 8 + 4 * NODE_WIDTH  # where rows begin, features
    if by_edges:
        edge_bytes += num_edges * (8 + 8)  # positions, sums of weights
        node_bytes += 8 + 8 + 8 + 8 + 8  # its id, where its row begins in the whole, two degrees, the sum of its row
    worst = {"bytes over the bound": 0.0, "memory over the bound": 0.0}
    for rank in range(parts):
        run = subprocess.run(
            [sys.executable, "-c", RANK, folder, str(rank)], capture_output=True, text=True, check=True
        )
        counted, taken, ends = json.loads(run.stdout)
        bound = SLACK * (edge_bytes / parts + node_bytes * ends)
        found = (counted / bound, taken / bound)
        worst = {name: max(one, other) for (name, one), other in zip(worst.items(), found, strict=True)}
    return worst


def main() -> None:
    parser = arguments(__doc__ or "", rounds=3)
    parser.add_argument("--edges", type=int, default=60_000_000, help="edges that are cut (default: %(default)s)")
    parser.add_argument("--opened", type=int, default=8_000_000, help="edges of the parts that are opened")
    parser.add_argument("--memory", default="1GB", help="for a process (default: %(default)s)")
    parser.add_argument("--methods", choices=METHODS, nargs="*", default=METHODS, help="default: all")
    parser.add_argument("--old", default="0.1.0", help="the other build (default: %(default)s)")
    parser.add_argument("--new", default="HEAD", help="what is compared with it (default: %(default)s)")
    options = parser.parse_args()
    builds = {name: build_of(commit) for name, commit in (("old", options.old), ("new", options.new))}
    print(describe_machine(["headrace", "torch"]))
    records: list[Record] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "data", options.edges, typed=False, of_edges=False)
        for method in options.methods:
            systems = [
                System(
                    f"{side} {build.label}",
                    partial(cut_by, build, folder / "data", folder / side, method, 4, options.memory),
                )
                for side, build in builds.items()
            ]
            gains = [Gain(systems[0].key, systems[1].key, metric) for metric in ("time", "CPU time", "peak memory")]
            case = f"{options.edges:,} edges by {method} into 4, {options.memory}"
            records += interleave("parts", case, systems, rounds=options.rounds, gains=gains, warm_up=0)
        for typed in (False, True):
            write_data(folder / "data", options.opened, typed=typed, of_edges=True)
            data = hr.open_dataset(folder / "data")
            for parts in WORLD_SIZES:
                cuts: dict[str, hr.Partition | hr.EdgePartition] = {
                    "hash": hr.Partition.hash(data.graph.num_nodes, parts),
                    "range": hr.Partition.range(data.graph.num_nodes, parts),
                    "source": hr.EdgePartition.by_source(data.graph, parts),
                    "destination": hr.EdgePartition.by_destination(data.graph, parts),
                    "grid": hr.EdgePartition.grid(data.graph, parts),
                }
                for method, partition in cuts.items():
                    by_edges = isinstance(partition, hr.EdgePartition)
                    data.partition(partition, folder / "parts", overwrite=True, progress=False)
                    system = System("part", partial(shares, folder / "parts", parts, options.opened, by_edges))
                    case = f"{options.opened:,} edges{' of types' * typed} by {method}, {parts} ranks"
                    records += interleave("parts", case, [system], rounds=1, warm_up=0)
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "time")


if __name__ == "__main__":
    main()
