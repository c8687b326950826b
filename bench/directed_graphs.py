"""Directed graphs whose out-edges are concentrated on a few nodes, as those of citations, links and followers are.

Sources are drawn with probabilities that fall as a power of a node's rank, destinations by a log-normal popularity of
their own, independent of it: what is read often is not what reads much, so that a score that follows edges the wrong
way is worth nothing. Ids are scrambled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import headrace as hr

IN_DEGREE_DEVIATION = 0.8


def directed_graph(num_nodes: int, mean_degree: float, top_share: float, *, seed: int = 0) -> hr.Graph:
    """Return a graph of which the 1 % of the nodes with most out-edges have about `top_share` of all edges."""
    random = np.random.default_rng(seed)
    num_edges = int(num_nodes * mean_degree)
    src = _drawn(random, rank_chances(num_nodes, top_share), num_edges)
    dst = _drawn(random, np.exp(IN_DEGREE_DEVIATION * random.standard_normal(num_nodes)), num_edges)
    return hr.Graph.from_coo(random.permutation(num_nodes)[src], dst, num_nodes=num_nodes)


def clustered_items(graph: hr.Graph, num_items: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Return nodes around a few others: labels of one corner of the graph."""
    random = np.random.default_rng(seed)
    indptr, indices = graph.indptr.numpy(), graph.indices.numpy()
    found = random.integers(0, graph.num_nodes, 4)
    while len(found) < num_items:
        rows = [indices[indptr[v] : indptr[v + 1]] for v in found[-num_items:]]
        more = np.unique(np.concatenate([found, *rows]))
        if len(more) == len(found):
            more = np.union1d(found, random.integers(0, graph.num_nodes, 4))
        found = more
    return np.sort(random.permutation(found)[:num_items]).astype(np.int64)


def rank_chances(num_nodes: int, top_share: float) -> NDArray[np.float64]:
    """Return chances that fall as a power of the rank, of which the first 1 % have a share of `top_share`."""
    logs, top = np.log(np.arange(1, num_nodes + 1)), max(1, num_nodes // 100)
    low, high = 0.0, 4.0
    for _ in range(60):
        power = (low + high) / 2
        chances = np.exp(-power * logs)
        chances /= chances.sum()
        low, high = (power, high) if chances[:top].sum() < top_share else (low, power)
    return chances


def _drawn(random: np.random.Generator, weights: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    below = np.cumsum(weights)
    places = np.searchsorted(below, random.random(count) * below[-1], side="right")
    return np.minimum(places, len(weights) - 1)
