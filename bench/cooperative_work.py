"""Work per batch, independent against cooperative at equal global batch: nodes, edges, rows, bytes and rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
import torch
from chung_lu import chung_lu_graph
from graphs import seeds_of
from harness import Record, summarised
from numpy.typing import NDArray
from published_cooperative import (
    COOPERATIVE,
    FIRST_HOP_RATIOS,
    INDEPENDENT,
    LABOR_0,
    NS,
    RATIOS,
    SEEDS_OF_RATIOS,
    WORK,
)
from twin import run_twin
from work import table

import headrace as hr

BENCH = "cooperative: work"
FANOUTS = [10, 10, 10]
OVER = f"{INDEPENDENT} over {COOPERATIVE}"
NODES, EDGES = ("|S0|", "|S1|", "|S2|", "|S3|"), ("|E0|", "|E1|", "|E2|")
Totals = dict[str, list[float]]


def samplers(graph: hr.Graph) -> dict[str, Callable[[Any], Any]]:
    """Return the ways from a plan of items to one with a sampler; LABOR is the published, Poisson form."""
    return {
        LABOR_0: lambda items: items.sample_layer_neighbor(graph, FANOUTS, exact=False, edge_ids=False),
        NS: lambda items: items.sample_neighbor(graph, FANOUTS, edge_ids=False),
    }


def counted(batch: hr.MiniBatch) -> dict[str, float]:
    """Return what one rank did for a batch: nodes behind each hop, edges of each, rows read and rows received."""
    nodes = dict(zip(NODES, np.cumsum(batch.num_sampled_nodes).tolist(), strict=True))
    edges = dict(zip(EDGES, batch.num_sampled_edges, strict=True))
    rows = len(batch.exchanges[0].owned) if batch.exchanges else len(batch.n_id)
    remote = batch.exchanges[0].num_received if batch.exchanges else 0
    return {**nodes, **edges, "rows": rows, "remote rows": remote}


def transferred(stats: Any) -> dict[str, float]:
    """Return the feature bytes read, the bytes received from other ranks, and the rounds, of a batch."""
    batches = stats["item_sampler"]["batches"]
    totals = {
        "feature bytes": "bytes",
        "received bytes": "sent_bytes",
        "rounds": "rounds",
        "collectives": "collectives",
    }
    return {name: stats.total(counter) / batches for name, counter in totals.items()}


def epoch(plan: Any, world_size: int, mode: str) -> Totals:
    """Run one epoch in one mode; return what each batch took, summed over ranks. Rounds are those of one rank."""

    def one_rank(comm: Any) -> tuple[list[dict[str, float]], dict[str, float]]:
        where = {"comm": comm} if mode == COOPERATIVE else {"rank": comm.rank, "world_size": world_size}
        cooperative = mode == COOPERATIVE
        with plan.loader(cooperative=cooperative, prefetch=False, num_threads=1, **where) as loader:
            batches = [counted(batch) for batch in loader]
            return batches, transferred(loader.stats())

    ranks = run_twin(world_size, one_rank)
    batches = [
        [sum(values) for values in zip(*(one.values() for one in same), strict=True)]
        for same in zip(*(batches for batches, _ in ranks), strict=True)
    ]
    totals = dict(zip(ranks[0][0][0], map(list, zip(*batches, strict=True)), strict=True))
    for name in ("feature bytes", "received bytes"):
        totals[name] = [sum(of_rank[name] for _, of_rank in ranks)]
    for name in ("rounds", "collectives"):
        totals[name] = [ranks[0][1][name]]
    return totals


_SCALES = {
    **dict.fromkeys((*NODES, *EDGES, "rows", "remote rows"), ("thousand", 1e3)),
    **dict.fromkeys(("feature bytes", "received bytes"), ("MB", 1e6)),
    **dict.fromkeys(("rounds", "collectives"), ("a batch", 1.0)),
}


def compared(sampler: str, modes: dict[str, Totals], world_size: int, per_rank: int) -> list[Record]:
    """Return the records of both modes and their ratios, over the simulated ones where there are any."""
    case = f"{sampler}, {world_size} ranks, {per_rank} seeds a rank"
    records = [
        summarised(BENCH, case, mode, metric, unit, [value / scale for value in totals[metric]], 1)
        for mode, totals in modes.items()
        for metric, (unit, scale) in _SCALES.items()
    ]
    for metric in (*NODES[1:], *EDGES[1:]):
        values = ratios(modes[INDEPENDENT][metric], modes[COOPERATIVE][metric])
        # A law about expectations: the ratio of the means stands for it, the ratios of single batches for its spread.
        records.append(Record(BENCH, case, OVER, f"{metric} ratio", "×", *values, len(modes[COOPERATIVE][metric]), 1))
        known = {"|S3|": RATIOS[sampler], "|S1|": FIRST_HOP_RATIOS}.get(metric, {}).get(world_size)
        if per_rank == SEEDS_OF_RATIOS and known is not None:
            mean, least, most = (value / known for value in values)
            metric_over, n = f"{metric} ratio over simulated", len(modes[COOPERATIVE][metric])
            records.append(Record(BENCH, case, OVER, metric_over, "×", mean, least, most, n, 1))
    return records


def ratios(own: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Return the ratio of the means, and the least and the largest of single batches."""
    single = [one / two for one, two in zip(own, other, strict=True)]
    return sum(own) / sum(other), min(single), max(single)


def work_records(world_sizes: Iterable[int], per_rank: int, batches: int) -> list[Record]:
    """Compare both modes at each number of ranks, with a fixed number of seeds for each rank."""
    graph = chung_lu_graph()
    store = hr.FeatureStore(node={"x": table(graph.num_nodes, 100)})
    records = []
    for sampler, sample in samplers(graph).items():
        for world_size in world_sizes:
            size = per_rank * world_size
            count = min(batches, graph.num_nodes // size)
            seeds = torch.from_numpy(seeds_of(world_size, np.arange(graph.num_nodes), size * count))
            plan = sample(hr.ItemSampler(seeds, batch_size=size, seed=0)).fetch_feature(store, node=["x"])
            modes = {mode: epoch(plan, world_size, mode) for mode in (INDEPENDENT, COOPERATIVE)}
            records += compared(sampler, modes, world_size, per_rank)
    return records


def law_records(batch_sizes: Sequence[int], batches: int) -> list[Record]:
    """Return |S3| a seed by the size of the batch, on one rank."""
    graph = chung_lu_graph()
    records = []
    for sampler, sample in samplers(graph).items():
        case = f"{sampler}, work by batch size"
        for size in batch_sizes:
            values = reached(sample, graph.num_nodes, size, batches) / size
            records.append(summarised(BENCH, case, f"batch {size}", "|S3| a seed", "nodes", values.tolist(), 1))
    return records


def reached(sample: Callable[[Any], Any], num_nodes: int, size: int, batches: int) -> NDArray[np.float64]:
    """Return |S3| of some batches of uniformly drawn seeds."""
    count = min(batches, num_nodes // size)
    seeds = torch.from_numpy(seeds_of(size, np.arange(num_nodes), size * count))
    loader = sample(hr.ItemSampler(seeds, batch_size=size, seed=0)).loader(num_threads=1, prefetch=False)
    return np.array([len(batch.n_id) for batch in islice(loader, count)], dtype=np.float64)


def is_non_increasing(values: Sequence[float]) -> bool:
    """Whether no value is above the one before it: what the work a seed must be, by batch size."""
    return all(later <= earlier for earlier, later in pairwise(values))


def is_concave(sizes: Sequence[float], values: Sequence[float]) -> bool:
    """Whether the slopes of a line through the points, which starts at the origin, never grow."""
    points = [(0.0, 0.0), *zip(sizes, values, strict=True)]
    slopes = [(later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in pairwise(points)]
    return is_non_increasing(slopes)


def print_work(records: Sequence[Record]) -> None:
    """Print the ratios beside the simulated ones, and whether the law holds."""
    print(f"\n{OVER}, at equal global batch; simulated in brackets; MB a batch, summed over ranks")
    header = (*(f"{name} ratio" for name in (*NODES[1:], *EDGES[1:])), "features", "features", "received", "rounds")
    print(f"{'':36}" + "".join(f"{column:>14}" for column in header))
    for case in dict.fromkeys(record.case for record in records if record.metric == "|S3| ratio"):
        found = {(r.system, r.metric): r.median for r in records if r.case == case}
        cells = []
        for metric in (*NODES[1:], *EDGES[1:]):
            ratio = found[OVER, f"{metric} ratio"]
            over = found.get((OVER, f"{metric} ratio over simulated"))
            cells.append(f"{ratio:.2f}" + ("" if over is None else f" ({ratio / over:.2f})"))
        cells += [f"{found[mode, 'feature bytes']:.1f}" for mode in (INDEPENDENT, COOPERATIVE)]
        cells += [f"{found[COOPERATIVE, metric]:.4g}" for metric in ("received bytes", "rounds")]
        print(f"{case:36}" + "".join(f"{cell:>14}" for cell in cells))
    for case in dict.fromkeys(record.case for record in records if record.metric == "|S3| a seed"):
        sampler = case.split(",")[0]
        line = {int(r.system.split()[1]): r.median for r in records if (r.case, r.metric) == (case, "|S3| a seed")}
        cells = [f"{size}: {value:.4g} ({WORK[sampler].get(size, float('nan')):g})" for size, value in line.items()]
        print(f"{case}, |S3| a seed (simulated): " + ", ".join(cells))
        concave = is_concave(list(line), [size * value for size, value in line.items()])
        print(f"  non-increasing: {is_non_increasing(list(line.values()))}; |S3| concave: {concave}")
