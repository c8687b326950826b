"""Generator graphs: seeded, made once, kept in bench/cache as arrays that every environment can map."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CACHE = Path(__file__).resolve().parent / "cache"
GROUP = 500
INSIDE = 0.6
PARETO = 1.6


@dataclass(frozen=True)
class Shape:
    num_nodes: int
    num_edges: int


SHAPES = {
    "small": Shape(200_000, 5_000_000),
    # ogbn-products, which has no generator of its own: its sizes, with the skew below.
    "products": Shape(2_449_029, 61_431_938),
}


def cached_csc(name: str) -> Path:
    """Return a folder with ``indptr.npy`` (int64[num_nodes + 1]) and ``indices.npy`` (int32[num_edges])."""
    folder = CACHE / f"{name}-v1"
    if not (folder / "indptr.npy").exists():
        from headrace.ops import coo_to_csc

        src, dst = skewed_edges(SHAPES[name], seed=0)
        csc = coo_to_csc(src, dst, SHAPES[name].num_nodes)
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "indices.npy", csc.indices.numpy())
        # Last: its presence says that the folder is complete.
        np.save(folder / "indptr.npy", csc.indptr.numpy())
    return folder


def skewed_edges(shape: Shape, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Draw edges between vertices of Pareto popularity, most of them within groups, under scrambled ids.

    The groups are what reordering could find; scrambling makes sure that nobody finds them by accident.
    """
    random = np.random.default_rng(seed)
    popularity = np.cumsum(random.pareto(PARETO, shape.num_nodes) + 1)
    popularity /= popularity[-1]

    def popular(count: int) -> NDArray[Any]:
        return np.searchsorted(popularity, random.random(count)).astype(np.int32)

    dst = popular(shape.num_edges)
    src = popular(shape.num_edges)
    inside = random.random(shape.num_edges) < INSIDE
    neighbor = dst[inside] // GROUP * GROUP + random.integers(0, GROUP, int(inside.sum()), dtype=np.int32)
    src[inside] = np.minimum(neighbor, shape.num_nodes - 1)
    scrambled = random.permutation(shape.num_nodes).astype(np.int32)
    return scrambled[src], scrambled[dst]
