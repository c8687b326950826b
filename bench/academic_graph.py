"""A generated graph of papers, authors, fields and institutions, after ogbn-mag; kept in bench/cache.

Four relations and those that lead back, of distinct edges between nodes of Pareto popularity: 24 M edges in all, 26 a
node.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from graphs import CACHE, PARETO
from numpy.typing import NDArray

import headrace as hr

NODES = {"paper": 500_000, "author": 400_000, "field": 20_000, "institution": 10_000}
SEEDS = "paper"
#: Of each relation its edges, as many as of that which leads back.
EDGES = {
    ("author", "writes", "paper"): ("written by", 5_000_000),
    ("paper", "cites", "paper"): ("cited by", 4_000_000),
    ("field", "holds", "paper"): ("is of", 2_000_000),
    ("institution", "employs", "author"): ("works at", 1_000_000),
}


def edge_types() -> list[tuple[str, str, str]]:
    """Return the relations in the order of their edges: each, then that which leads back."""
    return [one for (src, name, dst), (back, _) in EDGES.items() for one in ((src, name, dst), (dst, back, src))]


def cached_academic(scale: float) -> Path:
    """Return a folder with a CSC that is sorted by relation, at a share of the sizes.

    ``indptr.npy`` (int64[num_nodes + 1]), ``indices.npy`` and ``edge_ids.npy`` (int32[num_edges]), ``relations.npy``
    (uint8[num_edges], of each edge the place of its type), ``times.npy`` (int64[num_edges]), ``types.json``.
    """
    folder = CACHE / f"academic-{scale:g}-v1"
    if (folder / "types.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    nodes = {name: max(round(number * scale), 50) for name, number in NODES.items()}
    firsts = dict(zip(nodes, np.cumsum([0, *nodes.values()]), strict=False))
    popularity = {name: np.cumsum(random.pareto(PARETO, number) + 1) for name, number in nodes.items()}
    sides: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for (source, _, destination), (_, number) in EDGES.items():
        src, dst = _distinct(random, popularity[source], popularity[destination], round(number * scale))
        there = src + firsts[source], dst + firsts[destination]
        sides += [there, there[::-1]]
    counts = [len(src) for src, _ in sides]
    src, dst = (np.concatenate(side) for side in zip(*sides, strict=True))
    types = dict(zip(edge_types(), counts, strict=True))
    graph = hr.Graph.from_coo(src, dst, num_nodes=sum(nodes.values()), node_types=nodes, edge_types=types)
    ids = graph.edge_ids.numpy()
    np.save(folder / "indptr.npy", graph.indptr.numpy())
    np.save(folder / "indices.npy", graph.indices.numpy())
    np.save(folder / "edge_ids.npy", ids.astype(np.int32))
    np.save(folder / "relations.npy", np.repeat(np.arange(len(counts), dtype=np.uint8), counts)[ids])
    np.save(folder / "times.npy", random.integers(0, 1 << 40, len(ids)))
    # Last: its presence says that the folder is complete.
    (folder / "types.json").write_text(json.dumps({"nodes": nodes, "edges": [[*one, n] for one, n in types.items()]}))
    return folder


def read_academic(folder: Path) -> hr.Graph:
    """Return the graph of a folder, with the attribute "time" of edges."""
    types = json.loads((folder / "types.json").read_text())
    indptr, indices, ids, times = (
        torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("indptr", "indices", "edge_ids", "times")
    )
    edges = {(src, name, dst): number for src, name, dst, number in types["edges"]}
    return hr.Graph.from_csc(
        indptr, indices, edge_ids=ids, edge_attrs={"time": times}, node_types=types["nodes"], edge_types=edges
    )


def _distinct(
    random: np.random.Generator, sources: NDArray[np.float64], destinations: NDArray[np.float64], number: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw distinct pairs, as ends of popularity; `sources` and `destinations` are running sums of it."""
    number = min(number, len(sources) * len(destinations) // 4)
    pairs = np.empty(0, np.int64)
    while len(pairs) < number:
        src, dst = (np.searchsorted(ends, random.random(number) * ends[-1]) for ends in (sources, destinations))
        pairs = np.union1d(pairs, dst * len(sources) + src)
    random.shuffle(pairs)
    dst, src = np.divmod(pairs[:number], len(sources))
    return src, dst
