"""What leaving the edges of the seeds out of their neighbourhoods costs: batches of links, with and without it.

1,024 edges of the graph a batch, both their ends as seeds, and the edges back left out as well; by the fused sampler,
whose time is compared, and with it the time to find the edges, as loaders do.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import torch
from graphs import SHAPES, cached_csc, cached_weights
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    add_threads,
    arguments,
    describe_machine,
    in_succession,
    interleave,
    print_table,
    write_json,
)

import headrace as hr
from headrace.ops import BlockSampler, LaborRule, NeighborRule, find_edges, stream_key, unique_and_inverse
from headrace.ops.random.rng import NEIGHBOR
from headrace.ops.sampling.rules import Rule

BATCH, FANOUTS = 1_024, (10, 10, 10)
PLAIN, EXCLUDING = "all edges", "without those of seeds"
RULES: dict[str, type[NeighborRule | LaborRule]] = {"neighbour": NeighborRule, "LABOR": LaborRule}


def pairs_of(graph: hr.Graph, number: int) -> torch.Tensor:
    """Return edges of the graph, int64[BATCH, 2]."""
    positions = torch.from_numpy(np.random.default_rng([3, number]).integers(0, graph.num_edges, BATCH))
    ends = torch.searchsorted(graph.indptr, positions, right=True) - 1
    return torch.stack([graph.indices[positions].long(), ends], 1)


def sampled(
    number: int, *, graph: hr.Graph, sampler: BlockSampler, rules: list[Rule], excludes: bool, threads: int
) -> Metrics:
    """Time one batch."""
    pairs = pairs_of(graph, number)
    seeds, _ = unique_and_inverse(pairs.flatten())
    keys = [stream_key(0, 0, number, layer, NEIGHBOR) for layer in range(len(rules))]
    started = time.perf_counter()
    excluded = None
    if excludes:
        ends = torch.cat([pairs, pairs.flip(1)])
        excluded = find_edges(graph.indptr, graph.indices, ends[:, 0], ends[:, 1], num_threads=threads)
    found = sampler.sample(seeds, rules, keys, excluded=excluded, num_threads=threads)
    seconds = time.perf_counter() - started
    edges = float(sum(found.num_sampled_edges))
    return {"time": seconds * 1e3, "edges": edges}


def case(name: str, threads: list[int], rounds: int) -> list[Record]:
    """Measure each rule on a graph, uniformly and by weight."""
    folder = cached_csc(name)
    indptr, indices = (np.load(folder / f"{part}.npy", mmap_mode="r") for part in ("indptr", "indices"))
    graph = hr.Graph.from_csc(indptr, indices)
    weights = np.load(cached_weights(name))
    samplers = {
        "": BlockSampler(graph.indptr, graph.indices),
        ", by weight": BlockSampler(graph.indptr, graph.indices, None, weights),
    }
    records: list[Record] = []
    for rule, kind in RULES.items():
        for how, sampler in samplers.items():
            rules: list[Rule] = [kind(fanout) for fanout in FANOUTS]
            systems = [
                in_succession(
                    System(
                        label,
                        partial(sampled, graph=graph, sampler=sampler, rules=rules, excludes=excludes, threads=one),
                        one,
                    )
                )
                for label, excludes in ((PLAIN, False), (EXCLUDING, True))
                for one in threads
            ]
            gains = [Gain((PLAIN, one), (EXCLUDING, one)) for one in threads]
            label = f"{name}, {rule}{how}, {BATCH} pairs, fanouts {','.join(map(str, FANOUTS))}"
            records += interleave("exclusion", label, systems, rounds=rounds, gains=gains)
    return records


def main() -> None:
    parser = arguments(__doc__ or "")
    add_threads(parser)
    parser.add_argument("--shape", choices=SHAPES, default="products", help="which graph (default: %(default)s)")
    options = parser.parse_args()
    print(describe_machine(["headrace", "torch", "numpy"]))
    records = case(options.shape, options.threads, options.rounds)
    print_table(records)
    write_json(options.json, records)


if __name__ == "__main__":
    main()
