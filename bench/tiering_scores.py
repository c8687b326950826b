"""Which score finds the rows that batches read: hit rate against the share of rows that is kept.

Directed graphs of several skews (the share of edges that leave the 1 % busiest nodes), batches of several footprints,
labels all over the graph or in one corner of it, and a real graph. A hit is an access, after the nodes of a batch are
made distinct, to one of the rows that a score ranks first. The bound ranks by the counts of the very run that is
judged, so chance lifts it a little; the measured frequency is of another run. Then bytes moved on the most skewed
graph, and the time of the weighted reverse PageRank beside SciPy's sparse product.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from directed_graphs import clustered_items, directed_graph
from harness import (
    Gain,
    Metrics,
    Record,
    System,
    add_data,
    interleave,
    summarised,
)
from numpy.typing import NDArray
from plot import draw_shares
from tiering_part import run_alone

import headrace as hr

BENCH = "tiering: scores"
CPU = hr.Place("cpu")
BOUND, OWN = "bound: counts of the same run", "the sampler's own law"
FANOUTS = [12, 12, 12]
SHARES = (0.05, 0.1, 0.25, 0.5)


def scores_of(plan: hr.Plan, graph: hr.Graph, items: Any, counts: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return every score by name; the bound last."""
    return {
        "random": torch.rand(graph.num_nodes, generator=torch.Generator().manual_seed(0)),
        "out-degree": hr.scores.out_degree(graph),
        "reverse PageRank": hr.scores.reverse_pagerank(graph),
        "weighted reverse PageRank": hr.scores.weighted_reverse_pagerank(graph, items),
        "frequency in 200 other batches": hr.scores.access_frequency(plan, num_batches=200),
        OWN: hr.scores.inclusion(plan),
        BOUND: counts,
    }


def counted(plan: hr.Plan, num_batches: int) -> torch.Tensor:
    """Return in how many of so many batches each node is."""
    loader, drawn = plan.loader(), 0
    counts = torch.zeros(hr.scores.inclusion(plan).numel(), dtype=torch.float64)
    while drawn < num_batches:
        for batch in loader:
            counts[batch.n_id] += 1
            drawn += 1
            if drawn == num_batches:
                break
    loader.close()
    return counts


def hit_records(name: str, graph: hr.Graph, items: Any, batch_size: int, num_batches: int) -> list[Record]:
    """Return the hit rates of every score in one case."""
    sampler = hr.ItemSampler(items, batch_size=batch_size, shuffle=True, seed=1)
    plan = sampler.sample_neighbor(graph, FANOUTS, edge_ids=False)
    counts = counted(plan, num_batches)
    total = float(counts.sum())
    footprint = 100 * total / num_batches / graph.num_nodes
    case = f"{name}, {batch_size} seeds: {footprint:.1f} % of the nodes in a batch"
    records = []
    for score, values in scores_of(plan, graph, items, counts).items():
        ranked = counts[hr.scores.ranking(values)].cumsum(0)
        for share in SHARES:
            rate = 100 * float(ranked[int(share * graph.num_nodes) - 1]) / total
            records.append(summarised(BENCH, case, score, f"hits, {share:.0%} of rows kept", "%", [rate], 1))
    return records


class HotRows:
    """Rows that lie in two places, the first ones in the fast one; it counts the bytes read from each."""

    def __init__(self, rows: hr.FeatureSource, num_hot: int) -> None:
        self.rows, self.num_hot = rows, num_hot
        self.num_rows, self.row_bytes, self.dtype, self.shape = rows.num_rows, rows.row_bytes, rows.dtype, rows.shape

    def read(self, ids: torch.Tensor, *, num_threads: int = 1, to: hr.Place = CPU) -> hr.Rows:
        """Read rows, and count."""
        found = self.rows.read(ids, num_threads=num_threads, to=to).rows
        hot = int((ids < self.num_hot).sum())
        return hr.Rows(found, {"hot_bytes": hot * self.row_bytes, "cold_bytes": (len(ids) - hot) * self.row_bytes})

    def content_digest(self) -> str:
        """Return that of the rows."""
        return self.rows.content_digest()


def traffic_records(name: str, graph: hr.Graph, items: Any, batch_size: int, num_batches: int) -> list[Record]:
    """Return by how much fewer bytes come from the slow place with 10 % of the rows, reordered, in the fast one."""
    plan = hr.ItemSampler(items, batch_size=batch_size, shuffle=True, seed=1).sample_neighbor(graph, FANOUTS)
    records = []
    for score, values in (
        ("weighted reverse PageRank", hr.scores.weighted_reverse_pagerank(graph, items)),
        (OWN, hr.scores.inclusion(plan)),
    ):
        rows = hr.FeatureStore(node={"x": torch.zeros(graph.num_nodes, 16)})
        hot = hr.reorder(graph, rows, scores=values, original_ids=False)
        assert hot.store is not None  # as it was given
        store = hr.FeatureStore(node={"x": HotRows(hot.store.node["x"], graph.num_nodes // 10)})
        seeds = hr.ItemSampler(hot.items(items), batch_size=batch_size, shuffle=True, seed=1)
        loader = seeds.sample_neighbor(hot.graph, FANOUTS, edge_ids=False).fetch_feature(store, node=["x"]).loader()
        for number, _ in enumerate(loader, 1):
            if number == num_batches:
                break
        moved = loader.stats()["fetch_feature"]
        loader.close()
        cut = 100 * moved["hot_bytes"] / (moved["hot_bytes"] + moved["cold_bytes"])
        records.append(summarised(BENCH, f"{name}: bytes from the slow place", score, "traffic cut", "%", [cut], 1))
    return records


def time_records(num_nodes: int, num_edges: int, rounds: int) -> list[Record]:
    """Return times of the weighted reverse PageRank beside SciPy's, on one thread."""
    try:
        from scipy import sparse
    except ModuleNotFoundError:
        print("SciPy is not installed: the times beside it are skipped", file=sys.stderr)
        return []
    graph = directed_graph(num_nodes, num_edges / num_nodes, 0.35)
    labelled = np.arange(0, num_nodes, 10)
    ones = np.ones(graph.num_edges)
    parts = (ones, graph.indices.numpy(), graph.indptr.numpy())
    columns = sparse.csc_matrix(parts, shape=(num_nodes, num_nodes))

    def scipy(matrix: Any) -> NDArray[np.float64]:
        scores = np.full(num_nodes, 1 / num_nodes)
        scores[labelled] *= num_nodes / len(labelled)
        shares = 0.85 / np.maximum(np.diff(parts[2]), 1)
        for _ in range(5):
            scores = 0.15 / num_nodes + matrix @ (scores * shares)
        return scores

    def timed(run: Callable[[], Any], number: int) -> Metrics:
        del number
        torch.set_num_threads(1)
        started = time.perf_counter()
        run()
        return {"time": 1e3 * (time.perf_counter() - started)}

    def ours() -> torch.Tensor:
        return hr.scores.weighted_reverse_pagerank(graph, labelled, num_threads=1)

    by_columns, by_rows = "scipy, csc_matrix @ x", "scipy, csr_matrix @ x"
    rows = columns.tocsr()
    assert np.allclose(ours(), scipy(columns), rtol=1e-10)
    systems = [
        System("headrace", partial(timed, ours)),
        System(by_columns, partial(timed, lambda: scipy(columns))),
        System(by_rows, partial(timed, lambda: scipy(rows))),
    ]
    gains = [Gain(("headrace", 1), (name, 1)) for name in (by_columns, by_rows)]
    case = f"weighted reverse PageRank, {num_nodes:,} nodes, {num_edges:,} edges"
    return interleave(BENCH, case, systems, rounds=rounds, gains=gains, warm_up=1)


def real_records(path: Path, num_batches: int) -> list[Record]:
    """Return hit rates on the real directed graph; none where it is not there."""
    if not path.exists():
        print(f"{path} is not there: the real graph is skipped", file=sys.stderr)
        return []
    data = np.load(path)
    graph = hr.Graph.from_coo(*data["edge_index"].astype(np.int64), num_nodes=len(data["y"]))
    degrees = np.sort(hr.scores.out_degree(graph).numpy())[::-1]
    share = degrees[: len(degrees) // 100].sum() / degrees.sum()
    name = f"github_similar, top 1 % have {share:.0%} of the edges"
    return [
        record
        for size, runs in ((64, num_batches), (256, num_batches // 4))
        for record in hit_records(name, graph, torch.from_numpy(data["train_mask"]), size, runs)
    ]


def run(options: argparse.Namespace) -> list[Record]:
    """Take all measurements."""
    records: list[Record] = []
    num_nodes = options.nodes
    for top_share in options.top_shares:
        graph = directed_graph(num_nodes, options.degree, top_share)
        name = f"{num_nodes:,} nodes, top 1 % have {top_share:.0%} of the edges"
        spread = np.random.default_rng(1).choice(num_nodes, num_nodes // 10, replace=False)
        for size in options.seeds:
            records += hit_records(f"{name}, labels anywhere", graph, spread, size, options.batches)
        corner = clustered_items(graph, num_nodes // 100)
        records += hit_records(f"{name}, labels in one corner", graph, corner, options.seeds[-1], options.batches)
        if top_share == max(options.top_shares):
            records += traffic_records(name, graph, spread, options.seeds[-1], options.batches // 4)
    records += real_records(options.data / "github_similar.npz", options.batches)
    for nodes, edges in ((num_nodes, int(num_nodes * options.degree)), (10 * num_nodes, int(100 * num_nodes))):
        records += time_records(nodes, edges, options.rounds)
    return records


def draw(records: list[Record], folder: Path) -> list[Path]:
    """Draw hit rates against the share that is kept, one panel a case."""
    hits = [record for record in records if record.metric.startswith("hits")]
    panels = []
    for case in dict.fromkeys(record.case for record in hits):
        systems = dict.fromkeys(record.system for record in hits if record.case == case)
        lines = [
            (
                system,
                [100 * share for share in SHARES],
                [r.median for r in hits if (r.case, r.system) == (case, system)],
            )
            for system in systems
        ]
        panels.append((case.replace(", ", "\n", 1).replace(": ", "\n"), lines))
    if not panels:
        return []
    path = folder / f"{BENCH}.png"
    draw_shares(path, panels, "hit rate, %, against rows kept, % of all")
    return [path]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run` but for the number of rounds."""
    parser.add_argument("--nodes", type=int, default=300_000, help="of the graphs (default: %(default)s)")
    parser.add_argument("--degree", type=float, default=15, help="edges per node (default: %(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 8], help="of a batch (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=1_500, help="of a run that is judged (default: %(default)s)")
    parser.add_argument(
        "--top-shares", type=float, nargs="+", default=[0.2, 0.35, 0.56, 0.8], help="of edges (default: %(default)s)"
    )
    add_data(parser)


if __name__ == "__main__":
    run_alone(sys.modules[__name__], rounds=5)
