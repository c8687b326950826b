"""Time of a step of full-batch training under SAR, on one rank and on two, beside the same model on the whole graph.

Models are those of bench/sar_memory.py, as published (arXiv 2111.06483): three layers of GraphSAGE, hidden 256, or of
GAT, hidden 128 with 4 heads, and batch normalisation between them. "whole" has the graph in one process: layers of
`hr.nn`, whose kernels SAR has as well, and PyG's own, which write a row for each edge. On one rank SAR exchanges
nothing, so what it takes more is its own. "any layer" is GIN, which SAR runs by the layer's own functions, shard by
shard, and backward once more.

One process has all threads. Two ranks are processes of gloo with half of them each; the slower one counts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric.nn as pyg
from graphs import SHAPES, cached_csc
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    arguments,
    describe_machine,
    interleave,
    print_table,
    summarised,
    write_json,
)
from plot import draw_bars
from processes import run_processes
from sar_memory import CLASSES, HEADS, WIDTH, Network
from torch import Tensor, nn

import headrace as hr

BENCH = "sar: time"
SAR, WHOLE, PLAIN = "SAR, 1 rank", "whole, hr.nn", "whole, PyG"
TWO = "SAR, 2 ranks"
KINDS = ("SAGE", "GAT", "GIN")


class OnBlock(nn.Module):
    """The model of layers of `hr.nn`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        convs: list[nn.Module]
        if kind == "SAGE":
            convs = [hr.nn.SAGEConv(*ends) for ends in ((WIDTH, 256), (256, 256), (256, CLASSES))]
        elif kind == "GIN":
            convs = [hr.nn.GINConv(nn.Linear(*ends)) for ends in ((WIDTH, 256), (256, 256), (256, CLASSES))]
        else:
            options: dict[str, Any] = {"heads": HEADS, "add_self_loops": False}
            convs = [hr.nn.GATConv(WIDTH, 32, **options), hr.nn.GATConv(128, 32, **options)]
            convs.append(hr.nn.GATConv(128, CLASSES, concat=False, **options))
        self.convs = nn.ModuleList(convs)
        self.norms = nn.ModuleList([nn.BatchNorm1d(128 if kind == "GAT" else 256) for _ in convs[1:]])

    def forward(self, x: Tensor, place: Any) -> Tensor:
        for number, conv in enumerate(self.convs):
            x = conv(x, place)
            if number < len(self.norms):
                x = self.norms[number](x).relu()
        return x


def of_pyg(kind: str) -> nn.Module:
    """Return the model of PyG's layers."""
    if kind != "GIN":
        return Network(kind)
    model = Network("SAGE")
    model.convs = nn.ModuleList([pyg.GINConv(nn.Linear(*ends)) for ends in ((WIDTH, 256), (256, 256), (256, CLASSES))])
    return model


class OfEdges(nn.Module):
    """A model of PyG's layers, called with its edges."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.model(x, lambda conv, rows: conv(rows, edge_index))
        return out


def whole_graph(shape: str) -> hr.Graph:
    """Return a graph, in memory."""
    folder = cached_csc(shape)
    return hr.Graph.from_csc(*(np.load(folder / f"{name}.npy") for name in ("indptr", "indices")))


def step(model: nn.Module, x: Tensor, place: Any, count: int) -> float:
    """Return the seconds that a step takes: forward, loss and backward."""
    y = torch.arange(len(x)) % CLASSES
    model.zero_grad()
    started = time.perf_counter()
    nn.functional.cross_entropy(model(x, place), y, reduction="sum").div(count).backward()
    return time.perf_counter() - started


def turn(model: nn.Module, x: Tensor, place: Any, _: int) -> Metrics:
    """Take a step on the whole graph, or as its only rank."""
    return {"time": step(model, x, place, len(x)) * 1e3}


def in_one_process(options: argparse.Namespace, kind: str, threads: int) -> list[Record]:
    """Measure the systems of one process in turns."""
    torch.set_num_threads(threads)
    graph = whole_graph(options.shape)
    torch.manual_seed(0)
    x = torch.randn(graph.num_nodes, WIDTH)
    place = hr.sar.ShardedGraph(graph)
    block = next(iter(hr.GlobalBatch(graph).sample_in_subgraph(graph, num_hops=1).loader())).blocks[0]
    of_edges = OfEdges(of_pyg(kind))
    systems = [
        System(SAR, partial(turn, hr.sar.wrap(of_pyg(kind), place), x, place), threads),
        System(WHOLE, partial(turn, OnBlock(kind), x, block), threads),
        System(PLAIN, partial(turn, of_edges, x, block.edge_index), threads),
    ]
    gains = [Gain((other, threads), (SAR, threads)) for other in (WHOLE, PLAIN)]
    case = f"{kind}, {options.shape}, {graph.num_nodes:,} nodes, {graph.num_edges:,} edges"
    return interleave(BENCH, case, systems, rounds=options.rounds, gains=gains, warm_up=1)


def on_two_ranks(options: argparse.Namespace, kind: str, threads: int, case: str) -> list[Record]:
    """Measure two processes, of which the slower one counts."""
    settings = {"kind": kind, "shape": options.shape, "rounds": options.rounds, "threads": max(1, threads // 2)}
    answers = run_processes(Path(__file__).resolve(), 2, settings)
    values = [max(ranks) * 1e3 for ranks in zip(*answers, strict=True)]
    return [summarised(BENCH, case, TWO, "time", "ms", values, settings["threads"])]


def one_rank(settings: dict[str, Any]) -> None:
    """Take the steps of one of two ranks, and print how long each took."""
    torch.set_num_threads(settings["threads"])
    rank, world_size = settings["rank"], settings["world_size"]
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{settings['meeting']}", rank=rank, world_size=world_size
    )
    graph = whole_graph(settings["shape"])
    place = hr.sar.ShardedGraph(graph, hr.Partition.range(graph.num_nodes, world_size))
    count = graph.num_nodes
    del graph
    torch.manual_seed(0)
    model = hr.sar.wrap(of_pyg(settings["kind"]), place)
    x = torch.randn(place.num_src, WIDTH)
    seconds = [step(model, x, place, count) for _ in range(settings["rounds"] + 1)]
    torch.distributed.destroy_process_group()
    print(json.dumps(seconds[1:]))


def main() -> None:
    parser = arguments(__doc__ or "", rounds=5)
    parser.add_argument("--shape", choices=SHAPES, default="flickr")
    parser.add_argument("--kinds", choices=KINDS, nargs="+", default=KINDS)
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    print(describe_machine(["headrace", "torch", "torch_geometric"]))
    records: list[Record] = []
    for kind in options.kinds:
        measured = in_one_process(options, kind, threads)
        measured += on_two_ranks(options, kind, threads, measured[0].case)
        print_table(measured)
        records += measured
    write_json(options.json, records)
    draw_bars(options.plot, records, "time")


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        one_rank(json.loads(sys.argv[1]))
    else:
        main()
