"""Where rows and edges of a padded batch are: hop by hop, and within the padding of a hop type by type."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.sampling.pad import Padded, PaddingEdges
from headrace.pipeline.data import MiniBatch, type_number
from headrace.pipeline.data.padding import Sizes


@dataclass(frozen=True)
class Layer:
    """How a block is made of hops.

    Parameters
    ----------
    src_hops, dst_hops
        The hops of its sources and of its destinations, seeds included.
    groups
        The hops whose edges it has, among those of `Sizes`.
    """

    src_hops: int
    dst_hops: int
    groups: tuple[int, ...]


def layers_of(batch: MiniBatch, *, square: bool) -> list[Layer]:
    """Return how each block is made of hops, input side first.

    Parameters
    ----------
    batch
        Sampled.
    square
        Whether one block may have all nodes as destinations, because no hop made it.
    """
    hops = len(batch.num_sampled_edges)
    groups = tuple(range(hops))
    if square and len(batch.blocks) == 1 and batch.blocks[0].num_dst == batch.blocks[0].num_src:
        return [Layer(hops + 1, hops + 1, groups)]
    if len(batch.blocks) == 1:  # all hops share it
        return [Layer(hops + 1, hops, groups)]
    return [Layer(hop + 2, hop + 1, (hop,)) for hop in reversed(groups)]


@dataclass(frozen=True)
class Layout:
    """The rows and edges of a batch among those with padding.

    Parameters
    ----------
    real, sizes
        What there is, and with padding.
    ends
        For each edge type the types of its sources and destinations.
    """

    real: Sizes
    sizes: Sizes
    ends: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, batch: MiniBatch, real: Sizes, sizes: Sizes) -> Layout:
        """Return that of a batch.

        Raises
        ------
        InputError
            If an edge type does not state which node types it joins.
        """
        if batch.types is None:
            return cls(real, sizes, ((0, 0),))
        names = batch.types.edge_types.names
        plain = [name for name in names if not isinstance(name, tuple)]
        if plain and batch.types.node_types.num_types > 1:
            raise InputError(
                f"pad: expected edge types (source type, relation, destination type), got {plain[0]!r}; name the "
                "graph's edge types so"
            )
        types = batch.types.node_types
        ends = (
            (type_number(types, name[0]), type_number(types, name[2])) if isinstance(name, tuple) else (0, 0)
            for name in names
        )
        return cls(real, sizes, tuple(ends))

    @property
    def nodes(self) -> Padded:
        """The rows of all types."""
        return Padded(self.real.num_nodes, self.sizes.num_nodes)

    def nodes_of_type(self, number: int) -> Padded:
        """Return the rows of a type, among those of the type."""
        return Padded(*(tuple(hop[number] for hop in one.nodes) for one in (self.real, self.sizes)))

    def edges_of(self, layer: Layer) -> Padded:
        """Return the edges of a block."""
        return Padded(*(tuple(one.num_edges[group] for group in layer.groups) for one in (self.real, self.sizes)))

    def edges_of_type(self, layer: Layer, number: int) -> Padded:
        """Return the edges of a type of a block, among those of the type."""
        return Padded(*(tuple(one.edges[group][number] for group in layer.groups) for one in (self.real, self.sizes)))

    def node_fill(self, device: torch.device) -> Tensor:
        """Return the ids of padding rows: -1 less the number of the type."""
        counts = [of_type for hop in range(len(self.sizes.nodes)) for of_type in enumerate(self._more_nodes(hop))]
        return _marks(counts, device)

    def edge_fill(self, layer: Layer, device: torch.device) -> Tensor:
        """Return the ids of padding edges: -1 less the number of the type."""
        return _marks([of_type for group in layer.groups for of_type in self._more_edges(group)], device)

    def padding_edges(self, layer: Layer) -> list[list[PaddingEdges]]:
        """Return the padding edges of each hop of a block, in the order of their destinations."""
        found = []
        for place, group in enumerate(layer.groups):
            hop = place if len(layer.groups) == layer.dst_hops else layer.dst_hops - 1
            behind = min(hop + 1, layer.src_hops - 1)
            runs = [(more, *self.ends[number]) for number, more in self._more_edges(group)]
            found.append(
                [
                    PaddingEdges(more, destinations=self._padding(hop, end), sources=self._padding(behind, start))
                    for more, start, end in runs
                ]
            )
        return found

    def _more_nodes(self, hop: int) -> list[int]:
        return [size - count for count, size in zip(self.real.nodes[hop], self.sizes.nodes[hop], strict=True)]

    def _more_edges(self, group: int) -> list[tuple[int, int]]:
        """Return the number of each edge type, and of its padding edges, in the order of their destinations."""
        more = [size - count for count, size in zip(self.real.edges[group], self.sizes.edges[group], strict=True)]
        order = sorted(range(len(more)), key=lambda number: self.ends[number][1])
        return [(number, more[number]) for number in order]

    def _padding(self, hop: int, number: int) -> slice:
        """Return the padding rows of a type in a hop."""
        more = self._more_nodes(hop)
        start = self.nodes.padding()[hop].start + sum(more[:number])
        return slice(start, start + more[number])


def _marks(counts: list[tuple[int, int]], device: torch.device) -> Tensor:
    """Return -1 less the number of a type as often as there are of it, one after the other."""
    return torch.cat([torch.full((more,), -1 - number, device=device) for number, more in counts])
