"""Compaction: number the nodes that a hop reached and turn its edges into a block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from headrace.ops.sampling.compact import Compacted, CompactedElements, compact, compact_elements
from headrace.ops.sampling.sample import Hop as PickedEdges
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.graph_types import typed_ids
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.lowered.sample_hop import Expand, HopStage, SampledHop
from headrace.pipeline.plan.checks import check_expand, check_graph
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import HOP, Counts, MapStage, Runner, Stage


@dataclass(frozen=True, eq=False, repr=False)
class Compact(MapStage):
    """Give the nodes reached by the last hop local ids, in order of first occurrence, and add a block.

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

    name: ClassVar[str] = "compact"
    lowered: ClassVar[bool] = True

    takes: ClassVar[frozenset[str]] = frozenset({HOP})
    graph: GraphView
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph, with_types=True)
        check_expand(self.name, self.expand)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    def fits_behind(self, last: Stage) -> str | None:
        fits = (
            isinstance(last, HopStage)
            and last.graph is self.graph
            and last.expand == self.expand
            and last.edge_ids == self.edge_ids
        )
        return None if fits else "expected its graph, expand and edge_ids to be those of the hop before it"

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(sampled: SampledHop) -> tuple[MiniBatch, Counts]:
            edge_ids = self.graph.original_edge_ids(sampled.hop.positions) if self.edge_ids else None
            batch = with_hop(sampled.batch, sampled.hop, edge_ids, self.expand, self.graph)
            return batch, count_new(sampled.batch, batch)

        return run


def with_hop(
    batch: MiniBatch, hop: PickedEdges, edge_ids: torch.Tensor | None, expand: Expand, graph: GraphView
) -> MiniBatch:
    """Return the batch with the nodes that a hop reached numbered, and its edges as a block.

    Where seeds grow trees, sources are in those of their destinations.
    """
    num_seen = len(batch.n_id)
    slot = batch.slot
    compacted: Compacted | CompactedElements
    if slot is None:
        compacted = compact(batch.n_id, hop.neighbors)
    else:
        degrees = hop.indptr.diff()
        of_edges = slot[len(slot) - len(degrees) :].repeat_interleave(degrees, output_size=len(hop.neighbors))
        compacted = compact_elements(batch.n_id, slot, hop.neighbors, of_edges, graph.num_nodes)
        slot = compacted.slots
    types = typed_ids(graph, compacted.ids)
    block = Block(
        indptr=hop.indptr,
        indices=compacted.indices,
        num_src=len(compacted.ids),
        num_dst=len(hop.indptr) - 1,
        edge_ids=edge_ids,
        weight=hop.weights,
        types=types,
    )
    if expand == "all":
        blocks = (block, *batch.blocks)
    else:
        blocks = (block if not batch.blocks else _extend(batch.blocks[0], block),)
    return batch.replace(
        n_id=compacted.ids,
        slot=slot,
        types=types,
        blocks=blocks,
        num_sampled_nodes=(*batch.num_sampled_nodes, len(compacted.ids) - num_seen),
        num_sampled_edges=(*batch.num_sampled_edges, block.num_edges),
    )


def count_new(before: MiniBatch, after: MiniBatch) -> dict[str, int]:
    """Return the nodes and edges that sampling added to a batch."""
    hops = len(before.num_sampled_edges)
    return {
        "nodes": sum(after.num_sampled_nodes[len(before.num_sampled_nodes) :]),
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
        types=hop.types,
    )
