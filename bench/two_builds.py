"""Two builds of headrace in turns: what a change costs or gains, on a machine whose speed drifts.

Each build runs in a process of its own environment, and the two take turns of the same batches: kernels alone on a
large graph, an epoch of small batches, where Python decides, and batches of a large graph with features. Times and CPU
times are compared by the least of their rounds, which other work on the machine disturbs least. Run it as

    python bench/two_builds.py --old ../base/.venv/bin/python --new .venv/bin/python
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from graphs import SHAPES, cached_csc, cached_weights
from harness import Gain, Metrics, Record, System, arguments, describe_machine, interleave, print_table, write_json
from worker import Worker, serve

KERNELS = ("neighbor", "labor", "weighted", "gather")
LOADERS = ("small loader", "loader")
OLD, NEW = "old", "new"
WIDTH = 100
#: Nodes, edges and features of the graph of small batches: 32 seeds, fanouts 5 and 5, as in small_batch.py.
SMALL = 3_000, 30_000, 16


@contextmanager
def _timed(into: dict[str, float]) -> Iterator[None]:
    """Add wall time and the CPU time of all threads, in milliseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    into["time"] = into.get("time", 0.0) + (time.perf_counter() - wall) * 1e3
    into["CPU time"] = into.get("CPU time", 0.0) + (time.process_time() - cpu) * 1e3


def serve_build() -> None:
    """Answer calls for turns, with whichever build this process imports."""
    import numpy as np
    import torch

    import headrace as hr
    from headrace import ops

    state: dict[Any, Any] = {}

    def load(folder: str, weights: str, batch_size: int, fanouts: list[int]) -> None:
        indptr, indices = (torch.from_numpy(np.load(Path(folder) / f"{name}.npy")) for name in ("indptr", "indices"))
        state["plain"] = ops.BlockSampler(indptr, indices)
        state["weighted"] = ops.BlockSampler(indptr, indices, weights=np.load(weights))
        state["nodes"], state["size"], state["fanouts"] = len(indptr) - 1, batch_size, fanouts
        state["x"] = torch.ones(len(indptr) - 1, WIDTH)
        graph = hr.Graph.from_csc(indptr, indices)
        state["loader"] = (
            hr.ItemSampler(len(indptr) - 1, batch_size=batch_size, shuffle=True, seed=0)
            .sample_neighbor(graph, fanouts)
            .fetch_feature(hr.FeatureStore(node={"x": state["x"]}), node=["x"])
        )
        nodes, edges, width = SMALL
        generator = torch.Generator().manual_seed(0)
        small = hr.Graph.from_coo(*torch.randint(nodes, (2, edges), generator=generator), num_nodes=nodes)
        rows = hr.FeatureStore(node={"x": torch.randn(nodes, width, generator=generator)})
        state["small loader"] = (
            hr.ItemSampler(nodes, batch_size=32, shuffle=True, seed=0).sample_neighbor(small, [5, 5])
        ).fetch_feature(rows, node=["x"])

    def kernel(case: str, number: int, batches: int, threads: int) -> dict[str, float]:
        rule: Callable[[int], ops.Rule] = ops.LaborRule if case == "labor" else ops.NeighborRule
        sampler = state["weighted" if case == "weighted" else "plain"]
        total: dict[str, float] = {}
        for batch in range(number * batches, (number + 1) * batches):
            random = np.random.default_rng(batch)
            if case == "gather":
                ids = torch.from_numpy(random.integers(0, state["nodes"], 100 * state["size"]))
                with _timed(total):
                    ops.gather_rows(state["x"], ids, num_threads=threads)
            else:
                seeds = torch.from_numpy(random.choice(state["nodes"], state["size"], replace=False))
                fanouts = state["fanouts"]
                rules, keys = [rule(fanout) for fanout in fanouts], list(range(batch, batch + len(fanouts)))
                with _timed(total):
                    sampler.sample(seeds, rules, keys, edge_ids=False, num_threads=threads)
        return {metric: value / batches for metric, value in total.items()}

    def loader(case: str, number: int, batches: int, threads: int) -> dict[str, float]:
        key = case, threads
        if key not in state:
            state[key] = state[case].loader(num_threads=threads, prefetch=False)
        state[key].set_epoch(number)
        total: dict[str, float] = {}
        count = 0
        with _timed(total):
            for _ in state[key]:
                count += 1
                if case == "loader" and count == batches:
                    break
        return {metric: value / count for metric, value in total.items()}

    serve({"load": load, "kernel": kernel, "loader": loader})


def compare(case: str, threads: int, builds: dict[str, Worker], options: Any) -> list[Record]:
    """Return the records of one case and their gains: old over new, so that 1.03 times as slow is 0.97."""

    def turn(build: Worker, number: int) -> Metrics:
        kind = "loader" if case in LOADERS else "kernel"
        answer: Metrics = build.call(kind, case=case, number=number, batches=options.batches, threads=threads)
        return answer

    systems = [System(name, partial(turn, build), threads) for name, build in builds.items()]
    gains = [Gain((NEW, threads), (OLD, threads), metric) for metric in ("time", "CPU time")]
    return interleave("two builds", case, systems, rounds=options.rounds, gains=gains, warm_up=1)


def print_least(records: list[Record], threads: int) -> None:
    """Print how many times as long the new build takes, by the least of all rounds."""
    for metric in ("time", "CPU time"):
        least = {record.system: record.min for record in records if record.metric == metric}
        print(
            f"{records[0].case}, {threads} threads, {metric}: least {least[OLD]:.3f} ms old, {least[NEW]:.3f} ms new, "
            f"new over old {least[NEW] / least[OLD]:.3f}",
            flush=True,
        )


def main() -> None:
    parser = arguments(__doc__ or "", rounds=12)
    parser.add_argument("--old", type=Path, required=True, help="Python of the environment of one build")
    parser.add_argument("--new", type=Path, required=True, help="Python of that of the other")
    parser.add_argument("--shape", choices=SHAPES, default="products", help="generator graph (default: %(default)s)")
    parser.add_argument("--cases", nargs="+", choices=KERNELS + LOADERS, default=list(KERNELS + LOADERS))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10], help="the hop next to the seeds first")
    parser.add_argument("--batches", type=int, default=4, help="of a turn; a turn of small batches is an epoch")
    options = parser.parse_args()
    print(describe_machine(["torch", "numpy"]))
    records: list[Record] = []
    with ExitStack() as stack:
        builds = {
            name: stack.enter_context(closing(Worker(python, Path(__file__).resolve(), "--serve")))
            for name, python in ((OLD, options.old), (NEW, options.new))
        }
        for build in builds.values():
            build.call(
                "load",
                folder=str(cached_csc(options.shape)),
                weights=str(cached_weights(options.shape)),
                batch_size=options.batch_size,
                fanouts=options.fanouts,
            )
        for case in options.cases:
            # Small batches are for one thread: there Python decides.
            for threads in options.threads[:1] if case == "small loader" else options.threads:
                taken = compare(case, threads, builds, options)
                print_least(taken, threads)
                records += taken
    print_table(records)
    write_json(options.json, records)


if __name__ == "__main__":
    serve_build() if "--serve" in sys.argv else main()
