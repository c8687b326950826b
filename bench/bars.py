"""What the kernels are to reach, each claim with the records that decide it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from harness import Record


@dataclass(frozen=True)
class Bar:
    """A claim about records: those whose fields match must have medians within the bounds.

    `case` and `system` are regular expressions for the whole field; `threads` of None means any.
    """

    claim: str
    bench: str
    case: str
    system: str
    metric: str
    threads: int | None = None
    at_least: float | None = None
    at_most: float | None = None

    def decided_by(self, records: Iterable[Record]) -> list[Record]:
        return [
            record
            for record in records
            if (record.bench, record.metric) == (self.bench, self.metric)
            and self.threads in (None, record.threads)
            and re.fullmatch(self.case, record.case)
            and re.fullmatch(self.system, record.system)
        ]

    def met(self, record: Record) -> bool:
        return self.slack(record) >= 0

    def slack(self, record: Record) -> float:
        """Return how far a median is within the bounds; below 0 beyond them."""
        low = float("inf") if self.at_least is None else record.median - self.at_least
        high = float("inf") if self.at_most is None else self.at_most - record.median
        return min(low, high)

    @property
    def bound(self) -> str:
        bounds = (("≥", self.at_least), ("≤", self.at_most))
        return ", ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)


_BATCH = "products, batch 1024, fanouts 10,10,10"
_BATCH_OF_TYPES = "batch 1024, fanouts 10,10"
_GROWTH = "from 10,000,000 to 1,000,000,000 edges"
_GAIN = "time gain"
_POINTS = "difference in accuracy"
_PLAN = "import torch over .* and a first plan"

BARS = (
    Bar("`sample_neighbor` over GraphBolt", "sampling", f"neighbor, {_BATCH}", "headrace over GraphBolt", _GAIN, 1, 12),
    Bar("`sample_neighbor` over GraphBolt", "sampling", f"neighbor, {_BATCH}", "headrace over GraphBolt", _GAIN, 2, 10),
    Bar("LABOR-0 over GraphBolt", "sampling", f"labor, {_BATCH}", "headrace over GraphBolt", _GAIN, 1, 10),
    Bar("LABOR-0 over GraphBolt", "sampling", f"labor, {_BATCH}", "headrace over GraphBolt", _GAIN, 2, 8),
    Bar(
        "weighted without replacement: cost in uniform ones",
        "sampling",
        f"weighted without replacement, {_BATCH}",
        "headrace over headrace, weighted",
        _GAIN,
        at_most=2,
    ),
    Bar(
        "weighted without replacement over GraphBolt",
        "sampling",
        f"weighted without replacement, {_BATCH}",
        "headrace, weighted over GraphBolt",
        _GAIN,
        at_least=20,
    ),
    Bar(
        "gather of 400 B rows over `index_select`",
        "gather",
        "2,449,029 rows of 100 float32.*",
        "headrace over torch.index_select",
        _GAIN,
        1,
        4,
    ),
    Bar(
        "gather of 400 B rows over `index_select`",
        "gather",
        "2,449,029 rows of 100 float32.*",
        "headrace over torch.index_select",
        _GAIN,
        2,
        3,
    ),
    Bar("sample and fetch over GraphBolt", "loader", f"{_BATCH}, .*", "headrace over GraphBolt.*", _GAIN, None, 8),
    Bar("sample and fetch over PyG", "loader", f"{_BATCH}, .*", "headrace.* over PyG.*", _GAIN, None, 25),
    Bar("2 threads over 1", "sampling", f".*, {_BATCH}", "headrace.*, 2 threads over 1", _GAIN, None, 1.8),
    Bar(
        "2 threads over 1",
        "sampling",
        f".*, {_BATCH}",
        "batches in parallel over one after the other on 1",
        _GAIN,
        2,
        1.8,
    ),
    Bar(
        "COO to CSC over SciPy and PyG",
        "build",
        "products, .* int64 ids",
        "headrace over (SciPy|PyG).*",
        _GAIN,
        None,
        3,
    ),
    Bar(
        "COO to CSC: peak, in arrays of one int64 per edge",
        "build",
        "products, .* int64 ids",
        "headrace",
        "peak in arrays",
        at_most=2.2,
    ),
    Bar(
        "growth of an edge's cost, 10 M to 1 B edges",
        "scaling: growth",
        _GROWTH,
        "headrace",
        "edge cost growth",
        at_most=2.5,
    ),
    Bar(
        "NS / LABOR of |V3|, over the published ratio",
        "labor",
        "flickr|yelp|products-footprint",
        r"NS over LABOR-(0|\*)",
        "|V3| ratio over published",
        None,
        0.85,
        1.15,
    ),
    Bar(
        "independent over cooperative work, over the simulated ratio",
        "cooperative: work",
        "(LABOR-0|NS), [248] ranks, 1024 seeds a rank",
        "independent over cooperative",
        "|S3| ratio over simulated",
        None,
        0.95,
        1.05,
    ),
    Bar(
        "rows past equal caches, independent over cooperative",
        "cooperative: cache",
        ".*, 4 ranks, .*",
        "independent over cooperative",
        "rows past the cache ratio",
        at_least=1.6,
    ),
    Bar(
        "the default loader over the best of {1, all threads} × {prefetch on, off}",
        "contention",
        ".*",
        "default over the best choice",
        "time over the best",
        at_most=1.3,
    ),
    Bar(
        "cooperative loading beyond its collectives and kernels, %",
        "cooperative: time",
        "products, 2 processes of gloo, 1024 seeds a rank",
        "cooperative over bare collectives and kernels",
        "overhead",
        at_most=15,
    ),
    Bar(
        "look-ahead: misses over Belady's optimum, %",
        "tiering: policies",
        ".*",
        "look-ahead, 128 batches",
        "misses over the optimum",
        1,
        at_most=3,
    ),
    Bar(
        "kappa = 32: times less missed, at the published number of rows a batch",
        "tiering: dependent batches",
        ".*, layers depend on each other",
        "kappa = 32 over independent",
        "miss rate gain",
        at_least=2.5,
    ),
    Bar(
        "training from disk over raw random reads",
        "tiering: disk",
        ".*",
        "training, DiskFeature over raw random reads",
        "read rate gain",
        1,
        at_least=0.8,
    ),
    Bar(
        "sums, means and GAT over PyG's default", "spmm", "(?!SAGE).*", "headrace over PyG, edge_index", _GAIN, None, 2
    ),
    Bar("sums and means over torch.sparse", "spmm", "(sum|mean).*", "headrace over torch.sparse.*", _GAIN, None, 1),
    Bar("sums, means and GAT over DGL", "spmm", "(?!SAGE).*", "headrace over DGL", _GAIN, None, 1),
    Bar("a step of GraphSAGE over PyG's layers", "spmm", "SAGE.*", "headrace over PyG, edge_index", _GAIN, None, 1.5),
    Bar(
        "SAR: rows in memory over 2/N of all", "sar: memory", "one layer", "SAR over 2/N", "gain, 16 ranks", at_most=1.1
    ),
    Bar(
        "SAR with prefetch: rows in memory over 3/N",
        "sar: memory",
        "one layer",
        "SAR, prefetch over 3/N",
        "gain, 16 ranks",
        at_most=1.1,
    ),
    Bar(
        "GraphSAGE: memory with one exchange a layer over SAR's",
        "sar: memory",
        "SAGE",
        "one-shot(, autograd)? over SAR",
        "gain, 8 ranks",
        at_least=2,
    ),
    Bar(
        "GAT: memory with one exchange a layer over SAR's",
        "sar: memory",
        "GAT",
        "one-shot(, autograd)? over SAR",
        "gain, 8 ranks",
        at_least=4,
    ),
    Bar(
        "GraphSAGE by SAR on one rank: cost", "sar: time", "SAGE.*", "whole, hr.nn over SAR.*", _GAIN, None, None, 1.25
    ),
    Bar(
        "nodes and edges of many ranks over those of one",
        "hybrid-parallel",
        ".*",
        "2D grid, .* ranks over 1",
        "nodes and edges",
        at_least=1,
        at_most=1,
    ),
    Bar(
        "copies of a node on a grid over R + C - 1",
        "hybrid-parallel",
        ".*, global-batch, 16 ranks",
        r"2D grid over R \+ C - 1",
        "most copies",
        at_most=1,
    ),
    Bar(
        "star, hub as destination: a rank's largest share of edges over 1/R",
        "hybrid-parallel",
        "star, .*, (4|8|16) ranks",
        "2D grid over 1/R",
        "largest share of edges",
        at_most=1.1,
    ),
    Bar(
        "Cora, GCN on the whole graph: accuracy, %",
        "strategies",
        "cora",
        "GCN, global-batch",
        "mean test accuracy",
        at_least=80.5,
        at_most=82.5,
    ),
    Bar(
        "Cora: minibatches less the whole graph, points",
        "strategies",
        "cora",
        "GCN, mini-batch less global-batch",
        _POINTS,
        at_least=-1,
        at_most=1,
    ),
    Bar(
        "Cora, GAT on the whole graph: accuracy, %",
        "strategies",
        "cora",
        "GAT, global-batch",
        "mean test accuracy",
        at_least=81,
    ),
    Bar(
        "Cora: clusters with 1 hop around less those without, points",
        "strategies",
        "cora",
        "GCN, clusters and 1 hop around less clusters",
        _POINTS,
        at_least=0,
    ),
    Bar(
        "hetero `sample_neighbor` over GraphBolt",
        "types",
        f"types, {_BATCH_OF_TYPES}",
        "headrace over GraphBolt(, edge ids)?",
        "edge rate gain",
        at_least=8,
    ),
    Bar(
        "an edge's cost with types in what it is without",
        "types",
        f"types, {_BATCH_OF_TYPES}",
        "headrace, no types over headrace",
        "edge cost gain",
        at_most=1.3,
    ),
    Bar(
        "temporal `sample_neighbor` over GraphBolt",
        "types",
        f"times, {_BATCH_OF_TYPES}",
        "headrace over GraphBolt",
        "edge rate gain",
        at_least=8,
    ),
    Bar(
        "links without the edges of seeds: cost in that with them",
        "types",
        "exclusion, .*",
        "all edges over without those of seeds",
        _GAIN,
        at_most=1.1,
    ),
    Bar(
        "conversion: cost in plain SQL that writes the same arrays",
        "convert",
        ".*",
        "plain SQL over conversion",
        _GAIN,
        at_most=1.25,
    ),
    Bar("the same by CPU time", "convert", ".*", "plain SQL over conversion", "CPU time gain", at_most=1.25),
    Bar("parts of 60 M edges: time over that of 0.1.0", "parts", ".*", "old .* over new .*", "time gain", at_most=1),
    Bar("parts: bytes of a rank over its bound", "parts", ".*", "part", "bytes over the bound", at_most=1),
    Bar("parts: memory of its process over that", "parts", ".*", "part", "memory over the bound", at_most=1),
    Bar("peak memory of a conversion over its limit", "convert", ".*", "conversion", "peak over the limit", at_most=1),
    Bar(
        "features on disk by windows over a look-ahead cache",
        "windows",
        ".*",
        "windows over look-ahead cache",
        _GAIN,
        at_least=2,
    ),
    Bar("windows of most rows over scans", "windows", "most rows.*", "one scan .* over windows", _GAIN, at_most=1.3),
    Bar(
        "an epoch of GraphSAGE on a CPU over its arithmetic alone",
        "training",
        f"{_BATCH}, .* hidden 256",
        "its products, sums and gathers alone over blocks, hr.nn",
        _GAIN,
        2,
        at_most=1.25,
    ),
    Bar(
        "the same with `hr.keep_freed_memory()`",
        "training",
        f"{_BATCH}, .* hidden 256, freed memory kept",
        "its products, sums and gathers alone over blocks, hr.nn",
        _GAIN,
        2,
        at_most=1.25,
    ),
    Bar(
        "an epoch of GraphSAGE over PyG's layers on the same blocks",
        "training",
        f"{_BATCH}, .* hidden 256",
        "blocks, hr.nn over blocks, PyG's layers",
        _GAIN,
        2,
        at_least=2.2,
    ),
    Bar(
        "an epoch of `headrace.pyg` with `trim_to_layer` over one on blocks",
        "training",
        f"{_BATCH}, .* hidden 256",
        "blocks, hr.nn over pyg.trim_to_layer, pairs",
        _GAIN,
        2,
        at_most=1.8,
    ),
    Bar("`import headrace`, ms", "import", "after torch", "import headrace", "time", at_most=60),
    Bar("`import headrace` and a first plan, in `import torch`", "import", "after torch", _PLAN, _GAIN, at_most=0.1),
    Bar("a first `.loader()`, ms", "import", "after torch", "a first loader", "time", at_most=15),
    Bar("`headrace --help`, ms", "import", "a process", ".*headrace --help", "time", at_most=150),
    Bar("Python of a launch on a GPU, µs", "launches", ".*", "headrace, .*", "launch time", at_most=3),
    Bar("Python of all launches of three hops, µs", "launches", ".*", "headrace, .*", "launches time", at_most=250),
    Bar("a first batch of a typed graph, ms", "import", "20 M edges .*", "a first batch .*", "time", at_most=300),
)
