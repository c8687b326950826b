"""Partitions of one generator graph: seconds that each takes, and what it costs afterwards.

The graph's groups are under scrambled ids, so that ranges of ids are no better than a hash. METIS and Louvain need
several copies of the graph in memory, and minutes on the larger shapes: --methods leaves out what is not wanted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from graphs import SHAPES, cached_csc, cached_train
from harness import Metrics, Record, System, arguments, describe_machine, interleave, print_table, write_json
from plot import draw_bars

import headrace as hr

Maker = Callable[[hr.Graph, int, torch.Tensor], hr.Partition]

METHODS: dict[str, Maker] = {
    "hash": lambda graph, parts, _: hr.Partition.hash(graph.num_nodes, parts),
    "stream": lambda graph, parts, _: hr.Partition.stream(graph, parts),
    "stream, 3 passes": lambda graph, parts, _: hr.Partition.stream(graph, parts, passes=3),
    "stream, 10 passes": lambda graph, parts, _: hr.Partition.stream(graph, parts, passes=10),
    "stream, 3 passes, shuffled": lambda graph, parts, _: hr.Partition.stream(graph, parts, passes=3, shuffle=True),
    "Louvain": lambda graph, parts, _: hr.Partition.louvain(graph, parts),
    "METIS": lambda graph, parts, _: hr.Partition.metis(graph, parts),
    "METIS, balanced": lambda graph, parts, train: hr.Partition.metis(graph, parts, balance=train),
}


def partitioned(make: Maker, graph: hr.Graph, parts: int, train: torch.Tensor, _: int) -> Metrics:
    started = time.perf_counter()
    partition = make(graph, parts, train)
    partition.sizes  # noqa: B018 - a hash is computed here
    seconds = time.perf_counter() - started
    report = partition.report(graph, train)
    assert report.cut_share is not None
    assert report.labelled_balance is not None
    return {
        "time": seconds * 1e3,
        "edges cut": 100 * report.cut_share,
        "node balance": report.node_balance,
        "edge balance": report.edge_balance,
        "train balance": report.labelled_balance,
        "replication": report.replication_factor,
    }


def shape_records(name: str, parts: int, methods: list[str], rounds: int) -> list[Record]:
    folder = cached_csc(name)
    graph = hr.Graph.from_csc(np.load(folder / "indptr.npy"), np.load(folder / "indices.npy"))
    train = torch.from_numpy(cached_train(name))
    systems = [System(method, partial(partitioned, METHODS[method], graph, parts, train)) for method in methods]
    case = f"{name}, {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {parts} parts"
    return interleave("partition", case, systems, rounds=rounds, warm_up=0)


def main() -> None:
    parser = arguments(__doc__ or "", rounds=1)
    parser.add_argument("--shape", choices=SHAPES, default="yelp", help="generator graph (default: %(default)s)")
    parser.add_argument("--parts", type=int, nargs="+", default=[8], help="numbers of parts (default: %(default)s)")
    parser.add_argument("--methods", choices=METHODS, nargs="+", default=list(METHODS), help="default: all")
    options = parser.parse_args()

    print(describe_machine(["headrace", "torch", "pymetis", "igraph"]))
    records: list[Record] = []
    for parts in options.parts:
        records += shape_records(options.shape, parts, options.methods, options.rounds)
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "edges cut")


if __name__ == "__main__":
    main()
