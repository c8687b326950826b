"""Epochs of a loader whose GPU keeps rows of features of pinned memory, beside one that reads all over the bus.

By sizes of the cache, and for batches that are independent of each other or dependent (arXiv 2310.12403), whose random
numbers change little: these read rows again sooner. Nothing is trained: each batch is sampled, fetched and thrown away.
Every system hands out the same rows, which is checked before anything is timed. Beside them, for the largest cache:
one that is not told of the batches to come, and kernels of fewer threads, which the bus may like better.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from typing import Any

import torch
from gpu_device import Gpu, Measured, gpu_arguments, gpu_of, graph_of, seeds_of_round
from graphs import SHAPES
from harness import Gain, Metrics, Record, System, interleave, summarised
from work import identified, table

import headrace as hr
from headrace.cuda import cached_rows

NO_CACHE = "no cache"


@contextmanager
def copying_threads(most: int | None) -> Iterator[None]:
    """Let kernels that gather through a cache have so many threads at most."""
    launch = cached_rows.launch  # type: ignore[attr-defined]

    def fewer(kernel: str, types: Any, num_items: int, *arguments: Any, **named: Any) -> None:
        is_capped = most is not None and kernel.startswith("gather")
        launch(kernel, types, min(num_items, most or 0) if is_capped else num_items, *arguments, **named)

    cached_rows.launch = fewer  # type: ignore[assignment, attr-defined]
    try:
        yield
    finally:
        cached_rows.launch = launch  # type: ignore[attr-defined]


def epoch(gpu: Gpu, loader: hr.Loader, number: int, threads: int | None = None) -> Metrics:
    """Load all batches of an epoch, and say how fast."""
    loader.set_epoch(number)
    found = {"batches": 0, "rows": 0, "bytes": 0}

    def run() -> None:
        for batch in loader:
            found["batches"] += 1
            found["rows"] += len(batch.x)
            found["bytes"] += batch.x.nbytes

    with copying_threads(threads):
        seconds = gpu.wall_seconds(run)
    return {
        "time": seconds * 1e3,
        "batch rate": found["batches"] / seconds,
        "row rate": found["bytes"] / seconds / 1e9,
        "inputs": found["rows"],
    }


def loaders(
    gpu: Gpu, graph: hr.Graph, x: torch.Tensor, kappa: int, options: argparse.Namespace, stack: ExitStack
) -> dict[str, hr.Loader]:
    """Return loaders by the name of their cache."""
    seeds = seeds_of_round(graph.num_nodes, max(int(options.items * graph.num_nodes), 1), 0)
    made = {}
    largest = max(options.shares)
    for share, lookahead in ((0.0, True), *((share, True) for share in options.shares), (largest, False)):
        store = hr.FeatureStore(node={"x": x})
        if share:
            rows = max(int(share * graph.num_nodes), 1)
            store = hr.FeatureStore(node={"x": hr.CachedFeature(x, rows=rows, place="cuda")})
        items = hr.ItemSampler(seeds, batch_size=options.batch_size, shuffle=True, seed=1).copy_to("cuda")
        plan = items.sample_layer_neighbor(graph, options.fanouts, batch_dependency=kappa, edge_ids=False)
        plan = plan.fetch_feature(store, node=["x"])
        # A pass would put a cache before the features that have none.
        loader = plan.loader(machine=gpu.machine(), feature_cache=False, lookahead=lookahead)
        name = f"{share:.0%} of the rows kept" if share else NO_CACHE
        made[name if lookahead else f"{name}, lookahead=False"] = stack.enter_context(loader)
    return made


def check_rows(made: Iterable[hr.Loader]) -> None:
    """See that rows are those of the nodes, in two batches of each loader: of the second some are kept."""
    for loader in made:
        for batch in islice(loader, 2):
            identified(batch.x.cpu(), batch.n_id.cpu())


def hit_records(gpu: Gpu, case: str, name: str, loader: hr.Loader) -> list[Record]:
    """Say of all epochs so far how many rows were there already."""
    counts = loader.stats()["fetch_feature"]
    hits, misses = counts.get("hits", 0), counts.get("misses", 0)
    if not hits + misses:
        return []
    return [summarised(gpu.bench("cache"), case, name, "miss rate", "%", [100 * misses / (hits + misses)], 1)]


def case_records(
    gpu: Gpu, where: str, graph: hr.Graph, x: torch.Tensor, kappa: int, options: argparse.Namespace
) -> list[Record]:
    fanouts, row_bytes = ",".join(map(str, options.fanouts)), x[0].nbytes
    dependency = "independent batches" if kappa == 1 else f"kappa = {kappa}"
    case = f"LABOR-0, {where}, batch {options.batch_size}, fanouts {fanouts}, rows of {row_bytes:,} B, {dependency}"
    with ExitStack() as stack:
        made = loaders(gpu, graph, x, kappa, options, stack)
        check_rows(made.values())
        systems = {name: partial(epoch, gpu, loader) for name, loader in made.items()}
        largest = f"{max(options.shares):.0%} of the rows kept"
        for count in options.threads:
            systems[f"{largest}, {count:,} threads"] = partial(epoch, gpu, made[largest], threads=count)
        records = interleave(
            gpu.bench("cache"),
            case,
            [System(name, run) for name, run in systems.items()],
            rounds=options.rounds,
            gains=[Gain((name, 1), (NO_CACHE, 1)) for name in systems if name != NO_CACHE],
            warm_up=1,
        )
        for name, loader in made.items():
            records += hit_records(gpu, case, name, loader)
    return records


def main(given: Sequence[str] | None = None) -> None:
    parser = gpu_arguments(__doc__, rounds=5)
    parser.add_argument("--shape", default="products", choices=sorted(SHAPES))
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10])
    parser.add_argument("--items", type=float, default=0.08, help="share of the nodes that batches are drawn from")
    parser.add_argument("--widths", type=int, nargs="+", default=[100, 256], help="float32 columns of the features")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.05, 0.2, 0.5], help="of the rows that are kept")
    parser.add_argument("--threads", type=int, nargs="+", default=[6144, 24576], help="that copy rows, at most")
    parser.add_argument(
        "--kappas", type=int, nargs="+", default=[1, 64], help="how long random numbers change, in batches"
    )
    options = parser.parse_args(given)
    if options.smoke:
        options.batch_size, options.fanouts, options.items, options.widths = 8, [3, 2], 0.05, [8]
        options.shares, options.threads = [0.2], [64]
    with gpu_of(options) as gpu:
        where, graph, _ = graph_of(gpu, options)
        print(f"graph {where}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, generated")
        records = Measured(options.json)
        for width in options.widths:
            x = table(graph.num_nodes, width)
            for kappa in options.kappas:
                records += case_records(gpu, where, graph, x, kappa, options)


if __name__ == "__main__":
    main()
