"""Rows fetched past a cache, independent against cooperative: every rank has a cache of the same size in both modes.

Independent ranks keep the same popular rows; cooperating ones each keep rows of their own nodes, so that their
caches add up (arXiv 2310.12403).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from cooperative_work import OVER, samplers
from graphs import SHAPES, cached_csc, cached_train, seeds_of
from harness import Record, summarised
from published_cooperative import COOPERATIVE, INDEPENDENT
from row_cache import RowCache
from twin import run_twin

import headrace as hr

BENCH = "cooperative: cache"


def misses(plan: Any, world_size: int, mode: str, capacity: int, num_nodes: int) -> list[tuple[int, int]]:
    """Return, batch by batch, the rows that all ranks need and those of them that are past their caches."""

    def one_rank(comm: Any) -> list[tuple[int, int]]:
        cache = RowCache(capacity, num_nodes)
        where = {"comm": comm} if mode == COOPERATIVE else {"rank": comm.rank, "world_size": world_size}
        cooperative = mode == COOPERATIVE
        counts = []
        with plan.loader(cooperative=cooperative, prefetch=False, num_threads=1, **where) as loader:
            for batch in loader:
                rows = (batch.exchanges[0].owned if batch.exchanges else batch.n_id).numpy()
                counts.append((len(rows), cache.read(rows)))
        return counts

    ranks = run_twin(world_size, one_rank)
    return [(sum(rows for rows, _ in same), sum(missed for _, missed in same)) for same in zip(*ranks, strict=True)]


def cache_records(shape: str, world_size: int, per_rank: int, capacity: int, batches: int) -> list[Record]:
    """Compare both modes; the first half of the batches fills the caches and is not counted."""
    folder = cached_csc(shape)
    graph = hr.Graph.from_csc(*(torch.from_numpy(np.load(folder / f"{part}.npy")) for part in ("indptr", "indices")))
    train, size = cached_train(shape), per_rank * world_size
    count = min(2 * batches, len(train) // size)
    seeds = torch.from_numpy(seeds_of(0, train, size * count))
    records = []
    for sampler, sample in samplers(graph).items():
        case = f"{shape}, {sampler}, {world_size} ranks, {per_rank} seeds and {capacity:,} cached rows a rank"
        found = {}
        for mode in (INDEPENDENT, COOPERATIVE):
            plan = sample(hr.ItemSampler(seeds, batch_size=size, seed=0))
            counts = misses(plan, world_size, mode, capacity, graph.num_nodes)[count // 2 :]
            needed, missed = (np.array(values, dtype=np.float64) for values in zip(*counts, strict=True))
            found[mode] = (needed, missed)
            measured = (
                ("rows", "thousand", needed / 1e3),
                ("rows past the cache", "thousand", missed / 1e3),
                ("miss rate", "%", 100 * missed / needed),
            )
            records += [
                summarised(BENCH, case, mode, metric, unit, values.tolist(), 1) for metric, unit, values in measured
            ]
        for metric, place in (("rows", 0), ("rows past the cache", 1)):
            ratios = found[INDEPENDENT][place] / found[COOPERATIVE][place]
            records.append(summarised(BENCH, case, OVER, f"{metric} ratio", "×", ratios.tolist(), 1))
    return records


def describe_cache(shape: str, capacity: int) -> str:
    """Say how large the caches are beside the graph."""
    num_nodes = SHAPES[shape].num_nodes
    return f"graph {shape}: {num_nodes:,} nodes, generated; a cache holds {capacity / num_nodes:.1%} of their rows"


def print_cache(records: Sequence[Record]) -> None:
    """Print needed and missed rows of both modes, and the ratio."""
    for case in dict.fromkeys(record.case for record in records):
        found = {(r.system, r.metric): r for r in records if r.case == case}
        print(f"\n{case}; thousands a batch, summed over ranks")
        for mode in (INDEPENDENT, COOPERATIVE):
            needed, missed, rate = (found[mode, name] for name in ("rows", "rows past the cache", "miss rate"))
            print(f"  {mode:12} {needed.median:9.1f} rows, {missed.median:9.1f} past the cache, {rate.median:5.1f} %")
        ratio = found[OVER, "rows past the cache ratio"]
        print(f"  rows past the cache, {OVER}: {ratio.median:.2f} ({ratio.min:.2f} to {ratio.max:.2f})")
