"""Sampling and gathering: headrace's kernels beside GraphBolt's samplers and torch.index_select.

GraphBolt is measured when `make peers-graphbolt` has built its environment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import numpy as np
import torch
from graphs import SHAPES, cached_csc
from harness import Record, arguments, describe_machine, interleave, print_table, write_json
from worker import Worker

from headrace import ops

BENCH = Path(__file__).resolve().parent
GRAPHBOLT = BENCH.parent / ".venv-dgl/bin/python"
RULES: dict[str, Callable[[int], ops.Rule]] = {"neighbor": ops.NeighborRule, "labor": ops.LaborRule}

System = Callable[[int], Mapping[str, float]]


def seeds_of(number: int, num_nodes: int, batch_size: int) -> np.ndarray:
    """Return the unique seeds of a round, the same for every system."""
    return np.random.default_rng([1, number]).choice(num_nodes, batch_size, replace=False)


def sampling_metrics(seconds: float, edges: float, inputs: float) -> dict[str, float]:
    return {"time": seconds * 1e3, "edge rate": edges / seconds / 1e6, "edges": edges, "inputs": inputs}


def headrace_samples(
    number: int,
    *,
    sampler: ops.BlockSampler,
    rule: str,
    num_nodes: int,
    batch_size: int,
    fanouts: list[int],
    threads: int,
) -> Mapping[str, float]:
    seeds = torch.from_numpy(seeds_of(number, num_nodes, batch_size))
    rules = [RULES[rule](fanout) for fanout in fanouts]
    started = time.perf_counter()
    # GraphBolt is not asked for edge ids either.
    keys = [ops.stream_key(0, 0, number, layer, ops.rng.NEIGHBOR) for layer in range(len(fanouts))]
    sampled = sampler.sample(seeds, rules, keys, edge_ids=False, num_threads=threads)
    return sampling_metrics(time.perf_counter() - started, sum(sampled.num_sampled_edges), sampled.n_id.numel())


def graphbolt_samples(
    number: int, *, peer: Worker, rule: str, num_nodes: int, batch_size: int, fanouts: list[int], threads: int
) -> Mapping[str, float]:
    seeds = seeds_of(number, num_nodes, batch_size).tolist()
    return sampling_metrics(**peer.call("sample", rule=rule, seeds=seeds, fanouts=fanouts, threads=threads))


Gather = Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]


def headrace_gather(x: torch.Tensor, threads: int, ids: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    return ops.gather_rows(x, ids, out=out, num_threads=threads)


def torch_gather(x: torch.Tensor, ids: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    return torch.index_select(x, 0, ids, out=out)


def gathers(
    number: int, *, gather: Gather, batches: list[torch.Tensor], out: torch.Tensor | None
) -> Mapping[str, float]:
    ids = batches[number % len(batches)]
    into = None if out is None else out[: ids.numel()]
    started = time.perf_counter()
    rows = gather(ids, into)
    seconds = time.perf_counter() - started
    num_bytes = rows.numel() * rows.element_size()
    return {"time": seconds * 1e3, "row rate": num_bytes / seconds / 1e9, "inputs": ids.numel()}


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--shape", choices=SHAPES, default="small", help="generator graph (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10, 10], help="the hop next to the seeds first")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, len(os.sched_getaffinity(0))}))
    parser.add_argument("--feature-width", type=int, default=100, help="float32 columns (default: %(default)s)")
    options = parser.parse_args()

    folder = cached_csc(options.shape)
    indptr, indices = (torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("indptr", "indices"))
    num_nodes = indptr.numel() - 1
    sampler = ops.BlockSampler(indptr, indices)
    common = {"num_nodes": num_nodes, "batch_size": options.batch_size, "fanouts": options.fanouts}
    case = f"{options.shape}, batch {options.batch_size}, fanouts {','.join(map(str, options.fanouts))}"

    print(describe_machine(["headrace", "torch", "numpy"]))
    print(f"graph {options.shape}: {num_nodes:,} nodes, {indices.numel():,} edges, generated")
    records: list[Record] = []
    with ExitStack() as stack:
        peer = None
        if GRAPHBOLT.exists():
            peer = stack.enter_context(closing(Worker(GRAPHBOLT, BENCH / "peers/graphbolt.py")))
            print(f"GraphBolt: {peer.call('versions')}")
            peer.call("load", folder=str(folder))
        else:
            print("GraphBolt: not measured; `make peers-graphbolt` builds its environment")
        for rule in RULES:
            for threads in options.threads:
                settings = {**common, "rule": rule, "threads": threads}
                systems: dict[str, System] = {"headrace": partial(headrace_samples, sampler=sampler, **settings)}
                if peer is not None:
                    systems["GraphBolt"] = partial(graphbolt_samples, peer=peer, **settings)
                records += interleave("sampling", f"{rule}, {case}", systems, rounds=options.rounds, threads=threads)

    x = torch.rand(num_nodes, options.feature_width)
    rules = [ops.NeighborRule(fanout) for fanout in options.fanouts]
    batches = [
        sampler.sample(seeds_of(number, num_nodes, options.batch_size), rules, range(len(rules)), edge_ids=False).n_id
        for number in range(4)
    ]
    rows = f"{options.shape}, {options.feature_width} float32 a row"
    # Fresh memory costs page faults, which hide the gather itself; a loader that keeps its buffers pays neither.
    kept = torch.empty(max(ids.numel() for ids in batches), options.feature_width)
    for threads in options.threads:
        torch.set_num_threads(threads)
        for case, out in ((f"{rows}, fresh output", None), (f"{rows}, kept output", kept)):
            systems = {
                "headrace": partial(gathers, out=out, batches=batches, gather=partial(headrace_gather, x, threads)),
                "torch.index_select": partial(gathers, out=out, batches=batches, gather=partial(torch_gather, x)),
            }
            records += interleave("gathering", case, systems, rounds=options.rounds, threads=threads)

    print_table(records)
    write_json(options.json, records)


if __name__ == "__main__":
    main()
