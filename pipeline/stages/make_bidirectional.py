"""Sampled edges in both directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.data import Block, MiniBatch, edge_types_of, node_types_of, trusted
from headrace.pipeline.data.checks import is_as_made
from headrace.pipeline.interop.conversions import joined_edges
from headrace.pipeline.lowered.compact import with_square_block
from headrace.pipeline.plan import Counts, PlainStage, PlanError, RankTraits, Stage, graphs_of, verb


@verb("make_bidirectional")
@dataclass(frozen=True, eq=False, repr=False)
class MakeBidirectional(PlainStage):
    """Add the reverse of each sampled edge, so that messages flow in both directions.

    The batch then has *one* square block, which all layers of a model use. Of parallel edges of one type, one remains.
    An added edge has the id, and so the features, of the sampled edge that it reverses. Importance weights are dropped,
    because they describe the sampled in-neighbourhoods.

    In a graph with types a reversed edge keeps its type. So each edge type must connect a node type with itself: the
    reverse of an edge from users to movies would have another type, with its own edges and features.
    `headrace.pyg.NeighborLoader` with ``subgraph_type="bidirectional"`` gives reversed edges the opposite type, and
    then returns no edge ids.

    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([1, 2], [0, 1], num_nodes=3)
    >>> plan = hr.ItemSampler([0]).sample_neighbor(graph, [1, 1], expand="new").make_bidirectional()
    >>> block = next(iter(plan.loader())).blocks[0]
    >>> block.edge_index.tolist(), block.edge_ids.tolist()
    ([[1, 0, 2, 1], [0, 1, 1, 2]], [0, 0, 1, 1])

    Raises
    ------
    PlanError
        If the sampled graph has an edge type between two node types.
    """

    ranks: ClassVar[RankTraits] = RankTraits(cooperates=False, reverses_edges=True)
    reads: ClassVar[frozenset[str]] = frozenset({"n_id", "blocks", "num_sampled_nodes"})
    writes: ClassVar[frozenset[str]] = frozenset({"blocks", "num_sampled_nodes", "num_sampled_edges"})

    def check(self, before: tuple[Stage, ...]) -> None:
        for graph in (graph for _, graph in graphs_of(before) if node_types_of(graph).num_types > 1):
            # A plain name may lead from any type to any.
            leading = [name for name in edge_types_of(graph).names if not isinstance(name, tuple) or name[0] != name[2]]
            if leading:
                raise PlanError(
                    f"{self.name}: expected edge types that lead from a node type to itself, got {leading[0]!r}, whose "
                    "edges are of another type when turned around; give the graph both directions, a type for each, "
                    'and sample as it is, or use headrace.pyg.NeighborLoader(subgraph_type="bidirectional")'
                )

    def run(self, batch: MiniBatch) -> tuple[MiniBatch, Counts]:
        block = bidirectional(batch)
        return with_square_block(batch, block), {"bidirectional_edges": block.num_edges}


def bidirectional(batch: MiniBatch) -> Block:
    """Return the edges of all blocks in both directions, by destination, then by source, then by type."""
    joined = joined_edges(list(reversed(batch.blocks)), batch.slot)
    source, destination = joined.edge_index
    size = len(batch.n_id)
    types, num_types = _types_of(batch, joined.edge_ids)
    # Edges come before those turned around: the first of those between two nodes is one that was sampled, if any was.
    keys = torch.cat([destination * size + source, source * size + destination])
    keys = keys if types is None else keys * num_types + torch.cat([types, types])
    ordered, order = torch.sort(keys, stable=True)
    is_first = torch.ones_like(ordered, dtype=torch.bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    keys = ordered[is_first] // num_types
    indptr = starts_of(torch.bincount(keys // size, minlength=size))
    ids = None if joined.edge_ids is None else torch.cat([joined.edge_ids, joined.edge_ids])[order[is_first]]
    indices = (keys % size).to(batch.blocks[0].indices.dtype)
    block = Block(indptr, indices, size, size, ids, types=batch.types)
    return trusted(block) if all(map(is_as_made, batch.blocks)) else block


def _types_of(batch: MiniBatch, edge_ids: Tensor | None) -> tuple[Tensor | None, int]:
    """Return the types of edges, int64[num_edges], and how many there are: where there are no types None, and 1."""
    if batch.types is None or edge_ids is None:
        return None, 1
    return batch.types.edge_types.numbers_of(edge_ids), batch.types.edge_types.num_types
