"""Blocks sampled by a GPU, of a graph in its own memory and of one in pinned memory of the host, beside our CPU.

All of ours pick the same edges. Beside them stands a sampler of torch's operations alone, which picks by the law of NS
with random numbers of its own. Times are from the call to the end of the last kernel. Under torch's profiler a batch
shows how many kernels it has, how long the GPU works on them, and how long the host is in the calls that launch them:
where that is more than the GPU works, launching is the limit, and a CUDA graph would be worth it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial

import torch
from gpu_device import Gpu, Measured, gpu_arguments, gpu_of, graph_of, seeds_of_round, warm_up_rounds
from gpu_profile import Profile, profiled
from graphs import SHAPES
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    check_same_work,
    interleave,
    summarised,
)
from torch_sampler import sample as sample_by_torch

import headrace as hr
from headrace import ops
from headrace.ops.features.pinned import Pinned
from headrace.ops.sampling.rules import LaborImportanceRule, LaborRule, NeighborRule

CPU, HERE, PINNED, TORCH = "CPU", "graph on the GPU", "graph in pinned memory", "torch alone, graph on the GPU"
Rule = NeighborRule | LaborRule | LaborImportanceRule
RULES: dict[str, Callable[[int], Rule]] = {"NS": NeighborRule, "LABOR-0": LaborRule, "LABOR-*": LaborImportanceRule}


class Samplers:
    """Samplers of one graph in all places."""

    def __init__(self, gpu: Gpu, graph: hr.Graph) -> None:
        arrays = graph.indptr, graph.indices
        self.pinned = [Pinned(array) for array in arrays]
        self.here = graph.indptr.to(gpu.device), graph.indices.to(gpu.device)
        self.num_nodes = graph.num_nodes
        self.may_repeat = graph.has_parallel_edges
        self.of = {
            CPU: ops.BlockSampler(*arrays),
            HERE: ops.BlockSampler(*self.here),
            PINNED: ops.BlockSampler(*arrays, device=gpu.device),
        }

    def prepared(
        self, gpu: Gpu, name: str, rules: Sequence[Rule], batch_size: int, threads: int, number: int
    ) -> Callable[[], int]:
        """Return what samples the batch of a round, whose seeds are there already, and returns its number of edges."""
        seeds = seeds_of_round(self.num_nodes, batch_size, number)
        seeds = seeds if name == CPU else seeds.to(gpu.device)
        keys = [ops.stream_key(0, 0, number, layer, 0) for layer in range(len(rules))]
        if name == TORCH:
            return lambda: sample_by_torch(*self.here, seeds, fanouts=[rule.fanout for rule in rules])[1]

        def run() -> int:
            made = self.of[name].sample(
                seeds, rules, keys, edge_ids=False, num_threads=threads, parallel_edges=self.may_repeat
            )
            return sum(made.num_sampled_edges)

        return run


def sampled(gpu: Gpu, prepare: Callable[[int], Callable[[], int]], number: int) -> Metrics:
    """Sample the batch of a round, and say how fast."""
    run, edges = prepare(number), list[int]()
    seconds = gpu.wall_seconds(lambda: edges.append(run()))
    return {"time": seconds * 1e3, "edge rate": edges[0] / seconds / 1e6, "edges": edges[0]}


def rule_records(gpu: Gpu, samplers: Samplers, rule: str, where: str, options: argparse.Namespace) -> list[Record]:
    """Measure all samplers by one rule, then launches of those on the GPU."""
    rules = [RULES[rule](fanout) for fanout in options.fanouts]
    threads = os.cpu_count() or 1
    case = f"{rule}, {where}, batch {options.batch_size}, fanouts {','.join(map(str, options.fanouts))}"
    names = [CPU, HERE, PINNED, *([TORCH] if rule == "NS" else [])]
    counts = {name: threads if name == CPU else 1 for name in names}
    prepare = {name: partial(samplers.prepared, gpu, name, rules, options.batch_size, counts[name]) for name in names}
    systems = [System(name, partial(sampled, gpu, prepare[name]), counts[name]) for name in names]
    gains = [
        Gain((ours, 1), other, metric)
        for ours, other in ((HERE, (CPU, threads)), (PINNED, (CPU, threads)), (HERE, (TORCH, 1)), (PINNED, (HERE, 1)))
        for metric in ("time", *(["edges"] if other[0] != TORCH else []))
    ]
    records = interleave(
        gpu.bench("sampling"), case, systems, rounds=options.rounds, gains=gains, warm_up=warm_up_rounds(options)
    )
    check_same_work(records, tolerance=0.0)
    for name in names[1:]:
        runs = [prepare[name](number) for number in range(options.rounds)]
        records += launch_records(gpu, case, name, [profiled(gpu, run) for run in runs])
    return records


def launch_records(gpu: Gpu, case: str, name: str, profiles: Sequence[Profile]) -> list[Record]:
    """Say how many kernels a batch has, and what launching them costs."""
    metrics = {
        "kernels": ("a batch", [float(one.kernels) for one in profiles]),
        "kernel time": ("ms", [one.busy * 1e3 for one in profiles]),
        "launch time": ("ms", [one.launching * 1e3 for one in profiles]),
        "time a launch": ("us", [one.launching / max(one.kernels, 1) * 1e6 for one in profiles]),
        "GPU busy": ("%", [100 * one.busy / one.wall for one in profiles]),
    }
    return [
        summarised(gpu.bench("sampling launches"), case, name, metric, unit, values, 1)
        for metric, (unit, values) in metrics.items()
    ]


def main(given: Sequence[str] | None = None) -> None:
    parser = gpu_arguments(__doc__, rounds=9)
    parser.add_argument("--shape", default="products", choices=sorted(SHAPES))
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10])
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=list(RULES))
    options = parser.parse_args(given)
    if options.smoke:
        options.batch_size, options.fanouts = 8, [3, 2]
    with gpu_of(options) as gpu:
        where, graph, _ = graph_of(gpu, options)
        print(f"graph {where}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, generated")
        torch.manual_seed(0)
        samplers = Samplers(gpu, graph)
        records = Measured(options.json)
        for rule in options.rules:
            records += rule_records(gpu, samplers, rule, where, options)


if __name__ == "__main__":
    main()
