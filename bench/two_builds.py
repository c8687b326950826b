"""The kernels of two builds in turns: what a change costs or gains, on a machine whose speed drifts.

Each build samples and gathers in a process of its own environment, and the two take turns of the same batches; a ratio
is that of two turns one right after the other, and its median is reported. Run it as

    python bench/two_builds.py --old ../base/.venv/bin/python --new .venv/bin/python
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from graphs import SHAPES, cached_csc, cached_weights
from worker import Worker, serve

CASES = ("neighbor", "labor", "weighted", "gather")
WIDTH = 100


def serve_build() -> None:
    """Answer calls for turns, with whichever build this process imports."""
    import numpy as np
    import torch

    from headrace import ops

    state: dict[str, Any] = {}

    def load(folder: str, weights: str, batch_size: int) -> None:
        indptr, indices = (torch.from_numpy(np.load(Path(folder) / f"{name}.npy")) for name in ("indptr", "indices"))
        state["plain"] = ops.BlockSampler(indptr, indices)
        state["weighted"] = ops.BlockSampler(indptr, indices, weights=np.load(weights))
        state["nodes"], state["size"] = len(indptr) - 1, batch_size
        state["x"] = torch.ones(len(indptr) - 1, WIDTH)

    def turn(case: str, number: int, batches: int, threads: int, fanouts: list[int]) -> float:
        rule: Callable[[int], ops.Rule] = ops.LaborRule if case == "labor" else ops.NeighborRule
        sampler = state["weighted" if case == "weighted" else "plain"]
        seconds = 0.0
        for batch in range(number * batches, (number + 1) * batches):
            random = np.random.default_rng(batch)
            if case == "gather":
                ids = torch.from_numpy(random.integers(0, state["nodes"], 100 * state["size"]))
                started = time.perf_counter()
                ops.gather_rows(state["x"], ids, num_threads=threads)
            else:
                seeds = torch.from_numpy(random.choice(state["nodes"], state["size"], replace=False))
                rules, keys = [rule(fanout) for fanout in fanouts], list(range(batch, batch + len(fanouts)))
                started = time.perf_counter()
                sampler.sample(seeds, rules, keys, edge_ids=False, num_threads=threads)
            seconds += time.perf_counter() - started
        return seconds / batches

    serve({"load": load, "turn": turn})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, required=True, help="Python of the environment of one build")
    parser.add_argument("--new", type=Path, required=True, help="Python of that of the other")
    parser.add_argument("--shape", choices=SHAPES, default="products", help="generator graph (default: %(default)s)")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10], help="the hop next to the seeds first")
    parser.add_argument("--batches", type=int, default=4, help="of a turn")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with ExitStack() as stack:
        builds = [
            stack.enter_context(closing(Worker(python, Path(__file__).resolve(), "--serve")))
            for python in (options.old, options.new)
        ]
        for build in builds:
            build.call(
                "load",
                folder=str(cached_csc(options.shape)),
                weights=str(cached_weights(options.shape)),
                batch_size=options.batch_size,
            )
        for case in options.cases:
            for threads in options.threads:
                times: list[list[float]] = [[], []]
                for number in range(-1, options.rounds):
                    for which in (0, 1) if number % 2 else (1, 0):
                        seconds = builds[which].call(
                            "turn",
                            case=case,
                            number=number + 1,
                            batches=options.batches,
                            threads=threads,
                            fanouts=options.fanouts,
                        )
                        if number >= 0:
                            times[which].append(seconds)
                ratios = [new / old for old, new in zip(*times, strict=True)]
                old, new = (statistics.median(one) * 1e3 for one in times)
                least_old, least_new = (min(one) * 1e3 for one in times)
                print(
                    f"{case}, {threads} threads: old {old:.2f} ms (least {least_old:.2f}), new {new:.2f} "
                    f"(least {least_new:.2f}), new over old {statistics.median(ratios):.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    serve_build() if "--serve" in sys.argv else main()
