"""What hops number: nodes, or nodes in trees, as ``ops/native/sampling/fused_elements.hpp`` does."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.faults import Fault, Faults
from headrace.cuda.hop import Frontier, Picks
from headrace.cuda.launch import launch


class Nodes(NamedTuple):
    """Elements that are nodes, of which a graph has so many."""

    most: int

    def of_seeds(self, seeds: Tensor, faults: Faults) -> Tensor:
        """Return the elements that seeds are, int64[num_seeds]: themselves, which the first hop looks at."""
        del faults
        return seeds

    def of_sources(self, sources: Tensor, picks: Picks, destinations: Tensor) -> Tensor:
        """Return the elements that edges come from which were picked for others: the sources."""
        del picks, destinations
        return sources

    def frontier(self, elements: Tensor, size: Tensor | None) -> Frontier:
        """Return elements, int64[room], as a frontier: `size` of them, int64[1], or all."""
        return Frontier(elements, size)

    def nodes_and_slots(self, elements: Tensor) -> tuple[Tensor, None]:
        """Return the nodes that elements are, and the slots of their trees: none."""
        return elements, None


class GpuTrees(NamedTuple):
    """The trees that seeds grow, as `headrace.ops.Trees`, with arrays on the device.

    Attributes
    ----------
    slots
        int64[num_seeds]; those outside of [0, num_trees) are faults.
    num_trees
        Trees.
    streams, bounds, lows
        int64[num_trees] or None.
    """

    slots: Tensor
    num_trees: int
    streams: Tensor | None = None
    bounds: Tensor | None = None
    lows: Tensor | None = None


class TreeElements:
    """Elements that are nodes in trees: the slot of the tree above the bits of the node.

    Parameters
    ----------
    num_nodes
        Nodes of the graph.
    trees
        No more than 63 bits can tell apart, of which nodes take `node_bits`.
    """

    def __init__(self, num_nodes: int, trees: GpuTrees) -> None:
        self._num_nodes = num_nodes
        self._bits = node_bits(num_nodes)
        self._trees = trees
        self.most = num_nodes * trees.num_trees

    def of_seeds(self, seeds: Tensor, faults: Faults) -> Tensor:
        """Return the roots of trees; seeds that are no nodes, and slots that are no trees, are reported.

        Raises
        ------
        Fault
            If there are no trees for seeds.
        """
        num_trees, num_seeds = self._trees.num_trees, seeds.shape[0]
        if num_seeds > 0 and num_trees == 0:
            raise Fault("no tree", 0)  # kernels read what is known of the first tree
        roots = torch.empty_like(seeds)
        arguments = (seeds, self._trees.slots, num_seeds, self._num_nodes, num_trees, self._bits, roots, faults.items)
        launch("plant_roots", (), num_seeds, *arguments, device=seeds.device)
        return roots

    def of_sources(self, sources: Tensor, picks: Picks, destinations: Tensor) -> Tensor:
        """Return the sources in the trees of their destinations, int64[num_edges]."""
        elements = torch.empty(len(sources), dtype=torch.int64, device=sources.device)
        num_dst = len(destinations)
        arguments = (sources, picks.indptr, destinations, num_dst, self._bits, elements)
        launch("key_sources", (sources.dtype,), 32 * num_dst, *arguments, device=sources.device)
        return elements

    def frontier(self, elements: Tensor, size: Tensor | None) -> Frontier:
        """Return the elements with what is known of their trees."""
        _, _, streams, bounds, lows = self._trees
        nodes, slots = (torch.empty_like(elements) for _ in range(2))
        own_bounds, own_lows = (None if of is None else torch.empty_like(elements) for of in (bounds, lows))
        room = len(elements)
        arguments = (elements, room, size, self._bits, streams, bounds, lows, nodes, slots, own_bounds, own_lows)
        launch("read_elements", (), room, *arguments, device=elements.device)
        return Frontier(nodes, size, slots, own_bounds, own_lows)

    def nodes_and_slots(self, elements: Tensor) -> tuple[Tensor, Tensor]:
        """Return nodes and slots."""
        return elements & ((1 << self._bits) - 1), elements >> self._bits


def node_bits(num_nodes: int) -> int:
    """Return how many bits the ids of so many nodes have."""
    return max(num_nodes - 1, 0).bit_length()
