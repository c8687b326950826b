"""The published table of layer sampling, on generator graphs of the same sizes, beside the published numbers.

Nodes and edges a batch reaches, hop by hop, for PLADIES, LADIES, LABOR-*, LABOR-1, LABOR-0 and neighbour sampling
(NS): three hops of fan-out 10 and batches of 1000 training nodes; LADIES and PLADIES draw as many nodes as make
their |V| those of LABOR-*. The published iterations a second are of training on a GPU, ours of sampling alone: only
their order can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from graphs import SHAPES, cached_csc, cached_train
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    arguments,
    describe_machine,
    interleave,
    write_json,
)
from numpy.typing import NDArray
from plot import draw_bars
from published import COLUMNS, LABOR_0, LABOR_1, LABOR_STAR, LADIES, NS, PLADIES, PUBLISHED, published_ratio

import headrace as hr

BATCH_SIZE, FANOUT, HOPS = 1000, 10, 3
# Passes over the hops in which the layer sizes of LADIES and PLADIES are fitted, and batches for each.
FITTING_PASSES, FITTING_BATCHES = 6, 2

# From the plan of items to the plan with the sampler: every method chooses the same interface.
Method = Callable[[Any], Any]


def hop_methods(graph: hr.Graph) -> dict[str, Method]:
    fanouts = [FANOUT] * HOPS
    # Poisson sampling, as published; the exact form is the library's default.
    labor = {LABOR_STAR: "*", LABOR_1: 1, LABOR_0: 0}
    methods: dict[str, Method] = {
        name: partial(_labor, graph, fanouts, importance) for name, importance in labor.items()
    }
    methods[NS] = lambda items: items.sample_neighbor(graph, fanouts, edge_ids=False)
    return methods


def _labor(graph: hr.Graph, fanouts: list[int], importance: Any, items: Any) -> Any:
    return items.sample_layer_neighbor(graph, fanouts, importance=importance, exact=False, edge_ids=False)


def ladies_method(graph: hr.Graph, sizes: Sequence[int], *, poisson: bool) -> Method:
    return lambda items: items.sample_ladies(graph, list(sizes), poisson=poisson, edge_ids=False)


def batches(method: Method, train: NDArray[np.int64], seed: int, threads: int) -> Iterator[hr.MiniBatch]:
    """Yield batches for ever: of the training nodes, shuffled anew in every epoch."""
    items = hr.ItemSampler(train, batch_size=min(BATCH_SIZE, len(train)), shuffle=True, drop_last=True, seed=seed)
    loader = method(items).prefetch(workers=0).loader(num_threads=threads)
    while True:
        yield from loader


def counts(batch: hr.MiniBatch) -> tuple[float, ...]:
    """Return the thousands of nodes and edges of a batch, in the order of `COLUMNS`."""
    nodes = np.cumsum(batch.num_sampled_nodes) / 1e3
    edges = np.array(batch.num_sampled_edges) / 1e3
    return nodes[3], edges[2], nodes[2], edges[1], nodes[1], edges[0]


def mean_nodes(method: Method, train: NDArray[np.int64], threads: int) -> NDArray[np.float64]:
    """Return the mean number of nodes behind each hop."""
    stream = batches(method, train, 1, threads)
    return np.mean([np.cumsum(next(stream).num_sampled_nodes)[1:] for _ in range(FITTING_BATCHES)], axis=0)


def fitted_sizes(
    make: Callable[[Sequence[int]], Method], target: NDArray[np.float64], train: NDArray[np.int64], threads: int
) -> list[int]:
    """Return layer sizes with which a batch reaches about `target` nodes behind each hop.

    A hop adds the drawn nodes that were not there already: sizes are scaled until the sum is right.
    """
    sizes = target.copy()
    for _ in range(FITTING_PASSES):
        reached = mean_nodes(make([round(size) for size in sizes]), train, threads)
        before = np.concatenate([[min(BATCH_SIZE, len(train))], reached[:-1]])
        wanted = np.concatenate([[min(BATCH_SIZE, len(train))], target[:-1]])
        sizes *= np.clip((target - wanted) / np.maximum(reached - before, 1), 0.25, 4)
    return [round(size) for size in sizes]


def measured(stream: Iterator[hr.MiniBatch], _: int) -> Metrics:
    started = time.perf_counter()
    batch = next(stream)
    seconds = time.perf_counter() - started
    return {"batch rate": 1 / seconds, **dict(zip(COLUMNS, counts(batch), strict=True))}


def shape_records(name: str, rounds: int, threads: int) -> list[Record]:
    folder = cached_csc(name)
    graph = hr.Graph.from_csc(*(torch.from_numpy(np.load(folder / f"{part}.npy")) for part in ("indptr", "indices")))
    train = cached_train(name)
    methods = hop_methods(graph)
    target = mean_nodes(methods[LABOR_STAR], train, threads)
    for ladies, poisson in ((LADIES, False), (PLADIES, True)):
        sizes = fitted_sizes(partial(ladies_method, graph, poisson=poisson), target, train, threads)
        print(f"{name}: {ladies} draws {', '.join(map(str, sizes))} nodes")
        methods[ladies] = ladies_method(graph, sizes, poisson=poisson)
    systems = [
        System(method, partial(measured, batches(methods[method], train, 0, threads)), threads)
        for method in (PLADIES, LADIES, LABOR_STAR, LABOR_1, LABOR_0, NS)
    ]
    gains = [Gain((NS, threads), (labor, threads), "|V3|") for labor in (LABOR_0, LABOR_1, LABOR_STAR)]
    return interleave("labor", name, systems, rounds=rounds, gains=gains, warm_up=1)


def deviations(records: Sequence[Record]) -> list[Record]:
    """Return the ratios NS / LABOR of |V3| as multiples of the published ones."""
    found = []
    for record in records:
        if record.metric == "|V3| gain":
            published = published_ratio(record.case, record.system.removeprefix(f"{NS} over "))
            values = (record.median / published, record.min / published, record.max / published)
            metric, n, threads = "|V3| ratio over published", record.n, record.threads
            found.append(Record(record.bench, record.case, record.system, metric, "×", *values, n, threads))
    return found


def print_beside(records: Sequence[Record], shape: str) -> None:
    """Print the table of one shape: ours, and the published number in brackets."""
    print(f"\n{shape}: thousands, medians; published in brackets")
    print(f"{'':8}" + "".join(f"{column:>18}" for column in (*COLUMNS, "it/s")))
    for method, row in PUBLISHED[shape].items():
        ours = {record.metric: record.median for record in records if record.case == shape and record.system == method}
        cells = [f"{ours[column]:.1f} ({value:g})" for column, value in zip(COLUMNS, row.counts, strict=True)]
        print(f"{method:8}" + "".join(f"{cell:>18}" for cell in (*cells, f"{ours['batch rate']:.1f} ({row.rate:g})")))
    for record in records:
        if record.case == shape and record.metric in ("|V3| gain", "|V3| ratio over published"):
            spread = f"({record.min:.2f} to {record.max:.2f})"
            print(f"  {record.system}, {record.metric}: {record.median:.2f} {spread}")


def main() -> None:
    parser = arguments(__doc__ or "", rounds=10)
    parser.add_argument("--shapes", nargs="+", choices=PUBLISHED, default=list(PUBLISHED), help="(default: all)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    print(describe_machine(["headrace", "torch", "numpy"]))
    records: list[Record] = []
    for name in options.shapes:
        shape = SHAPES[name]
        print(f"graph {name}: {shape.num_nodes:,} nodes, {shape.num_edges:,} edges, generated")
        measured_here = shape_records(name, options.rounds, options.threads)
        records += measured_here + deviations(measured_here)
    for name in options.shapes:
        print_beside(records, name)
    write_json(options.json, records)
    draw_bars(options.plot, records, "|V3|")


if __name__ == "__main__":
    main()
