"""Graphs of one skew and any size, up to a billion edges: written straight into CSC, chunk by chunk, into memory maps.

`graphs.skewed_edges` needs all edges at once, and a table of popularity to search. Here the node of rank r has
the popularity ``(r + 1) ** (-1 / PARETO)``, the quantiles of that Pareto law, so both the in-degree of a node and a
random source follow from a formula. The groups that most edges stay in, and the scrambled ids, are as there;
permutations are multiplications modulo the number of nodes.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from graphs import CACHE, GROUP, INSIDE, PARETO
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

MEAN_DEGREE = 25
CHUNK = 1 << 18
# Fractions of the number of nodes near which the multipliers of the two permutations lie.
RANK, PLACE = 0.6180339887, 0.7548776662


def cached_large_csc(num_edges: int) -> Path:
    """Return a folder with ``indptr.npy`` (int64[num_nodes + 1]) and ``indices.npy`` (int32[about num_edges])."""
    folder = _folder(num_edges)
    if not is_cached(num_edges):
        folder.mkdir(parents=True, exist_ok=True)
        write_csc(folder, num_edges // MEAN_DEGREE, num_edges, seed=0)
        (folder / "complete").touch()
    return folder


def _folder(num_edges: int) -> Path:
    return CACHE / f"large-{num_edges}-v1"


def is_cached(num_edges: int) -> bool:
    return (_folder(num_edges) / "complete").exists()


def num_bytes(num_edges: int) -> int:
    """Return the size of the files."""
    return 4 * num_edges + 8 * (num_edges // MEAN_DEGREE)


def write_csc(folder: Path, num_nodes: int, num_edges: int, seed: int) -> None:
    """Write a graph of num_nodes nodes and, in expectation, num_edges edges."""
    starts = range(0, num_nodes, CHUNK)
    degrees = (
        _degrees(np.arange(start, min(start + CHUNK, num_nodes)), num_nodes, num_edges, seed) for start in starts
    )
    indptr = open_memmap(folder / "indptr.npy", mode="w+", dtype=np.int64, shape=(num_nodes + 1,))
    indptr[0] = 0
    for start, counts in zip(starts, degrees, strict=True):
        indptr[start + 1 : start + 1 + len(counts)] = indptr[start] + np.cumsum(counts)
    indices = open_memmap(folder / "indices.npy", mode="w+", dtype=np.int32, shape=(int(indptr[-1]),))
    for start in starts:
        stop = min(start + CHUNK, num_nodes)
        bounds = indptr[start : stop + 1]
        nodes = np.repeat(np.arange(start, stop), np.diff(bounds))
        random = np.random.default_rng([seed, 1, start])
        indices[bounds[0] : bounds[-1]] = _sources(nodes, num_nodes, random)
    for array in (indptr, indices):
        array.flush()


def _degrees(nodes: NDArray[np.int64], num_nodes: int, num_edges: int, seed: int) -> NDArray[np.int64]:
    """Return in-degrees that are proportional to popularity, rounded up or down at random."""
    ranks = _times(_inverse(nodes, PLACE, num_nodes), RANK, num_nodes)
    # The sum of the popularities, to the first order of Euler and Maclaurin.
    exponent = 1 - 1 / PARETO
    total = (num_nodes**exponent - 1) / exponent + 0.5 * (1 + num_nodes ** (-1 / PARETO))
    expected = (ranks + 1.0) ** (-1 / PARETO) * (num_edges / total)
    return np.floor(expected + np.random.default_rng([seed, 0, int(nodes[0])]).random(len(nodes))).astype(np.int64)


def _sources(nodes: NDArray[np.int64], num_nodes: int, random: np.random.Generator) -> NDArray[np.int32]:
    """Return a source for an edge into each node: one of its group, or by popularity from all."""
    # The share of popularity of ranks below r is (r / num_nodes) ** (1 - 1 / PARETO), near enough.
    uniform = random.random(len(nodes))
    ranks = np.minimum((num_nodes * uniform ** (PARETO / (PARETO - 1))).astype(np.int64), num_nodes - 1)
    places = _inverse(ranks, RANK, num_nodes)
    inside = random.random(len(nodes)) < INSIDE
    own = _inverse(nodes[inside], PLACE, num_nodes)
    near = own // GROUP * GROUP + random.integers(0, GROUP, len(own))
    places[inside] = np.minimum(near, num_nodes - 1)
    return _times(places, PLACE, num_nodes).astype(np.int32)


def _multiplier(fraction: float, modulus: int) -> int:
    """Return a number near fraction * modulus that has an inverse."""
    multiplier = max(int(fraction * modulus), 1)
    while math.gcd(multiplier, modulus) != 1:
        multiplier += 1
    return multiplier


def _times(values: NDArray[np.int64], fraction: float, modulus: int) -> NDArray[np.int64]:
    return values * _multiplier(fraction, modulus) % modulus


def _inverse(values: NDArray[np.int64], fraction: float, modulus: int) -> NDArray[np.int64]:
    return values * pow(_multiplier(fraction, modulus), -1, modulus) % modulus
