"""The default loader beside its alternatives, on a quiet machine and beside as many busy processes as cores.

Threads and batches made ahead pay where there are cores for them. Where a batch is small, or the cores are taken, they
must not cost: the default is compared with the best of one thread and all, with a prefetch and without. Every round is
one epoch of small batches, of a graph as small as many a first one, or of large ones, with nothing done in the loop
that they are for. GraphBolt's DataLoader stands beside them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from environments import GRAPHBOLT, open_peers
from graphs import SHAPES, cached_csc
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    arguments,
    check_same_work,
    describe_machine,
    interleave,
    print_table,
    write_json,
)
from plot import draw_bars
from work import table
from worker import Worker

import headrace as hr
from headrace.pipeline.plan.machine import Machine

BENCH = "contention"
DEFAULT, PREFETCH, NO_PREFETCH = "headrace, default", "headrace, prefetch", "headrace, no prefetch"
OVER_BEST = "default over the best choice"
#: The default may take so many times what the best choice takes.
LINE = 1.3
WIDTH = 32


@dataclass(frozen=True)
class Size:
    """Batches of one size: the shape of their graph, how many there are in an epoch, their seeds and fanouts."""

    name: str
    shape: str
    batch_size: int
    fanouts: tuple[int, ...]
    batches: int

    @property
    def case(self) -> str:
        return f"{self.name} batches: {self.shape}, batch {self.batch_size}, fanouts {','.join(map(str, self.fanouts))}"

    @property
    def items(self) -> torch.Tensor:
        return torch.arange(min(SHAPES[self.shape].num_nodes, self.batch_size * self.batches))


SIZES = (Size("small", "coauthor", 256, (15, 10), 135), Size("large", "small", 4096, (10, 10, 10), 10))


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep cores busy with so many processes."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(1.0 if count else 0.0)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def our_epoch(loader: hr.Loader, number: int) -> Metrics:
    loader.set_epoch(number)
    edges = inputs = 0
    started = time.perf_counter()
    for batch in loader:
        edges += sum(batch.num_sampled_edges)
        inputs += len(batch.x)
    return {"time": (time.perf_counter() - started) * 1e3, "edges": edges, "inputs": inputs}


def peer_epoch(peer: Worker, loader: str, threads: int, number: int) -> Metrics:
    del number  # it shuffles anew each time
    epoch = peer.call("epoch", name=loader, threads=threads, check=False)
    return {"time": epoch["seconds"] * 1e3, "edges": epoch["edges"], "inputs": epoch["inputs"]}


def our_systems(size: Size, folder: Path, cores: int) -> list[System]:
    """Return the default, and the grid that it is compared with."""
    graph = hr.Graph.from_csc(*(np.load(folder / f"{name}.npy") for name in ("indptr", "indices")))
    store = hr.FeatureStore(node={"x": table(graph.num_nodes, WIDTH)})
    items = hr.ItemSampler(size.items, batch_size=size.batch_size, shuffle=True, seed=0)
    # GraphBolt's loader is not asked for edge ids either.
    plan = items.sample_neighbor(graph, list(size.fanouts), edge_ids=False).fetch_feature(store, node=["x"])
    loaders = {(DEFAULT, cores): plan.loader()}
    for threads in sorted({1, cores}):
        # The one that the loader inserts starts its thread only where that pays: this one always does.
        loaders[PREFETCH, threads] = plan.prefetch().loader(num_threads=threads)
        loaders[NO_PREFETCH, threads] = plan.loader(num_threads=threads, prefetch=False)
    return [System(name, partial(our_epoch, loader), threads) for (name, threads), loader in loaders.items()]


def over_best(records: Sequence[Record]) -> Record:
    """Return what the default takes over what the alternative takes to which it loses most, or gains least."""
    gains = [one for one in records if one.metric == "time gain" and one.system.startswith(f"{DEFAULT} over headrace")]
    least = min(gains, key=lambda gain: gain.median)
    return Record(
        least.bench,
        least.case,
        OVER_BEST,
        "time over the best",
        "×",
        1 / least.median,
        1 / least.max,
        1 / least.min,
        least.n,
        least.threads,
    )


def measured(size: Size, num_busy: int, systems: list[System], cores: int, rounds: int) -> list[Record]:
    gains = [Gain((DEFAULT, cores), (name, n)) for name in (PREFETCH, NO_PREFETCH) for n in sorted({1, cores})]
    gains += [Gain((DEFAULT, cores), (GRAPHBOLT, cores), metric) for metric in ("time", "edges", "inputs")]
    where = f"beside {num_busy} busy processes" if num_busy else "quiet"
    with busy(num_busy):
        records = interleave(BENCH, f"{size.case}, {where}", systems, rounds=rounds, gains=gains, warm_up=2)
    return [*records, over_best(records)]


def main() -> int:
    parser = arguments(__doc__ or "", rounds=9)
    parser.add_argument("--sizes", nargs="+", choices=[size.name for size in SIZES], default=["small", "large"])
    options = parser.parse_args()
    cores = Machine.detect().cores
    print(describe_machine(["headrace", "torch", "numpy"]))
    records: list[Record] = []
    for size in (size for size in SIZES if size.name in options.sizes):
        folder = cached_csc(size.shape)
        systems = our_systems(size, folder, cores)
        with ExitStack() as stack:
            for peer in open_peers(stack, [GRAPHBOLT], folder=str(folder)).values():
                items, fanouts = size.items.tolist(), list(size.fanouts)
                peer.call(
                    "make_loader",
                    name=size.name,
                    items=items,
                    batch_size=size.batch_size,
                    fanouts=fanouts,
                    width=WIDTH,
                    workers=0,
                )
                systems += [System(GRAPHBOLT, partial(peer_epoch, peer, size.name, n), n) for n in sorted({1, cores})]
            for num_busy in (0, cores):
                records += measured(size, num_busy, systems, cores, options.rounds)
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "time")
    check_same_work(records, tolerance=0.03)
    print()
    decisive = [record for record in records if record.system == OVER_BEST]
    for record in decisive:
        verdict = "holds" if record.median <= LINE else "does NOT hold"
        print(f"{record.case}: default {record.median:.2f} × the best choice; the line of {LINE} × {verdict}")
    return 0 if all(record.median <= LINE for record in decisive) else 1


if __name__ == "__main__":
    sys.exit(main())
