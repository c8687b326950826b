"""Chung-Lu graphs: undirected, with expected degrees that fall as a power of the rank, at any size.

The node of rank r has an expected degree proportional to ``(r + 1) ** -exponent``. A scaled-down graph keeps the law:
the share of the edges that the most popular tenth of the nodes has does not depend on the number of nodes. So
with the batch scaled by the same factor, a batch reaches the same share of the nodes, hop by hop
(`tests/bench/test_projection.py` checks it).
"""

from __future__ import annotations

import numpy as np
import torch
from graphs import CACHE
from numpy.typing import NDArray

import headrace as hr
from headrace import ops

#: The graph on which the work law was first simulated: about the size of flickr.
NUM_NODES, MEAN_DEGREE, EXPONENT = 89_250, 10.09, 0.6


def chung_lu_edges(
    num_nodes: int, mean_degree: float, exponent: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw edges in both directions; repeated edges and loops are removed, so there are a few less than asked for."""
    random = np.random.default_rng(seed)
    below = np.cumsum(np.arange(1, num_nodes + 1) ** -exponent)
    count = int(num_nodes * mean_degree) // 2
    # Sorted places are found several times faster; the other end is drawn by itself.
    one, other = (np.searchsorted(below, np.sort(random.random(count)) * below[-1]) for _ in range(2))
    one, other = one.clip(max=num_nodes - 1), random.permutation(other).clip(max=num_nodes - 1)
    different = one != other
    one, other = one[different], other[different]
    pairs = distinct(np.concatenate([one * num_nodes + other, other * num_nodes + one]))
    return pairs // num_nodes, pairs % num_nodes


def distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the keys in order, each once. For millions of them `np.unique` takes ten times as long, by hashing."""
    ordered = np.sort(keys)
    return ordered[np.concatenate([np.ones(min(1, len(keys)), dtype=bool), ordered[1:] != ordered[:-1]])]


def chung_lu_graph(
    num_nodes: int = NUM_NODES, mean_degree: float = MEAN_DEGREE, exponent: float = EXPONENT, seed: int = 0
) -> hr.Graph:
    """Return the graph, kept in bench/cache from a size on at which it takes long to make."""
    if num_nodes <= NUM_NODES:
        src, dst = chung_lu_edges(num_nodes, mean_degree, exponent, seed)
        return hr.Graph.from_coo(src, dst, num_nodes=num_nodes)
    folder = CACHE / f"chung-lu-{num_nodes}-{mean_degree}-{exponent}-{seed}-v1"
    if not (folder / "indptr.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        csc = ops.coo_to_csc(*chung_lu_edges(num_nodes, mean_degree, exponent, seed), num_nodes)
        np.save(folder / "indices.npy", csc.indices.numpy())
        # Last: its presence says that the folder is complete.
        np.save(folder / "indptr.npy", csc.indptr.numpy())
    return hr.Graph.from_csc(*(torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("indptr", "indices")))
