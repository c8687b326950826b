"""A cost model of loading projects papers100M and a trillion edges for up to 1,024 ranks.

Work is counted by headrace on a Chung-Lu graph of the same mean degree and fewer nodes (counted_work.py), kernel
rates are measured on this machine, and the bandwidths are the published ones (cost_model.py has the formulas, all of
them). Where run times are published they stand beside the model's, so that its errors can be seen; forward and
backward passes are in neither.

Assumed, besides what cost_model.py says: seeds drawn uniformly, ownership by hash, caches in which the least recently
used row makes room, one latency for every collective, and a network as fast for all ranks at once as for two. Known to
be wrong: a Chung-Lu graph has the published skew but no communities, so the batches of ranks overlap less than in the
data set, and cooperation gains less here than published; GPUs sample at other rates than the processor measured here,
and the rates that the published times imply are printed instead of being put in.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from chung_lu import chung_lu_graph
from cooperative_work import samplers
from cost_model import Cost, Rates, cost, rates_of
from counted_work import Scaled, Work, count
from harness import Record, arguments, describe_machine, summarised, write_json
from plot import draw_lines
from published_cooperative import (
    COOPERATIVE,
    HARDWARE,
    INDEPENDENT,
    LABOR_0,
    NS,
    RUN_TIMES,
    SYSTEM_MEMORY,
)
from work import table

import headrace as hr
from headrace import ops

MODES, SAMPLERS = (INDEPENDENT, COOPERATIVE), (LABOR_0, NS)
# Of ranks that sample on processors: rows are gathered by the kernel, and nothing is cached.
CPU, GPU = "machines like this one", "machines of 8 A100"
GPUS_A_MACHINE, MACHINE = 8, HARDWARE[1]
PER_RANK = 1024
WIDTH = 128


@dataclass(frozen=True)
class Workload:
    """A graph that is projected.

    Parameters
    ----------
    name, num_nodes, num_edges
        Its name and sizes.
    hot_share
        The share of the edges that the most popular hundredth of its nodes has, from which the exponent follows.
    train_share
        The share of its nodes that are seeds.
    capacity
        Cached rows a GPU.
    """

    name: str
    num_nodes: float
    num_edges: float
    hot_share: float
    train_share: float
    capacity: int

    @property
    def mean_degree(self) -> float:
        return self.num_edges / self.num_nodes

    @property
    def exponent(self) -> float:
        """Return that of the Chung-Lu graph with this share: 0.01 ** (1 - exponent)."""
        return round(1 - math.log(self.hot_share) / math.log(0.01), 3)

    @property
    def feature_bytes(self) -> float:
        return self.num_nodes * WIDTH * 4


# The skew of papers100M is that published with data tiering (arXiv 2111.05894), the rest with the run times. A trillion
# edges are taken with its mean degree, skew, features, cache and share of seeds.
WORKLOADS = (
    Workload("papers100M", 111e6, 3.2e9, 0.32, 0.0109, 2_000_000),
    Workload("trillion edges", 1e12 * 111e6 / 3.2e9, 1e12, 0.32, 0.0109, 2_000_000),
)

Counter = Callable[[Workload, str, str, int, int, int], Work]


def counter(num_nodes: int, kept: dict[str, dict[str, float]]) -> Counter:
    """Return a function that counts the work of a workload on a graph of `num_nodes` nodes, each case once."""
    graphs: dict[tuple[float, float], hr.Graph] = {}

    def counted(workload: Workload, sampler: str, mode: str, world_size: int, per_rank: int, capacity: int) -> Work:
        if mode == INDEPENDENT:
            world_size = 1  # what a rank does by itself does not depend on the others
        law = f"{workload.mean_degree:.4g}, {workload.exponent}, {num_nodes}"
        key = f"{workload.name}, {sampler}, {mode}, {world_size} x {per_rank}, cache {capacity}, on {law}"
        if key not in kept:
            of = workload.mean_degree, workload.exponent
            if of not in graphs:
                graphs[of] = chung_lu_graph(num_nodes, *of)
            scaled = Scaled(graphs[of], workload.num_nodes / num_nodes, workload.train_share)
            kept[key] = asdict(count(scaled, sampler, mode, world_size, per_rank, capacity))
        return Work(**kept[key])  # type: ignore[arg-type]

    return counted


def measured_rates(graph: hr.Graph, threads: int, rounds: int) -> dict[str, list[float]]:
    """Return sampled edges a second with each sampler, and gathered bytes a second, round by round.

    Seconds are of the processor, over the threads: whoever else uses the machine is not counted.
    """
    seeds = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))[: PER_RANK * (rounds + 2)]
    x = table(graph.num_nodes, WIDTH)
    ops.use_huge_pages(x)
    rates: dict[str, list[float]] = {name: [] for name in (*SAMPLERS, "gather")}
    for name, sample in samplers(graph).items():
        loader = sample(hr.ItemSampler(seeds, batch_size=PER_RANK, seed=0)).loader(num_threads=threads, prefetch=False)
        batches = iter(loader)
        next(batches)
        for _ in range(rounds):
            started = time.process_time()
            batch = next(batches)
            sampled = time.process_time()
            gathered = ops.gather_rows(x, batch.n_id, num_threads=threads)
            copied = time.process_time()
            rates[name].append(sum(batch.num_sampled_edges) / (sampled - started) * threads)
            rates["gather"].append(gathered.nbytes / (copied - sampled) * threads)
    return rates


def middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def published_records(counted: Counter, edge_rates: dict[str, float], latency: float, threads: int) -> list[Record]:
    """Return the model's times of papers100M on the published hardware, and the published ones."""
    bench, workload = "projection: published", WORKLOADS[0]
    records = []
    for hardware in HARDWARE:
        size, per_rank = hardware.num_gpus, hardware.seeds // hardware.num_gpus
        for sampler in SAMPLERS:
            case = f"{workload.name}, {hardware.name}, {sampler}"
            loading: dict[str, dict[str, tuple[float, float]]] = {}
            for mode in MODES:
                rates = rates_of(hardware, edge_rates[sampler], float("inf"), latency, size)
                bare, cached = (
                    counted(workload, sampler, mode, size, per_rank, rows) for rows in (0, workload.capacity)
                )
                costs = [cost(work, rates, size, 4 * WIDTH, features_on_each_machine=True) for work in (bare, cached)]
                published = RUN_TIMES[hardware.name, sampler, mode]
                model = (costs[1].sampling, costs[0].copying, costs[1].copying)
                for system, measured in (
                    (mode, [1e3 * seconds for seconds in model]),
                    (f"{mode}, published", [published.sampling, published.copy, published.cached_copy]),
                ):
                    for metric, value in zip(("sampling", "copy", "cached copy"), measured, strict=True):
                        records.append(summarised(bench, case, system, metric, "ms", [value], threads))
                implied = bare.edges / published.sampling * 1e3
                fetched = cached.missed * 4 * WIDTH / published.cached_copy * 1e3
                for metric, value, unit in (
                    ("edges", bare.edges / 1e3, "thousand"),
                    ("rows", bare.rows / 1e3, "thousand"),
                    ("rows past the cache", cached.missed / 1e3, "thousand"),
                    ("edge rate that the published time implies", implied / 1e6, "M edges/s"),
                    ("host bandwidth that the published time implies", fetched / 1e9, "GB/s"),
                ):
                    records.append(summarised(bench, case, mode, metric, unit, [value], threads))
                loading[mode] = {
                    "time gain of loading": (costs[1].total, published.sampling + published.cached_copy),
                    "time gain of the copy": (costs[0].copying, published.copy),
                    "time gain of the cached copy": (costs[1].copying, published.cached_copy),
                }
            for metric, times_of in loading[INDEPENDENT].items():
                for place, system in enumerate(("model", "published")):
                    gain = times_of[place] / loading[COOPERATIVE][metric][place]
                    name = f"{COOPERATIVE} over {INDEPENDENT}, {system}"
                    records.append(summarised(bench, case, name, metric, "×", [gain], threads))
    return records


def scaling_cases(edge_rates: dict[str, float], gather: float, options: Any) -> list[tuple[str, Rates, bool]]:
    """Return the machines that are projected: a name, the rates of a rank, and whether it has a cache."""
    cases = []
    for network in options.networks:
        link = network * 1e9 / 8
        gpu = rates_of(MACHINE, edge_rates[LABOR_0], link, options.latency * 1e-6, GPUS_A_MACHINE)
        cases.append((f"{GPU}, {network:g} Gb/s a GPU", gpu, True))
        cpu = Rates(edge_rates[LABOR_0], gather, gather, link, link, 1, options.latency * 1e-6)  # a rank is a machine
        cases.append((f"{CPU}, {network:g} Gb/s", cpu, False))
    return cases


def scaling_records(counted: Counter, cases: list[tuple[str, Rates, bool]], options: Any) -> list[Record]:
    """Return the model's time of a batch and of an epoch by the number of ranks, with LABOR-0."""
    records = []
    for workload in WORKLOADS:
        fits = workload.feature_bytes <= SYSTEM_MEMORY
        for world_size in options.ranks:
            if workload.num_nodes / options.nodes > PER_RANK * world_size:
                print(f"{workload.name}, {world_size} ranks: left out, the scaled batch would have less than a seed")
                continue
            for machine, rates, has_cache in cases:
                case, ranks = f"{workload.name}, {machine}", f"{world_size} ranks"
                costs: dict[str, Cost] = {}
                for mode in MODES:
                    work = counted(workload, LABOR_0, mode, world_size, PER_RANK, workload.capacity if has_cache else 0)
                    costs[mode] = cost(work, rates, world_size, 4 * WIDTH, features_on_each_machine=fits)
                    batches = max(1.0, workload.train_share * workload.num_nodes / PER_RANK / world_size)
                    for metric, value, unit in (
                        ("sampling", 1e3 * costs[mode].sampling, "ms"),
                        ("cached copy" if has_cache else "copy", 1e3 * costs[mode].copying, "ms"),
                        ("epoch", batches * costs[mode].total, "s"),
                        ("rows", work.rows / 1e3, "thousand"),
                        ("rows past the cache", work.missed / 1e3, "thousand"),
                        ("rows from other ranks", work.remote / 1e3, "thousand"),
                    ):
                        records.append(summarised("projection", case, f"{mode}, {ranks}", metric, unit, [value], 1))
                gain = costs[INDEPENDENT].total / costs[COOPERATIVE].total
                name = f"{COOPERATIVE} over {INDEPENDENT}, {ranks}"
                records.append(summarised("projection", case, name, "time gain of loading", "×", [gain], 1))
    return records


def print_published(records: Sequence[Record]) -> None:
    print("\nms a batch; published in brackets (the copy with a cache of 2 million rows a GPU, without forward and")
    print("backward); the last two columns: what the published times imply of the counted work")
    columns = ("sampling", "copy", "cached copy")
    implied = ("edge rate that the published time implies", "host bandwidth that the published time implies")
    print(f"{'':40}" + "".join(f"{column:>16}" for column in (*columns, "M edges/s", "GB/s from host")))
    for case in dict.fromkeys(record.case for record in records):
        found = {(r.system, r.metric): r.median for r in records if r.case == case}
        for mode in MODES:
            cells = [f"{found[mode, c]:.1f} ({found[f'{mode}, published', c]:g})" for c in columns]
            cells += [f"{found[mode, metric]:.1f}" for metric in implied]
            name = f"{case.removeprefix('papers100M, ')}, {mode}"
            print(f"{name:40}" + "".join(f"{cell:>16}" for cell in cells))
        who = [f"{COOPERATIVE} over {INDEPENDENT}, {system}" for system in ("model", "published")]
        shown = [
            f"{part} {found[who[0], f'time gain of {part}']:.2f} ({found[who[1], f'time gain of {part}']:.2f})"
            for part in ("the copy", "the cached copy", "loading")
        ]
        print(f"{'':40}  gain of {', '.join(shown)}")


def print_scaling(records: Sequence[Record]) -> None:
    print("\nmodel, LABOR-0, 1024 seeds a rank: ms a batch, sampling + copying; seconds an epoch")
    found = {(r.case, r.system, r.metric): r.median for r in records}
    for case, ranks, _ in gains(records):
        cells = []
        for mode in MODES:
            own = {
                metric: value
                for (c, system, metric), value in found.items()
                if (c, system) == (case, f"{mode}, {ranks}")
            }
            copying = own.get("cached copy", own.get("copy", 0.0))
            cells.append(f"{mode} {own['sampling']:.1f} + {copying:.1f}, {own['epoch']:.3g} s")
        gain = found[case, f"{COOPERATIVE} over {INDEPENDENT}, {ranks}", "time gain of loading"]
        print(f"{f'{case}, {ranks}':66} {'; '.join(cells)}; gain {gain:.2f}")


def gains(records: Sequence[Record]) -> list[tuple[str, str, Record]]:
    """Return the records of gains, each with its case and its number of ranks in words."""
    chosen = [record for record in records if record.metric == "time gain of loading"]
    return [(record.case, record.system.rsplit(", ", 1)[1], record) for record in chosen]


def points(records: Sequence[Record], workload: str) -> list[tuple[float, Record]]:
    """Return the gains of a workload by the number of ranks."""
    return [
        (float(ranks.split()[0]), replace(record, system=case.removeprefix(f"{workload}, ")))
        for case, ranks, record in gains(records)
        if case.startswith(f"{workload}, ")
    ]


def main() -> None:
    parser = arguments(__doc__ or "", rounds=9)
    parser.add_argument("--nodes", type=int, default=2_220_000, help="of the scaled graph (default: %(default)s)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 4, 16, 64, 256, 1024])
    parser.add_argument("--networks", type=float, nargs="+", default=[10, 100], help="Gb/s (default: %(default)s)")
    parser.add_argument("--latency", type=float, default=20.0, help="of a collective, µs, assumed (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of the measured kernels (default: %(default)s)")
    parser.add_argument("--counts", type=Path, help="counted work, as JSON: read where there, written back")
    options = parser.parse_args()

    kept = json.loads(options.counts.read_text()) if options.counts and options.counts.exists() else {}
    counted = counter(options.nodes, kept)
    papers = WORKLOADS[0]
    rates = measured_rates(
        chung_lu_graph(options.nodes, papers.mean_degree, papers.exponent), options.threads, options.rounds
    )
    print(describe_machine(["headrace", "torch", "numpy"]))
    law = f"mean degree {papers.mean_degree:.1f}, exponent {papers.exponent}"
    print(f"work: counted on a Chung-Lu graph of {options.nodes:,} nodes, {law} (the published skew of papers100M)")
    edge_rates = {name: middle(rates[name]) for name in SAMPLERS}
    gather = middle(rates["gather"])
    shown = ", ".join(f"{name} {rate / 1e6:.1f} M edges/s" for name, rate in edge_rates.items())
    print(f"measured, {options.threads} thread(s): {shown}, gather {gather / 1e9:.2f} GB/s; sampling is at these rates")
    records = [
        summarised("projection: rates", "this machine", name, "rate", "M/s", [v / 1e6 for v in values], options.threads)
        for name, values in rates.items()
    ]
    beside = published_records(counted, edge_rates, options.latency * 1e-6, options.threads)
    scaling = scaling_records(counted, scaling_cases(edge_rates, gather, options), options)
    print_published(beside)
    print_scaling(scaling)
    records += [*beside, *scaling]
    if options.counts:
        options.counts.write_text(json.dumps(kept, indent=1) + "\n")
    write_json(options.json, records)
    panels = [
        (f"gain of cooperative loading, {workload.name}", points(scaling, workload.name)) for workload in WORKLOADS
    ]
    draw_lines(options.plot, [panel for panel in panels if panel[1]], axis="ranks")


if __name__ == "__main__":
    main()
