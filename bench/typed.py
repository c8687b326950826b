"""Types and times: headrace beside GraphBolt's hetero and temporal samplers, and beside itself without types.

A graph of 8 relations and 24 M edges (`academic_graph`), 1,024 seeds of one type, a fanout for each relation. Three
questions, in cases of their own:

- types: a minibatch of all relations beside GraphBolt's, and beside one of as many edges from the same graph without
  types. GraphBolt returns a graph of each relation, ours makes those when asked, so it is measured with and without;
  ours has edge ids always, by which relations are known, so both are measured with and without them.
- times: trees of edges no later than their seeds, by relation. GraphBolt keeps each repeated node apart, and takes
  edges that are strictly earlier: edges a second compare.
- exclusion: links, with and without the edges between them.

(The file cannot be called types.py: scripts here import what lies beside them, before the standard library's `types`.)
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import exclusion
import numpy as np
import torch
from academic_graph import SEEDS, cached_academic, edge_types, read_academic
from environments import GRAPHBOLT, open_peers
from graphs import seeds_of
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
from plot import draw_bars
from sampling import sampling_metrics
from worker import Worker

import headrace as hr
from headrace.ops import BlockSampler, ByRelation, NeighborRule, Sampled, Trees, stream_key
from headrace.ops.random.rng import NEIGHBOR
from headrace.ops.sampling.rules import HopRule, Rule
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.graph_machinery import block_sampler, typed_rows_of
from headrace.pipeline.data.graph_types import typed_ids

OURS, BY_RELATION, UNTYPED = "headrace", "headrace, blocks by relation", "headrace, no types"
WITH_IDS, WITHOUT_IDS = f"{GRAPHBOLT}, edge ids", "headrace, no edge ids"
BATCH, FANOUTS = 1_024, (10, 10)
#: Seeds that the fanouts without types are fitted with.
FITTED = 1 << 20


def metrics(seconds: float, edges: float, inputs: float) -> Metrics:
    return {**sampling_metrics(seconds, edges, inputs), "edge cost": seconds / edges * 1e9}


class Batches:
    """The seeds of a round, and how to sample for them."""

    def __init__(self, graph: hr.Graph, batch_size: int) -> None:
        assert graph.node_types is not None
        papers = graph.node_types.id_range(SEEDS)
        self.graph = graph
        self.first, self.batch_size = papers.start, batch_size
        self.papers = np.arange(papers.start, papers.stop)

    def seeds(self, number: int) -> torch.Tensor:
        return torch.from_numpy(seeds_of(number, self.papers, self.batch_size))

    def local(self, number: int) -> list[int]:
        """Return the seeds as they count within their type."""
        seeds: list[int] = (self.seeds(number) - self.first).tolist()
        return seeds

    def times(self, number: int) -> torch.Tensor:
        """Return the time of each seed: one of the edges'."""
        edges = np.random.default_rng([2, number]).integers(0, self.graph.num_edges, self.batch_size)
        return self.graph.edge_attrs_csc["time"][torch.from_numpy(edges)]


def sampled(
    sampler: BlockSampler,
    seeds: torch.Tensor,
    rules: list[HopRule],
    number: int,
    threads: int,
    trees: Trees | None = None,
    edge_ids: bool = True,
) -> Sampled:
    keys = [stream_key(0, 0, number, layer, NEIGHBOR) for layer in range(len(rules))]
    return sampler.sample(seeds, rules, keys, num_threads=threads, trees=trees, edge_ids=edge_ids)


def ours(
    number: int,
    *,
    batches: Batches,
    sampler: BlockSampler,
    rules: list[HopRule],
    threads: int,
    split: bool = False,
    edge_ids: bool = True,
) -> Metrics:
    seeds = batches.seeds(number)
    torch.set_num_threads(threads)
    started = time.perf_counter()
    found = sampled(sampler, seeds, rules, number, threads, edge_ids=edge_ids)
    if split:
        split_by_relation(batches.graph, found)
    seconds = time.perf_counter() - started
    return metrics(seconds, sum(found.num_sampled_edges), found.n_id.numel())


def split_by_relation(graph: hr.Graph, found: Sampled) -> None:
    """Make a graph of each relation of each hop, in ids within types, as `batch.blocks` does when asked."""
    types = typed_ids(graph, found.n_id)
    assert types is not None
    for hop in found.hops:
        assert hop.edge_ids is not None
        block = Block(
            indptr=hop.indptr,
            indices=hop.indices,
            num_src=hop.num_src,
            num_dst=hop.num_dst,
            edge_ids=hop.edge_ids,
            types=types.first(hop.num_src),
        )
        for name in types.edge_types.names:
            block.relation(name)


def trees_of_ours(
    number: int, *, batches: Batches, sampler: BlockSampler, rules: list[HopRule], threads: int
) -> Metrics:
    seeds, times = batches.seeds(number), batches.times(number)
    started = time.perf_counter()
    trees = Trees(torch.arange(len(seeds)), len(seeds), bounds=times)
    found = sampled(sampler, seeds, rules, number, threads, trees)
    return metrics(time.perf_counter() - started, sum(found.num_sampled_edges), found.n_id.numel())


def graphbolts(
    number: int, *, peer: Worker, batches: Batches, fanouts: list[int], timed: bool, edge_ids: bool, threads: int
) -> Metrics:
    asked = {"fanouts": fanouts, "edge_ids": edge_ids, "threads": threads}
    times = batches.times(number).tolist() if timed else None
    answer = peer.call("sample_typed", of_type=SEEDS, seeds=batches.local(number), times=times, **asked)
    return metrics(**answer)


def fitted(batches: Batches, typed: BlockSampler, untyped: BlockSampler, rules: list[HopRule]) -> list[int]:
    """Return fanouts that pick about as many edges without types as rules do with them, hop by hop."""
    seeds, fanouts = batches.seeds(FITTED), list[int]()
    wanted = sampled(typed, seeds, rules, FITTED, 1).num_sampled_edges
    for number in wanted:
        tried = range(1, 200)
        low, high = 0, len(tried) - 1
        while low < high:
            middle = (low + high) // 2
            hops: list[HopRule] = [NeighborRule(one) for one in (*fanouts, tried[middle])]
            enough = sampled(untyped, seeds, hops, FITTED, 1).num_sampled_edges[-1] >= number
            low, high = (low, middle) if enough else (middle + 1, high)
        fanouts.append(tried[low])
    return fanouts


def typed_records(
    case: str, batches: Batches, peers: dict[str, Worker], fanouts: list[int], threads: list[int], rounds: int
) -> list[Record]:
    typed, untyped = block_sampler(batches.graph), block_sampler(batches.graph.untyped())
    rules: list[HopRule] = [ByRelation((NeighborRule(fanout),) * len(edge_types())) for fanout in fanouts]
    alike = fitted(batches, typed, untyped, rules)
    print(f"without types, fanouts {','.join(map(str, alike))} give as many edges")
    without: list[HopRule] = [NeighborRule(fanout) for fanout in alike]
    systems = []
    for count in threads:
        run = partial(ours, batches=batches, sampler=typed, rules=rules, threads=count)
        systems += [System(OURS, run, count), System(BY_RELATION, partial(run, split=True), count)]
        systems.append(System(WITHOUT_IDS, partial(run, edge_ids=False), count))
        systems.append(System(UNTYPED, partial(run, sampler=untyped, rules=without), count))
        if GRAPHBOLT in peers:
            peer = partial(graphbolts, peer=peers[GRAPHBOLT], batches=batches, fanouts=fanouts, timed=False)
            for name, edge_ids in ((GRAPHBOLT, False), (WITH_IDS, True)):
                systems.append(System(name, partial(peer, edge_ids=edge_ids, threads=count), count))
    pairs = [(name, peer) for name in (OURS, BY_RELATION) for peer in (GRAPHBOLT, WITH_IDS)]
    same_work = [
        Gain((name, count), (peer, count), metric)
        for count in threads
        for name, peer in [*pairs, (WITHOUT_IDS, GRAPHBOLT)]
        for metric in ("edge rate", "edges", "inputs")
    ]
    # A cost's gain is the other's over its own: that of types in what it is without.
    cost = [Gain((UNTYPED, count), (OURS, count), "edge cost") for count in threads]
    turns = [in_succession(system) for system in systems]
    return interleave("types", f"types, {case}", turns, rounds=rounds, gains=[*same_work, *cost], warm_up=1)


def temporal_records(
    case: str, batches: Batches, peers: dict[str, Worker], fanouts: list[int], threads: list[int], rounds: int
) -> list[Record]:
    sampler = block_sampler(batches.graph.by_time("time"))
    rules: list[HopRule] = [ByRelation((NeighborRule(fanout),) * len(edge_types())) for fanout in fanouts]
    systems = []
    for count in threads:
        run = partial(trees_of_ours, batches=batches, sampler=sampler, rules=rules, threads=count)
        systems.append(System(OURS, run, count))
        if GRAPHBOLT in peers:
            peer = partial(graphbolts, peer=peers[GRAPHBOLT], batches=batches, fanouts=fanouts, timed=True)
            systems.append(System(GRAPHBOLT, partial(peer, edge_ids=False, threads=count), count))
    gains = [Gain((OURS, count), (GRAPHBOLT, count), "edge rate") for count in threads]
    turns = [in_succession(system) for system in systems]
    return interleave("types", f"times, {case}", turns, rounds=rounds, gains=gains, warm_up=1)


def exclusion_records(graph: hr.Graph, fanouts: list[int], threads: list[int], rounds: int) -> list[Record]:
    """Compare batches of links with and without the edges between them, types left aside."""
    sampler = block_sampler(graph)
    rules: list[Rule] = [NeighborRule(fanout) for fanout in fanouts]
    systems = [
        in_succession(
            System(
                name,
                partial(exclusion.sampled, graph=graph, sampler=sampler, rules=rules, excludes=excludes, threads=count),
                count,
            )
        )
        for name, excludes in ((exclusion.PLAIN, False), (exclusion.EXCLUDING, True))
        for count in threads
    ]
    gains = [Gain((exclusion.PLAIN, count), (exclusion.EXCLUDING, count)) for count in threads]
    case = f"exclusion, {exclusion.BATCH} pairs, fanouts {','.join(map(str, fanouts))}"
    return interleave("types", case, systems, rounds=rounds, gains=gains, warm_up=1)


def typed_rows_record(folder: Path, rounds: int) -> list[Record]:
    """Time what a graph with types finds out once."""

    def run(_: int) -> Metrics:
        graph = read_academic(folder)
        started = time.perf_counter()
        _rows = typed_rows_of(graph)
        return {"time": (time.perf_counter() - started) * 1e3}

    return interleave("types", "rows of the graph, once", [System(OURS, run)], rounds=rounds, warm_up=0)


def main() -> None:
    parser = arguments(__doc__ or "")
    add_threads(parser)
    parser.add_argument("--scale", type=float, default=1, help="share of the graph's sizes (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=BATCH)
    parser.add_argument(
        "--fanouts", type=int, nargs="+", default=FANOUTS, help="for each relation, the hop next to the seeds first"
    )
    options = parser.parse_args()

    folder, fanouts, threads, rounds = (
        cached_academic(options.scale),
        [*options.fanouts],
        options.threads,
        options.rounds,
    )
    graph = read_academic(folder)
    batches = Batches(graph, options.batch_size)
    case = f"batch {options.batch_size}, fanouts {','.join(map(str, fanouts))}"

    print(describe_machine(["headrace", "torch", "numpy"]))
    print(f"{graph.num_nodes:,} nodes of 4 types, {graph.num_edges:,} edges of 8, generated")
    with ExitStack() as stack:
        types = json.loads((folder / "types.json").read_text())
        peers = open_peers(stack, [GRAPHBOLT], folder=str(folder), types=types)
        records = [
            *typed_records(case, batches, peers, fanouts, threads, rounds),
            *temporal_records(case, batches, peers, fanouts, threads, rounds),
            *exclusion_records(graph.untyped(), fanouts, threads, rounds),
            *exclusion_records(graph.untyped(), [*exclusion.FANOUTS], threads, rounds),
            *typed_rows_record(folder, min(rounds, 3)),
        ]
    print_table(records)
    write_json(options.json, records)
    draw_bars(options.plot, records, "edge rate")
    check_same_work(records, tolerance=0.03)


if __name__ == "__main__":
    main()
