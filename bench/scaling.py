"""How the cost of a sampled edge grows: with the graph (same skew), the batch, the fan-outs and the threads.

Picking an edge is one random access to the graph, renumbering it one to a table of all nodes. So beside each
graph stands what random accesses of that footprint cost on this machine: waiting for each, and with many on their way
at once. Hardware counters are printed as well where the machine gives them. The graphs are made on first use and kept
in bench/cache: 4.3 bytes an edge.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import limits
import numpy as np
import torch
from counters import EVENTS, counting
from graphs import CACHE, seeds_of
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    add_threads,
    arguments,
    describe_machine,
    interleave,
    print_table,
    summarised,
    write_json,
)
from large_graphs import cached_large_csc, is_cached, num_bytes
from plot import draw_lines

from headrace import ops

OURS, WAITING, OVERLAPPED = "headrace", "random access, waited for", "random access, many at once"
PROBES = 1_000_000
TURNS = 3


class Sampling:
    """A graph in memory, its sampler and the probes of its size."""

    def __init__(self, num_edges: int) -> None:
        folder = cached_large_csc(num_edges)
        self.indptr, self.indices = (
            torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("indptr", "indices")
        )
        self.num_nodes = self.indptr.numel() - 1
        self.sampler = ops.BlockSampler(self.indptr, self.indices)

    def sampled(self, batch_size: int, fanouts: list[int], threads: int, number: int) -> Metrics:
        seeds = torch.from_numpy(seeds_of(number, np.arange(self.num_nodes), batch_size))
        rules = [ops.NeighborRule(fanout) for fanout in fanouts]
        keys = [ops.stream_key(0, 0, number, layer, ops.rng.NEIGHBOR) for layer in range(len(rules))]
        started = time.perf_counter()
        sampled = self.sampler.sample(seeds, rules, keys, edge_ids=False, num_threads=threads)
        seconds = time.perf_counter() - started
        edges = sum(sampled.num_sampled_edges)
        return {
            "time": seconds * 1e3,
            "edge cost": seconds / edges * 1e9,
            "edge rate": edges / seconds / 1e6,
            "edges": edges,
            "inputs": sampled.n_id.numel(),
        }

    def overlapped(self, threads: int, number: int) -> Metrics:
        """Read random cache lines of the graph's own indices."""
        lines = self.indices[: self.indices.numel() // 16 * 16].view(-1, 16)
        ids = torch.randint(len(lines), (PROBES,), generator=torch.Generator().manual_seed(number))
        return {"access time": limits.reading(lines, ids, threads) / PROBES * 1e9}


def waited(following: np.ndarray, _: int) -> Metrics:
    return {"access time": limits.latency(following) * 1e9}


def fitting(sizes: Sequence[int], largest: int) -> list[int]:
    """Return the sizes that are wanted and that there is room for, all at once in memory, their files on disk."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    CACHE.mkdir(parents=True, exist_ok=True)
    disk = shutil.disk_usage(CACHE).free
    kept = []
    for size in sorted(sizes):
        written = 0 if is_cached(size) else num_bytes(size)
        # The chain of loads takes as much again, and three times that while it is made.
        if size > largest:
            print(f"{size:,} edges: left out by --max-edges")
        elif 2.5 * num_bytes(size) > free or written > disk:
            print(
                f"{size:,} edges: left out; they take {num_bytes(size) / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free"
            )
        else:
            free -= 2 * num_bytes(size)
            disk -= written
            kept.append(size)
    return kept


def graph_records(graphs: Mapping[int, Sampling], options: Any) -> list[Record]:
    """Measure every graph several times in turn, each time for some rounds, so that its part of the caches is warm.

    Interleaving graphs round by round would let each find the caches full of another. Growth is a ratio within a turn.
    """
    chains = {size: limits.chain(min(graph.indices.numel() // 2, options.chain)) for size, graph in graphs.items()}
    turns = [
        {size: one_graph(size, graph, chains[size], options) for size, graph in graphs.items()} for _ in range(TURNS)
    ]
    records = [pooled(same) for size in graphs for same in zip(*(turn[size] for turn in turns), strict=True)]
    return [*records, *growth_records(turns)]


def one_graph(num_edges: int, graph: Sampling, following: np.ndarray, options: Any) -> list[Record]:
    systems = [System(WAITING, partial(waited, following))]
    for count in options.threads:
        run = partial(graph.sampled, options.batch_size, options.fanouts, count)
        systems.append(System(OURS, run, count))
        systems.append(System(OVERLAPPED, partial(graph.overlapped, count), count))
    drawn = f"batch {options.batch_size}, fanouts {_joined(options.fanouts)}"
    case = f"{num_edges:,} edges, {graph.num_nodes:,} nodes, {drawn}"
    rounds = max(options.rounds // TURNS, 1)
    return interleave("scaling: graph", case, systems, rounds=rounds, gains=_thread_gains(options.threads))


def pooled(records: Sequence[Record]) -> Record:
    """Return one record for the turns of a measurement: the median of their medians, and the whole range."""
    return replace(
        records[0],
        median=statistics.median(record.median for record in records),
        min=min(record.min for record in records),
        max=max(record.max for record in records),
        n=sum(record.n for record in records),
    )


def growth_records(turns: Sequence[Mapping[int, Sequence[Record]]]) -> list[Record]:
    """Return the cost of an edge, and of an access, in the largest graph over those in the smallest, turn by turn."""
    smallest, largest = min(turns[0]), max(turns[0])
    grown = []
    for place, small in enumerate(turns[0][smallest]):
        if small.metric in ("edge cost", "access time"):
            ratios = [turn[largest][place].median / turn[smallest][place].median for turn in turns]
            case = f"from {smallest:,} to {largest:,} edges"
            metric = f"{small.metric} growth"
            grown.append(summarised("scaling: growth", case, small.system, metric, "×", ratios, small.threads))
    return grown


def print_counters(num_edges: int, graph: Sampling, options: Any) -> None:
    counted = counting(lambda: [graph.sampled(options.batch_size, options.fanouts, 1, number) for number in range(20)])
    edges = sum(graph.sampled(options.batch_size, options.fanouts, 1, number)["edges"] for number in range(20))
    shown = ", ".join(f"{event} {counted[event] / edges:.3f}" if event in counted else f"{event} -" for event in EVENTS)
    print(f"{num_edges:,} edges, counted per sampled edge (-: not given by this machine): {shown}")


def setting_records(num_edges: int, graph: Sampling, options: Any) -> list[Record]:
    """Vary batch size and fan-outs on one graph."""
    settings = [(batch_size, options.fanouts) for batch_size in options.batch_sizes]
    settings += [(options.batch_size, list(fanouts)) for fanouts in ([25, 10], [5, 5, 5], [15, 10, 5], [20, 20, 20])]
    records = []
    for batch_size, fanouts in settings:
        systems = [System(OURS, partial(graph.sampled, batch_size, fanouts, count), count) for count in options.threads]
        case = f"batch {batch_size}, fanouts {_joined(fanouts)}, {num_edges:,} edges"
        gains = _thread_gains(options.threads)
        records += interleave("scaling: batch", case, systems, rounds=options.rounds, gains=gains)
    return records


def record_size(record: Record) -> int:
    """Return the number of edges that a case begins with."""
    return int(record.case.split(" edges")[0].replace(",", ""))


def _thread_gains(threads: list[int]) -> list[Gain]:
    return [Gain((OURS, count), (OURS, min(threads))) for count in threads if count > min(threads)]


def _joined(fanouts: Sequence[int]) -> str:
    return ",".join(map(str, fanouts))


def main() -> None:
    parser = arguments(__doc__ or "")
    add_threads(parser)
    parser.add_argument(
        "--edges",
        type=int,
        nargs="+",
        default=[10_000_000, 30_000_000, 100_000_000, 300_000_000, 1_000_000_000],
        help="sizes of the graphs (default: %(default)s)",
    )
    parser.add_argument("--max-edges", type=int, default=1_000_000_000, help="leave out larger graphs")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10], help="the hop next to the seeds first")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 256, 1024, 4096, 16384])
    parser.add_argument("--chain", type=int, default=1 << 27, help="most words of the chain of loads, 8 bytes each")
    options = parser.parse_args()

    print(describe_machine(["headrace", "torch", "numpy"]))
    sizes = fitting(options.edges, options.max_edges)
    if not sizes:
        raise SystemExit("there is no graph to measure")
    graphs = {size: Sampling(size) for size in sizes}
    for size, graph in graphs.items():
        print_counters(size, graph, options)
    records = graph_records(graphs, options)
    # Where the caches are far too small already and batches still differ.
    middle = max((size for size in sizes if size <= 100_000_000), default=sizes[0])
    records += setting_records(middle, graphs[middle], options)
    print_table(records)
    write_json(options.json, records)
    points = [(record_size(record), record) for record in records if record.bench == "scaling: graph"]
    panels = [
        (f"cost of a sampled edge, batch {options.batch_size}", [p for p in points if p[1].metric == "edge cost"]),
        ("one random access", [point for point in points if point[1].metric == "access time"]),
    ]
    draw_lines(options.plot, panels)


if __name__ == "__main__":
    main()
