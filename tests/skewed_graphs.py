"""Graphs in which a few nodes have most of the out-edges."""

from __future__ import annotations

import functools

import numpy as np

import headrace as hr

NUM_NODES = 20_000


@functools.cache
def directed(num_nodes: int = NUM_NODES, power: float = 0.85) -> hr.Graph:
    """A few nodes have most of the out-edges; in-edges are spread evenly."""
    random = np.random.default_rng(0)
    below = np.cumsum(np.arange(1, num_nodes + 1) ** -power)
    num_edges = 15 * num_nodes
    src = np.minimum(np.searchsorted(below, random.random(num_edges) * below[-1]), num_nodes - 1)
    return hr.Graph.from_coo(
        random.permutation(num_nodes)[src], random.integers(0, num_nodes, num_edges), num_nodes=num_nodes
    )
