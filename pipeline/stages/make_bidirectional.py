"""Sampled edges in both directions."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.interop.conversions import joined_edges
from headrace.pipeline.lowered.square_block import with_square_block
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner
from headrace.pipeline.plan.verbs import verb


@verb("make_bidirectional")
@dataclass(frozen=True, eq=False, repr=False)
class MakeBidirectional(MapStage):
    """Let messages flow along each sampled edge in both directions.

    The batch then has *one* square block, which all layers of a model use. Of several edges from one node to another
    one stays. An edge that is there against its direction alone has the id of the edge that it turns around, and so its
    features. Importance weights, which say how much of an in-neighbourhood was sampled, are dropped.

    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([1, 2], [0, 1], num_nodes=3)
    >>> plan = hr.ItemSampler([0]).sample_neighbor(graph, [1, 1], expand="new").make_bidirectional()
    >>> block = next(iter(plan.loader())).blocks[0]
    >>> block.edge_index.tolist(), block.edge_ids.tolist()
    ([[1, 0, 2, 1], [0, 1, 1, 2]], [0, 0, 1, 1])
    """

    @property
    def cooperates(self) -> bool:
        return False

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"blocks", "num_sampled_nodes", "num_sampled_edges"})

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            block = bidirectional(batch)
            return with_square_block(batch, block), {"bidirectional_edges": block.num_edges}

        return run


def bidirectional(batch: MiniBatch) -> Block:
    """Return the edges of all blocks in both directions, by destination and then by source."""
    joined = joined_edges(list(reversed(batch.blocks)), batch.slot)
    source, destination = joined.edge_index
    size = len(batch.n_id)
    # Edges come before those turned around: the first of those between two nodes is one that was sampled, if any was.
    keys = torch.cat([destination * size + source, source * size + destination])
    ordered, order = torch.sort(keys, stable=True)
    is_first = torch.ones_like(ordered, dtype=torch.bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    keys = ordered[is_first]
    indptr = starts_of(torch.bincount(keys // size, minlength=size))
    ids = None if joined.edge_ids is None else torch.cat([joined.edge_ids, joined.edge_ids])[order[is_first]]
    return Block(indptr, (keys % size).to(batch.blocks[0].indices.dtype), size, size, ids)
