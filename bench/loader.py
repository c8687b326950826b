"""Sample and fetch, end to end: headrace's loader beside GraphBolt's DataLoader and PyG's NeighborLoader.

Every round is one epoch over the same training nodes, shuffled, through a loader that starts anew: no system begins
a batch while another is timed. Each is measured with one thread and no worker, with all cores as its defaults use them,
and the peers with worker processes as well. GraphBolt's rule for the next hop is ours of ``expand="all"``, PyG's that
of ``expand="new"``; rows and edges are counted, and every system's first epoch is checked row by row.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from environments import GRAPHBOLT, TORCH_SPARSE, open_peers
from graphs import SHAPES, cached_csc, cached_train, seeds_of
from harness import (
    Gain,
    Metrics,
    System,
    add_threads,
    arguments,
    check_same_work,
    describe_machine,
    interleave,
    print_table,
    write_json,
)
from plot import draw_bars
from work import identified, table
from worker import Worker

import headrace as hr
from headrace import ops

OURS, NEW, PYG = "headrace", 'headrace, expand="new"', "PyG + torch-sparse"
PEER_NAMES = {GRAPHBOLT: GRAPHBOLT, TORCH_SPARSE: PYG}


def metrics(seconds: float, batches: int, edges: int, inputs: int) -> Metrics:
    return {
        "time": seconds / batches * 1e3,
        "batch rate": batches / seconds,
        "edge rate": edges / seconds / 1e6,
        "edges": edges / batches,
        "inputs": inputs / batches,
    }


def our_epoch(loader: hr.Loader, number: int) -> Metrics:
    loader.set_epoch(number)
    batches = edges = inputs = 0
    started = time.perf_counter()
    for batch in loader:
        batches += 1
        edges += sum(batch.num_sampled_edges)
        inputs += len(batch.x)
        if number == 0:  # a warm-up round
            identified(batch.x, batch.n_id)
    return metrics(time.perf_counter() - started, batches, edges, inputs)


def peer_epoch(peer: Worker, loader: str, threads: int, number: int) -> Metrics:
    return metrics(**peer.call("epoch", name=loader, threads=threads, check=number == 0))


def our_loader(
    graph: hr.Graph,
    store: hr.FeatureStore,
    items: torch.Tensor,
    options: Any,
    expand: Literal["all", "new"],
    threads: int,
) -> hr.Loader:
    sampler = hr.ItemSampler(items, batch_size=options.batch_size, shuffle=True, seed=0)
    # The peers are not asked for edge ids by GraphBolt's loader; PyG's gives them in any case.
    plan = sampler.sample_neighbor(graph, options.fanouts, expand=expand, edge_ids=False)
    plan = plan.fetch_feature(store, node=["x"])
    # One thread is one: nothing is made ahead. On more, the loader's own choice.
    return (plan.prefetch(workers=0) if threads == 1 else plan).loader(num_threads=threads)


def peer_systems(peer: Worker, name: str, settings: dict[str, Any], threads: list[int]) -> list[System]:
    systems = []
    for workers in (0, *(count for count in threads if count > 1)):
        loader = f"{workers} workers"
        peer.call("make_loader", name=loader, workers=workers, **settings)
        if workers:
            run = partial(peer_epoch, peer, loader, 1)
            systems.append(System(f"{name}, {workers} worker processes", run, workers))
        else:
            systems += [System(name, partial(peer_epoch, peer, loader, count), count) for count in threads]
    return systems


def main() -> None:
    parser = arguments(__doc__ or "", rounds=7)
    add_threads(parser)
    parser.add_argument("--shape", choices=SHAPES, default="products", help="generator graph (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=6, help="of an epoch (default: %(default)s)")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10], help="the hop next to the seeds first")
    parser.add_argument("--feature-width", type=int, help="float32 columns (default: those of the shape)")
    options = parser.parse_args()
    shape, threads = SHAPES[options.shape], options.threads
    width = options.feature_width or shape.width

    folder = cached_csc(options.shape)
    graph = hr.Graph.from_csc(*(np.load(folder / f"{name}.npy") for name in ("indptr", "indices")))
    items = seeds_of(0, cached_train(options.shape), options.batch_size * options.batches)
    x = table(graph.num_nodes, width)
    in_huge_pages = ops.use_huge_pages(x) / x.nbytes
    store = hr.FeatureStore(node={"x": x})
    print(describe_machine(["headrace", "torch", "numpy"]))
    sizes = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {width} float32 a node"
    print(f"graph {options.shape}: {sizes}, generated; {in_huge_pages:.0%} of our features in huge pages")

    systems = []
    for count in threads:
        for name in (OURS, NEW):
            loader = our_loader(graph, store, torch.from_numpy(items), options, "all" if name == OURS else "new", count)
            systems.append(System(name, partial(our_epoch, loader), count))
    settings = {
        "items": items.tolist(),
        "batch_size": options.batch_size,
        "fanouts": options.fanouts,
        "width": width,
    }
    gains = [Gain((OURS, count), (OURS, min(threads))) for count in threads if count > min(threads)]
    with ExitStack() as stack:
        for key, peer in open_peers(stack, list(PEER_NAMES), folder=str(folder)).items():
            own = OURS if key == GRAPHBOLT else NEW
            theirs = peer_systems(peer, PEER_NAMES[key], settings, threads)
            systems += theirs
            gains += [
                Gain((own, system.threads), system.key, metric)
                for system in theirs
                for metric in ("time", "edges", "inputs")
            ]
        fanouts = ",".join(map(str, options.fanouts))
        case = f"{options.shape}, batch {options.batch_size}, fanouts {fanouts}, {width} float32"
        records = interleave("loader", case, systems, rounds=options.rounds, gains=gains, warm_up=1)

    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "batch rate")
    check_same_work(records, tolerance=0.03)


if __name__ == "__main__":
    main()
