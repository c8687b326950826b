"""Compaction: number the nodes that a hop reached and turn its edges into a block."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal

import torch

from headrace.ops.sampling.compact import Compacted, CompactedElements, compact, compact_elements
from headrace.ops.sampling.sample import Hop as PickedEdges
from headrace.pipeline.data import Block, GraphView, MiniBatch, trusted
from headrace.pipeline.data.graph_types import typed_ids
from headrace.pipeline.lowered._finders import FoundLayer, SampledHop
from headrace.pipeline.lowered.sample_hop import Expand, HopStage
from headrace.pipeline.plan.checks import check_expand, check_graph
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import HOP, Counts, MapStage, Runner, Stage
from headrace.pipeline.plan.traits import RankTraits

Keep = Literal["block", "nodes", "square"]


@dataclass(frozen=True, eq=False, repr=False)
class Compact(MapStage):
    """Give the nodes reached by the last hop local ids, in order of first occurrence, and keep its edges.

    Parameters
    ----------
    graph
        The graph that the hop sampled, for the original edge ids.
    expand
        The hop rule. ``"all"`` adds a block in front of the others. ``"new"`` extends the one block that all hops
        share.
    edge_ids
        Whether blocks carry the original ids of their edges.
    keep
        ``"block"``: the edges. ``"nodes"``: the nodes alone; the edges, without ids, only lead to them until a subgraph
        replaces them. Ranks that make batches together keep these of hops with ``expand="new"``: they cannot extend the
        one block, as its sources move to their owners in between. ``"square"``: the edges as the only block, of all
        layers of a model; hops are not told apart.
    times
        The number of layers for which the block is added, where hops reach no new node.
    """

    name: ClassVar[str] = "compact"
    lowered: ClassVar[bool] = True

    takes: ClassVar[frozenset[str]] = frozenset({HOP})
    reads: ClassVar[frozenset[str]] = frozenset({"n_id", "num_sampled_nodes"})
    writes: ClassVar[frozenset[str]] = frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})
    graph: GraphView
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)
    keep: Keep = field(default="block", kw_only=True)
    times: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph, with_types=True)
        check_expand(self.name, self.expand)

    @property
    def num_hops(self) -> int:
        return self.times - 1  # beyond the hop before it

    @property
    def ranks(self) -> RankTraits:
        # What is new to one rank may have been reached by another, and sources of the one block move.
        return RankTraits(cooperates=self.expand == "all" or self.keep == "nodes")

    def fits_behind(self, last: Stage) -> str | None:
        fits = (
            isinstance(last, HopStage)
            and last.graph is self.graph
            and last.expand == self.expand
            and (last.edge_ids == self.edge_ids or self.keep == "nodes")
        )
        return None if fits else "expected its graph, expand and edge_ids to be those of the hop before it"

    def runner(self, settings: RunSettings) -> Runner:
        del settings
        of_hop = partial(_of_hop, self)

        def run(found: SampledHop | FoundLayer) -> tuple[MiniBatch, Counts]:
            before = found.batch
            batch = of_hop(found) if isinstance(found, SampledHop) else _of_layer(found)
            counts: dict[str, int] = count_new(before, batch)
            if isinstance(found, FoundLayer) and found.counts:
                counts |= {name: self.times * count for name, count in found.counts.items()}
            if self.times > 1:
                batch = _repeated(batch, self.times)
                counts["edges"] *= self.times
            if self.keep == "square":
                if isinstance(found, FoundLayer) and found.nodes is None:
                    counts = {}  # no rank asked for nodes: the subgraph is counted alone
                counts["induced_edges"] = batch.num_sampled_edges[-1]
                batch = _squared(batch, before)
            return batch, counts

        return run


def _of_hop(stage: Compact, found: SampledHop) -> MiniBatch:
    """Return the batch with the edges that a hop has picked as a layer."""
    if stage.keep == "nodes":
        return with_hop(found.batch, found.hop, None, "all", stage.graph)
    edge_ids = found.edge_ids
    if edge_ids is None and stage.edge_ids:
        edge_ids = stage.graph.original_edge_ids(found.hop.positions)
    return with_hop(found.batch, found.hop, edge_ids, stage.expand, stage.graph)


def _of_layer(found: FoundLayer) -> MiniBatch:
    """Return the batch with a layer whose nodes have their numbers."""
    batch, block = found.batch, found.block
    n_id = batch.n_id if found.nodes is None else found.nodes
    return batch.replace(
        n_id=n_id,
        blocks=(block, *batch.blocks),
        exchanges=batch.exchanges if found.exchange is None else (found.exchange, *batch.exchanges),
        num_sampled_nodes=(*batch.num_sampled_nodes, len(n_id) - len(batch.n_id)),
        num_sampled_edges=(*batch.num_sampled_edges, block.num_edges),
    )


def _repeated(batch: MiniBatch, times: int) -> MiniBatch:
    """Return the batch with its first layer several times, which reach no new node."""
    more = times - 1
    # Where ranks share edges, the layer has an exchange; otherwise `exchange_ids` adds one for all its copies.
    exchanges = batch.exchanges[:1] * more if batch.exchanges and batch.exchanges[0].stays else ()
    return batch.replace(
        blocks=(*batch.blocks[:1] * more, *batch.blocks),
        exchanges=(*exchanges, *batch.exchanges),
        num_sampled_nodes=(*batch.num_sampled_nodes, *[0] * more),
        num_sampled_edges=(*batch.num_sampled_edges, *batch.num_sampled_edges[-1:] * more),
    )


def _squared(batch: MiniBatch, before: MiniBatch) -> MiniBatch:
    """Return the batch with its first layer alone, and the exchanges of that layer and of the seeds.

    Of ranks that make batches together, two exchanges are left: the first is that before each layer, of all nodes of
    the batch, the second leads from there to the seeds of each rank.
    """
    squared = with_square_block(batch, batch.blocks[0])
    if not batch.exchanges:
        return squared
    # The seeds are the first of the nodes that a rank owns, so rows are sent from the same places.
    of_seeds = replace(batch.exchanges[-1], owned=before.n_id, owned_slot=before.slot)
    of_layer = batch.exchanges[: len(batch.exchanges) - len(before.exchanges)]  # or `exchange_ids` adds it
    return squared.replace(exchanges=(*of_layer, of_seeds))


def with_square_block(batch: MiniBatch, block: Block) -> MiniBatch:
    """Return the batch with one block for all layers, in which hops are not told apart."""
    num_seeds = batch.num_sampled_nodes[0]
    return batch.replace(
        blocks=(block,),
        num_sampled_nodes=(num_seeds, len(batch.n_id) - num_seeds),
        num_sampled_edges=(block.num_edges,),
    )


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
    block = trusted(
        Block(
            indptr=hop.indptr,
            indices=compacted.indices,
            num_src=len(compacted.ids),
            num_dst=len(hop.indptr) - 1,
            edge_ids=edge_ids,
            weight=hop.weights,
            types=types,
        )
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

    return trusted(
        Block(
            indptr=torch.cat([block.indptr, hop.indptr[1:] + block.indptr[-1]]),
            indices=torch.cat([block.indices, hop.indices]),
            num_src=hop.num_src,
            num_dst=block.num_dst + hop.num_dst,
            edge_ids=joined(block.edge_ids, hop.edge_ids),
            weight=joined(block.weight, hop.weight),
            types=hop.types,
        ),
        like=block,
    )
