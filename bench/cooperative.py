"""Independent against cooperative minibatching (arXiv 2310.12403), at equal global batch, in four parts.

work: what ranks sample and read, summed over them, in the in-process twin; beside a simulation of the same graph.
cache: rows past a cache of the same size on every rank.
time: processes of gloo on this machine; what loading takes beyond its bare collectives and kernels, and where.
network: two processes in network namespaces, at several rates and latencies.

"Independent" means that each rank samples and reads its share of the batch by itself, as with a plain loader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cooperative_cache import cache_records, describe_cache, print_cache
from cooperative_network import network_records
from cooperative_time import time_records
from cooperative_work import OVER, law_records, print_work, work_records
from graphs import SHAPES
from harness import Record, arguments, describe_machine, write_json
from plot import draw_lines
from published_cooperative import SEEDS_OF_RATIOS

PARTS = ("work", "cache", "time", "network")


def work_part(options: Any) -> list[Record]:
    records = work_records(options.ranks, SEEDS_OF_RATIOS, options.work_batches)
    records += work_records(options.more_ranks, 128, options.work_batches)
    records += law_records([256, 512, 1024, 2048, 4096, 8192, 16384], options.work_batches)
    print_work(records)
    return records


def cache_part(options: Any) -> list[Record]:
    shape, capacity = options.cache_shape, options.capacity
    records = cache_records(shape, options.cache_ranks, options.batch_size, capacity, options.cache_batches)
    print_cache(records)
    return records


def ratio_points(records: list[Record], per_rank: int) -> list[tuple[float, Record]]:
    """Return the ratios of the work, by the number of ranks."""
    end = f" ranks, {per_rank} seeds a rank"
    chosen = [record for record in records if record.metric == "|S3| ratio" and record.case.endswith(end)]
    points = []
    for record in chosen:
        sampler, ranks = record.case.removesuffix(end).split(", ")
        points.append((float(ranks), replace(record, system=sampler)))
    return points


def main() -> None:
    parser = arguments(__doc__ or "", rounds=7)
    parser.add_argument("--part", choices=PARTS, nargs="+", default=PARTS, help="(default: all that can run here)")
    parser.add_argument("--batch-size", type=int, default=1024, help="seeds a rank (default: %(default)s)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8], help="work: with 1024 seeds a rank")
    parser.add_argument("--more-ranks", type=int, nargs="+", default=[4, 16, 64], help="work: with 128 seeds a rank")
    parser.add_argument("--work-batches", type=int, default=8, help="work: batches of each case")
    parser.add_argument("--cache-shape", choices=SHAPES, default="products-footprint")
    parser.add_argument("--cache-ranks", type=int, default=4)
    parser.add_argument("--cache-batches", type=int, default=8, help="cache: batches that count, after as many")
    parser.add_argument("--capacity", type=int, default=100_000, help="cache: rows (default: %(default)s)")
    parser.add_argument("--shape", choices=SHAPES, default="products", help="time (default: %(default)s)")
    parser.add_argument("--most-ranks", type=int, default=4, help="time: ranks of which each can hold that shape")
    parser.add_argument("--small-shape", choices=SHAPES, default="small", help="time: with more ranks than these")
    parser.add_argument("--network-shape", choices=SHAPES, default="small", help="network (default: %(default)s)")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8], help="time: numbers of ranks")
    parser.add_argument("--batches", type=int, default=4, help="time, network: batches of a round")
    parser.add_argument("--feature-width", type=int, default=100, help="time, network: float32 columns")
    parser.add_argument("--rates", type=float, nargs="+", default=[1, 10, 100], help="network: Gb/s")
    parser.add_argument("--latencies", type=float, nargs="+", default=[0.05, 0.5], help="network: ms, one way")
    # Small enough for latency to be seen beside the rows.
    parser.add_argument("--network-batch-size", type=int, default=128, help="network: seeds a rank (%(default)s)")
    parser.add_argument("--network-rounds", type=int, default=5)
    options = parser.parse_args()

    print(describe_machine(["headrace", "torch", "numpy"]))
    print("work: Chung-Lu graph of 89,250 nodes, mean degree 10, generated; fanouts 10,10,10 in all parts")
    print(f"cache: {describe_cache(options.cache_shape, options.capacity)}")
    for part, name in (("time", options.shape), ("network", options.network_shape)):
        shape = SHAPES[name]
        sizes = f"{shape.num_nodes:,} nodes, {shape.num_edges:,} edges"
        print(f"{part}: graph {name}, {sizes}, generated; LABOR, {options.feature_width} float32 a node")
    print("all ranks share the cores of this machine, and in the network part its memory carries the network")
    run: dict[str, Callable[[Any], list[Record]]] = {
        "work": work_part,
        "cache": cache_part,
        "time": time_records,
        "network": network_records,
    }
    records = [record for part in PARTS if part in options.part for record in run[part](options)]
    write_json(options.json, records)
    panels = [
        (f"|S3|, {OVER}, {size} seeds a rank", ratio_points(records, size))
        for size in (SEEDS_OF_RATIOS, 128)
        if ratio_points(records, size)
    ]
    if panels:
        draw_lines(options.plot, panels, axis="ranks")


if __name__ == "__main__":
    main()
