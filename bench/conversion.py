"""Batches as PyG's objects: `to_pyg()` beside the sampling before it, and a step of a model by edge list and by matrix.

Every turn samples a batch of its own, as what a batch has made is kept with it. Conversions are held against sampling
on as many threads as given; they take one thread themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from graphs import SHAPES, cached_csc, cached_train, seeds_of
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
    write_json,
)
from plot import draw_bars
from torch_geometric.nn import SAGEConv

import headrace as hr

SAMPLE, CONVERT = "sampling", "to_pyg()"
EDGES, MATRIX = "SAGE step, edge_index", "SAGE step, adj_t()"
HIDDEN, CLASSES = 128, 47

Edges = Callable[[hr.Block], torch.Tensor]


def batches_of(plan: hr.Plan, threads: int) -> Iterator[hr.MiniBatch]:
    """Yield batches without end, each made when it is asked for."""
    loader = plan.loader(num_threads=threads, prefetch=False)
    while True:
        yield from loader


def sample(batches: Iterator[hr.MiniBatch], _: int) -> Metrics:
    started = time.perf_counter()
    batch = next(batches)
    seconds = time.perf_counter() - started
    return {"time": seconds * 1e3, "edges": float(sum(batch.num_sampled_edges))}


def convert(batches: Iterator[hr.MiniBatch], _: int) -> Metrics:
    batch = next(batches)
    started = time.perf_counter()
    data = batch.to_pyg()
    seconds = time.perf_counter() - started
    return {"time": seconds * 1e3, "edges": float(data.num_edges)}


class Sage(torch.nn.Module):
    """Three layers of means, on blocks."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width, HIDDEN, HIDDEN, CLASSES]
        self.layers = torch.nn.ModuleList(SAGEConv(*ends) for ends in pairwise(widths))

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...], edges: Edges) -> torch.Tensor:
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            x = layer((x, x[: block.num_dst]), edges(block))
            x = x.relu() if number < len(blocks) - 1 else x
        return x


def step(model: Sage, batches: Iterator[hr.MiniBatch], x: torch.Tensor, edges: Edges, _: int) -> Metrics:
    """Go forward and back, from a batch as the loader gives it."""
    batch = next(batches)
    rows = x[: len(batch.n_id)]
    started = time.perf_counter()
    model.zero_grad()
    model(rows, batch.blocks, edges).square().mean().backward()
    seconds = time.perf_counter() - started
    return {"time": seconds * 1e3}


def conversions(plan: Callable[[Literal["all", "new"]], hr.Plan], case: str, options: Any) -> list[Record]:
    """Measure both rules for the next hop, each in a case of its own."""
    records = []
    expands: tuple[Literal["all", "new"], ...] = ("all", "new")
    for expand in expands:
        systems = []
        for count in options.threads:
            batches = batches_of(plan(expand), count)
            systems += [
                System(SAMPLE, partial(sample, batches), count),
                System(CONVERT, partial(convert, batches), count),
            ]
        gains = [Gain((CONVERT, count), (SAMPLE, count)) for count in options.threads]
        name = f'{case}, expand="{expand}"'
        records += interleave("conversion", name, systems, rounds=options.rounds, gains=gains, warm_up=2)
    return records


def steps(plan: hr.Plan, case: str, width: int, options: Any) -> list[Record]:
    """Measure steps on the threads that torch has."""
    torch.manual_seed(0)
    model, batches = Sage(width), batches_of(plan, max(options.threads))
    # Batches of one size differ by some percent.
    x = torch.randn(int(1.25 * max(len(next(batches).n_id) for _ in range(options.batches))), width)
    threads = torch.get_num_threads()
    ways: list[tuple[str, Edges]] = [(EDGES, lambda block: block.edge_index), (MATRIX, lambda block: block.adj_t())]
    systems = [System(name, partial(step, model, batches, x, edges), threads) for name, edges in ways]
    gains = [Gain((MATRIX, threads), (EDGES, threads))]
    return interleave("conversion", case, systems, rounds=options.rounds, gains=gains, warm_up=2)


def main() -> None:
    parser = arguments(__doc__ or "", rounds=12)
    add_threads(parser)
    parser.add_argument("--shape", choices=SHAPES, default="products", help="generator graph (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=6, help="of an epoch (default: %(default)s)")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10], help="the hop next to the seeds first")
    options = parser.parse_args()
    folder = cached_csc(options.shape)
    graph = hr.Graph.from_csc(*(np.load(folder / f"{name}.npy") for name in ("indptr", "indices")))
    items = torch.from_numpy(seeds_of(0, cached_train(options.shape), options.batch_size * options.batches))

    def plan(expand: Literal["all", "new"]) -> hr.Plan:
        sampler = hr.ItemSampler(items, batch_size=options.batch_size, shuffle=True)
        return sampler.sample_neighbor(graph, options.fanouts, expand=expand)

    print(describe_machine(["headrace", "torch", "torch-geometric"]))
    case = f"{options.shape}, batch {options.batch_size}, fanouts {','.join(map(str, options.fanouts))}"
    width = SHAPES[options.shape].width
    records = conversions(plan, case, options)
    records += steps(plan("all"), f"{case}, {width} float32, {HIDDEN} hidden", width, options)
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "time")


if __name__ == "__main__":
    main()
