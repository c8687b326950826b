"""Compaction: number the vertices that a hop reached and turn its edges into a block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from headrace.ops.sampling.compact import compact
from headrace.ops.sampling.sample import Hop
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.lowered.hop import Expand
from headrace.pipeline.plan.stage import MapStage, Runner, RunSettings, verb
from headrace.pipeline.stages.checks import check_expand, check_graph


@verb("compact")
@dataclass(frozen=True, eq=False, repr=False)
class Compact(MapStage):
    """Give the vertices reached by the last hop local ids, in order of first occurrence, and add a block.

    Parameters
    ----------
    graph
        The graph that the hop sampled, for the original edge ids.
    expand
        The hop rule. ``"all"`` adds a block in front of the others. ``"new"`` extends the one block that all hops
        share.
    edge_ids
        Whether blocks carry the original ids of their edges.
    """

    on_host: ClassVar[bool] = True

    graph: Graph
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.verb, self.graph)
        check_expand(self.verb, self.expand)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"hop", "n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(batch: MiniBatch) -> MiniBatch:
            assert batch.hop is not None  # verify: a hop stands before compact
            edge_ids = self.graph.original_edge_ids(batch.hop.positions) if self.edge_ids else None
            return with_hop(batch, batch.hop, edge_ids, self.expand)

        return run

    def counts(self, before: MiniBatch, after: MiniBatch) -> dict[str, int]:
        return count_new(before, after)


def with_hop(batch: MiniBatch, hop: Hop, edge_ids: torch.Tensor | None, expand: Expand) -> MiniBatch:
    """Return the batch with the vertices that a hop reached numbered, and its edges as a block."""
    num_seen = len(batch.n_id)
    compacted = compact(batch.n_id, hop.neighbors)
    block = Block(
        indptr=hop.indptr,
        indices=compacted.indices,
        num_src=len(compacted.ids),
        num_dst=len(hop.indptr) - 1,
        edge_ids=edge_ids,
        weight=hop.weights,
    )
    if expand == "all":
        blocks = (block, *batch.blocks)
    else:
        blocks = (block if not batch.blocks else _extend(batch.blocks[0], block),)
    return batch.replace(
        n_id=compacted.ids,
        blocks=blocks,
        num_sampled_nodes=(*batch.num_sampled_nodes, len(compacted.ids) - num_seen),
        num_sampled_edges=(*batch.num_sampled_edges, block.num_edges),
        hop=None,
    )


def count_new(before: MiniBatch, after: MiniBatch) -> dict[str, int]:
    """Return the vertices and edges that sampling added to a batch."""
    hops = len(before.num_sampled_edges)
    return {
        "vertices": sum(after.num_sampled_nodes[len(before.num_sampled_nodes) :]),
        "edges": sum(after.num_sampled_edges[hops:]),
    }


def _extend(block: Block, hop: Block) -> Block:
    """Return the block with the destinations and edges of a further hop behind its own."""

    def joined(first: torch.Tensor | None, second: torch.Tensor | None) -> torch.Tensor | None:
        return None if first is None or second is None else torch.cat([first, second])

    return Block(
        indptr=torch.cat([block.indptr, hop.indptr[1:] + block.indptr[-1]]),
        indices=torch.cat([block.indices, hop.indices]),
        num_src=hop.num_src,
        num_dst=block.num_dst + hop.num_dst,
        edge_ids=joined(block.edge_ids, hop.edge_ids),
        weight=joined(block.weight, hop.weight),
    )
