"""Sampling: headrace's kernels beside GraphBolt's samplers and torch-sparse's, on one thread and on more in one run.

Beside a batch on several threads stand as many batches at once, each a call of its own: what the machine's cores give
where nothing is shared but memory. A turn is a loop of nothing but sampling, of batches or of epochs of the loader; its
first run, after a rest and other systems, is measured apart. Peers time each batch themselves, in processes of their
own: what lies between two batches, a message of its seeds, does not count.

GraphBolt's rule for the next hop is ours of ``expand="all"``, torch-sparse's that of ``expand="new"``; each is compared
with the same rule of ours. Peers are measured when `make peers` has built their environments.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Literal

import numpy as np
import torch
from environments import GRAPHBOLT, TORCH_SPARSE, open_peers
from graphs import SHAPES, cached_csc, cached_train, cached_weights, seeds_of
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    add_threads,
    arguments,
    check_same_work,
    describe_machine,
    in_succession,
    interleave,
    print_table,
    write_json,
)
from numpy.typing import NDArray
from plot import draw_bars
from worker import Worker

import headrace as hr
from headrace import ops

OURS = "headrace"
NEW = 'headrace, expand="new"'
WEIGHTED = "headrace, weighted"
AT_ONCE = ", a call a thread"
TIMES = ("time", "time after a rest")
RULES: dict[str, Callable[[int], ops.Rule]] = {"neighbor": ops.NeighborRule, "labor": ops.LaborRule}


@dataclass(frozen=True)
class Batches:
    """What every system samples: the seeds of a round, and the fan-outs."""

    train: NDArray[np.int64]
    batch_size: int
    fanouts: list[int]

    def seeds(self, number: int) -> NDArray[np.int64]:
        return seeds_of(number, self.train, self.batch_size)


def sampling_metrics(seconds: float, edges: float, inputs: float) -> Metrics:
    return {"time": seconds * 1e3, "edge rate": edges / seconds / 1e6, "edges": edges, "inputs": inputs}


def ours(
    number: int,
    *,
    sampler: ops.BlockSampler,
    rule: str,
    batches: Batches,
    threads: int,
    expand: Literal["all", "new"] = "all",
) -> Metrics:
    seeds = torch.from_numpy(batches.seeds(number))
    rules = [RULES[rule](fanout) for fanout in batches.fanouts]
    started = time.perf_counter()
    # The peers are not asked for edge ids either.
    keys = [ops.stream_key(0, 0, number, layer, ops.rng.NEIGHBOR) for layer in range(len(rules))]
    sampled = sampler.sample(seeds, rules, keys, expand=expand, edge_ids=False, num_threads=threads)
    return sampling_metrics(time.perf_counter() - started, sum(sampled.num_sampled_edges), sampled.n_id.numel())


def at_once(number: int, *, run: Callable[[int], Metrics], pool: ThreadPoolExecutor, threads: int) -> Metrics:
    """Run as many calls side by side as there are threads; the time is that of all of them, by their number."""
    started = time.perf_counter()
    runs = list(pool.map(run, range(number * threads, (number + 1) * threads)))
    seconds = (time.perf_counter() - started) / threads
    edges, inputs = (fmean(run[metric] for run in runs) for metric in ("edges", "inputs"))
    return sampling_metrics(seconds, edges, inputs)


def calls_at_once(name: str, run: Callable[..., Metrics], threads: list[int]) -> list[System]:
    """Return, for each number of threads above one, the system of as many calls at once on one thread each."""
    alone = partial(run, threads=1)
    return [
        System(name + AT_ONCE, partial(at_once, run=alone, pool=ThreadPoolExecutor(n), threads=n), n)
        for n in threads
        if n > 1
    ]


def graphbolts(number: int, *, peer: Worker, rule: str, batches: Batches, threads: int) -> Metrics:
    answer = peer.call(
        "sample", rule=rule, seeds=batches.seeds(number).tolist(), fanouts=batches.fanouts, threads=threads
    )
    return sampling_metrics(**answer)


def torch_sparses(number: int, *, peer: Worker, batches: Batches, threads: int) -> Metrics:
    answer = peer.call("sample", seeds=batches.seeds(number).tolist(), fanouts=batches.fanouts, threads=threads)
    return sampling_metrics(**answer)


def epoch_of(loader: hr.Loader, number: int) -> Metrics:
    loader.set_epoch(number)
    edges = inputs = 0
    started = time.perf_counter()
    for batch in loader:
        edges += sum(batch.num_sampled_edges)
        inputs += batch.n_id.numel()
    return sampling_metrics(time.perf_counter() - started, edges, inputs)


def measured(case: str, systems: list[System], gains: list[Gain], rounds: int) -> list[Record]:
    turns = [in_succession(system) for system in systems]
    return interleave("sampling", case, turns, rounds=rounds, gains=gains, warm_up=1)


def more_threads(name: str, threads: list[int]) -> list[Gain]:
    """Return the gains of each number of threads over the smallest: in one call, and of a call a thread."""
    least, pairs = min(threads), [(name, n) for n in threads] + [(name + AT_ONCE, n) for n in threads]
    return [Gain(pair, (name, least), metric) for pair in pairs if pair[1] != least for metric in TIMES]


def against(system: str, peer: str, threads: list[int], *, rate: bool = False) -> list[Gain]:
    """Return the gains over a peer on as many threads, in times or by edges, and those of counts, which must be 1."""
    metrics = (*TIMES, "edge rate") if rate else TIMES
    return [Gain((system, n), (peer, n), metric) for n in threads for metric in (*metrics, "edges", "inputs")]


def neighbor_records(
    case: str, sampler: ops.BlockSampler, batches: Batches, peers: dict[str, Worker], threads: list[int], rounds: int
) -> list[Record]:
    systems = []
    for count in threads:
        common = partial(ours, sampler=sampler, rule="neighbor", batches=batches, threads=count)
        systems += [System(OURS, common, count), System(NEW, partial(common, expand="new"), count)]
        if GRAPHBOLT in peers:
            run = partial(graphbolts, peer=peers[GRAPHBOLT], rule="neighbor", batches=batches, threads=count)
            systems.append(System(GRAPHBOLT, run, count))
        if TORCH_SPARSE in peers:
            run = partial(torch_sparses, peer=peers[TORCH_SPARSE], batches=batches, threads=count)
            systems.append(System(TORCH_SPARSE, run, count))
    systems += calls_at_once(OURS, partial(ours, sampler=sampler, rule="neighbor", batches=batches), threads)
    # Our default rule draws more edges than torch-sparse's: only edges a second compare.
    gains = [
        *against(OURS, GRAPHBOLT, threads),
        *against(NEW, TORCH_SPARSE, threads, rate=True),
        *(Gain((OURS, count), (TORCH_SPARSE, count), "edge rate") for count in threads),
        *more_threads(OURS, threads),
        *more_threads(GRAPHBOLT, threads),
    ]
    return measured(f"neighbor, {case}", systems, gains, rounds)


def labor_records(
    case: str, sampler: ops.BlockSampler, batches: Batches, peers: dict[str, Worker], threads: list[int], rounds: int
) -> list[Record]:
    systems = []
    for count in threads:
        run = partial(ours, sampler=sampler, rule="labor", batches=batches, threads=count)
        systems.append(System(OURS, run, count))
        if GRAPHBOLT in peers:
            run = partial(graphbolts, peer=peers[GRAPHBOLT], rule="labor", batches=batches, threads=count)
            systems.append(System(GRAPHBOLT, run, count))
    systems += calls_at_once(OURS, partial(ours, sampler=sampler, rule="labor", batches=batches), threads)
    gains = [*against(OURS, GRAPHBOLT, threads), *more_threads(OURS, threads), *more_threads(GRAPHBOLT, threads)]
    return measured(f"labor, {case}", systems, gains, rounds)


def weighted_records(
    case: str,
    uniform: ops.BlockSampler,
    weighted: ops.BlockSampler,
    batches: Batches,
    peers: dict[str, Worker],
    threads: list[int],
    rounds: int,
) -> list[Record]:
    systems = []
    for count in threads:
        for name, sampler in ((OURS, uniform), (WEIGHTED, weighted)):
            run = partial(ours, sampler=sampler, rule="neighbor", batches=batches, threads=count)
            systems.append(System(name, run, count))
        if GRAPHBOLT in peers:
            run = partial(graphbolts, peer=peers[GRAPHBOLT], rule="weighted", batches=batches, threads=count)
            systems.append(System(GRAPHBOLT, run, count))
    systems += calls_at_once(WEIGHTED, partial(ours, sampler=weighted, rule="neighbor", batches=batches), threads)
    gains = [
        *against(WEIGHTED, GRAPHBOLT, threads),
        *(Gain((OURS, count), (WEIGHTED, count), metric) for count in threads for metric in TIMES),
        *more_threads(WEIGHTED, threads),
    ]
    return measured(f"weighted without replacement, {case}", systems, gains, rounds)


def parallel_records(
    case: str, graph: hr.Graph, batches: Batches, count: int, threads: int, rounds: int
) -> list[Record]:
    """Compare threads within a batch with whole batches side by side, through the loader, over epochs of `count`."""
    items = hr.ItemSampler(batches.seeds(0), batch_size=batches.batch_size // count, shuffle=True, seed=0)
    plan = items.sample_neighbor(graph, batches.fanouts, edge_ids=False)
    serial, within, beside = "one after the other", "threads within a batch", "batches in parallel"
    loaders = {
        (serial, 1): plan.prefetch(workers=0).loader(num_threads=1),
        (within, threads): plan.prefetch(workers=0).loader(num_threads=threads),
        (beside, threads): plan.prefetch(workers=threads, depth=2 * threads).loader(num_threads=1),
    }
    systems = [System(name, partial(epoch_of, loader), used) for (name, used), loader in loaders.items()]
    gains = [
        Gain((name, threads), (serial, 1), metric)
        for name in (within, beside)
        for metric in (*TIMES, "edges", "inputs")
    ]
    records = measured(f"{count} batches through the loader, {case}", systems, gains, rounds)
    for loader in loaders.values():
        loader.close()
    return records


def main() -> None:
    parser = arguments(__doc__ or "")
    add_threads(parser)
    parser.add_argument("--shape", choices=SHAPES, default="products", help="generator graph (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10], help="the hop next to the seeds first")
    parser.add_argument("--parallel-batches", type=int, default=8, help="batches of an epoch of the loader")
    options = parser.parse_args()

    folder, weights = cached_csc(options.shape), cached_weights(options.shape)
    indptr, indices = (torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("indptr", "indices"))
    batches = Batches(cached_train(options.shape), options.batch_size, options.fanouts)
    uniform = ops.BlockSampler(indptr, indices)
    weighted = ops.BlockSampler(indptr, indices, weights=np.load(weights))
    case = f"{options.shape}, batch {options.batch_size}, fanouts {','.join(map(str, options.fanouts))}"

    print(describe_machine(["headrace", "torch", "numpy"]))
    print(f"graph {options.shape}: {indptr.numel() - 1:,} nodes, {indices.numel():,} edges, generated")
    with ExitStack() as stack:
        peers = open_peers(stack, [GRAPHBOLT], folder=str(folder), weights=str(weights))
        peers |= open_peers(stack, [TORCH_SPARSE], folder=str(folder))
        records = [
            *neighbor_records(case, uniform, batches, peers, options.threads, options.rounds),
            *labor_records(case, uniform, batches, peers, options.threads, options.rounds),
            *weighted_records(case, uniform, weighted, batches, peers, options.threads, options.rounds),
        ]
    count, most = options.parallel_batches, max(options.threads)
    if most > 1:
        together = Batches(batches.train, batches.batch_size * count, batches.fanouts)
        graph = hr.Graph.from_csc(indptr, indices)
        records += parallel_records(case, graph, together, count, most, options.rounds)

    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "edge rate")
    check_same_work(records, tolerance=0.03)


if __name__ == "__main__":
    main()
