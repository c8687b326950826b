"""The subgraphs of trees over a graph in shards: the owners of nodes say which in-edges there are."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.graphs.rows import starts_of
from headrace.ops.sampling.compact import unique_and_inverse
from headrace.ops.sampling.induced_trees import induced_in_trees
from headrace.ops.sampling.rules import NeighborRule
from headrace.ops.sampling.sample import sample_hop
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.distributed.edge_exchange import SampledEdges, return_edges
from headrace.pipeline.distributed.exchange import exchange_ids
from headrace.pipeline.distributed.graph_shard import GraphShard
from headrace.pipeline.distributed.traffic import Traffic
from headrace.pipeline.lowered.excluded import SeedEdges, excluder, is_left_out
from headrace.pipeline.lowered.square_block import with_square_block
from headrace.pipeline.partition.router import RankRouter
from headrace.pipeline.plan.checks import check_graph, check_items_fit, divided_graph
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner, Stage
from headrace.pipeline.plan.traits import Divided


@dataclass(frozen=True, eq=False, repr=False)
class InduceAtOwners(MapStage):
    """Take all edges among the nodes of each tree of this rank: two rounds.

    The pass ``sample_at_owners`` makes it of ``induce_subgraph`` over shards. The nodes go to their owners, each once
    for all trees, and all their in-edges come back, of which this rank keeps those that begin and end in one tree.

    Parameters
    ----------
    graph
        A shard.
    edge_ids
        Whether the block carries the original ids of its edges.
    exclude
        Edges between seeds that are not there; None for no such edges.
    """

    name: ClassVar[str] = "induce_at_owners"
    lowered: ClassVar[bool] = True
    reads_at: ClassVar[Place | None] = CPU
    collective: ClassVar[bool] = True

    graph: GraphView
    edge_ids: bool = field(default=True, kw_only=True)
    exclude: SeedEdges | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph, with_types=True)

    @property
    def cooperates(self) -> bool:
        return False

    @property
    def reads(self) -> frozenset[str]:
        of_exclusion = frozenset() if self.exclude is None else frozenset({"seeds"})
        return frozenset({"n_id", "num_sampled_nodes", "slot"}) | of_exclusion

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"blocks", "num_sampled_nodes", "num_sampled_edges"})

    def divided(self) -> tuple[Divided, ...]:
        return divided_graph(self.graph)

    def check(self, before: tuple[Stage, ...]) -> None:
        check_items_fit(self, self.graph, before)
        if self.exclude is not None and self.exclude.by_tree:
            raise PlanError(
                f'{self.origin.name}: expected exclude_seed_edges(per="batch") over a graph in shards, got per="seed"; '
                "owners send the in-edges of a node once for all trees: let ranks make batches together, "
                ".loader(cooperative=True), or leave out the edges of all pairs"
            )

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()
        graph, threads = self.graph, settings.num_threads
        assert isinstance(graph, GraphShard)  # the pass makes the stage of shards
        router = RankRouter(graph.partition)
        excluded = excluder(self.exclude, graph, settings)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            assert batch.slot is not None  # the pass makes it of trees
            nodes, node_of = unique_and_inverse(batch.n_id)
            exchange = exchange_ids(nodes, router, comm)
            hop = sample_hop(graph.indptr, graph.indices, exchange.owned, NeighborRule(-1), 0, num_threads=threads)
            degrees, neighbors, positions = hop.indptr.diff(), hop.neighbors, hop.positions
            left_out = excluded(batch)
            if left_out is not None:
                stays = ~is_left_out(left_out, positions, None)
                degrees, neighbors, positions = starts_of(stays)[hop.indptr].diff(), neighbors[stays], positions[stays]
            columns = (neighbors, graph.original_edge_ids(positions)) if self.edge_ids else (neighbors,)
            edges, edge_bytes = return_edges(SampledEdges(degrees, columns), exchange, comm)
            indptr, indices, kept = _among(nodes, edges)
            subgraph = induced_in_trees(indptr, indices, node_of, batch.slot, num_threads=threads)
            edge_ids = edges.columns[1][kept[subgraph.positions]] if self.edge_ids else None
            size = len(batch.n_id)
            block = Block(subgraph.indptr, subgraph.indices, size, size, edge_ids, types=batch.types)
            traffic = Traffic(2, 4, exchange.wanted.element_size() * exchange.num_received + edge_bytes)
            return with_square_block(batch, block), {"induced_edges": block.num_edges, **asdict(traffic)}

        return run


def _among(nodes: Tensor, edges: SampledEdges) -> tuple[Tensor, Tensor, Tensor]:
    """Return the edges whose sources are nodes, too, as a CSC of their places, and which of all edges they are.

    Parameters
    ----------
    nodes: int64[n]
        Distinct nodes.
    edges
        Their in-edges.
    """
    ids, order = nodes.sort()
    sources = edges.columns[0].long()
    places = torch.searchsorted(ids, sources).clamp(max=max(len(ids) - 1, 0))
    stays = ids[places] == sources if len(ids) else sources.bool()
    indptr = starts_of(stays)[starts_of(edges.degrees)]
    kept = stays.nonzero().squeeze(1)
    return indptr, order[places[kept]].to(edges.columns[0].dtype), kept
