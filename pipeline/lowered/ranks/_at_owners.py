"""Hops over a graph in shards: the owners of nodes find edges for the ranks that need them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops import Hop as PickedEdges
from headrace.ops import NeighborRule, sample_hop, unique_and_inverse
from headrace.ops.graphs.rows import starts_of
from headrace.ops.sampling.induced_trees import induced_in_trees
from headrace.pipeline.data import Block, GraphView, MiniBatch, trusted
from headrace.pipeline.data.graph_machinery import rows_of_nodes
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.edge_exchange import SampledEdges, return_edges
from headrace.pipeline.distributed.exchange import Exchange, Traffic, exchange_ids
from headrace.pipeline.lowered._excluded import excluder, is_left_out
from headrace.pipeline.lowered._finders import Finder, FoundLayer, SampledHop
from headrace.pipeline.lowered.induce_hop import InduceHop
from headrace.pipeline.lowered.sample_hop import HopStage, SampleHop
from headrace.pipeline.partition.router import RankRouter
from headrace.pipeline.plan import Counts, PlanError, RankTraits, Runner, RunSettings
from headrace.pipeline.plan.traits import shard_of_graph


@dataclass(frozen=True)
class AtOwners(Finder):
    """The owners of the frontier find its edges, for each rank that asks: two rounds.

    The frontier goes to the owners of its nodes, the edges come back: the hop of a fully partitioned graph in
    FastSample (arXiv 2311.17847). The pass ``sample_at_owners`` gives it to hops over shards. ``loader.stats()`` counts
    as sent the ids that this rank asks others for, and the degrees, edges, ids of edges and weights that it returns to
    them. Each bound of trees in time takes a round more.
    """

    ranks: ClassVar[RankTraits] = RankTraits(collective=True, cooperates=False)

    def check(self, stage: HopStage) -> None:
        if isinstance(stage, InduceHop) and stage.exclude is not None and stage.exclude.by_tree:
            raise PlanError(
                f'{stage.origin.name}: expected exclude_seed_edges(per="batch") over a graph in shards, got per="seed"'
                "; owners send the in-edges of a node once for all trees: let ranks make batches together, "
                ".loader(cooperative=True), or leave out the edges of all pairs"
            )

    def sampler(self, stage: SampleHop, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()
        graph, how = stage.graph, stage.hop
        router = _router(graph)
        excluded = how.excluder(settings)

        def run(batch: MiniBatch) -> tuple[SampledHop, Counts]:
            frontier = stage.frontier(batch)
            elements = how.elements(batch, frontier)
            exchange = exchange_ids(frontier, router, comm, slot=elements.get("slots"))
            asked = _at_owners(elements, exchange, comm)
            hop = how.pick(exchange.owned, asked, batch, settings, excluded=excluded(batch))
            columns = [hop.neighbors]
            if how.edge_ids:
                columns.append(graph.original_edge_ids(hop.positions))
            if hop.weights is not None:
                columns.append(hop.weights)
            edges, edge_bytes = return_edges(SampledEdges(hop.indptr.diff(), tuple(columns)), exchange, comm)
            returned = PickedEdges(
                starts_of(edges.degrees),
                edges.columns[0],
                torch.empty(0, dtype=torch.int64, device=frontier.device),
                edges.columns[-1] if hop.weights is not None else None,
            )
            num_bounds = sum(elements.get(name) is not None for name in _BOUNDS)
            sent = exchange.wanted.element_size() * (1 + num_bounds) * exchange.num_received
            traffic = Traffic(2 + num_bounds, 4 + num_bounds, sent + edge_bytes)
            return SampledHop(batch, returned, edges.columns[1] if how.edge_ids else None), asdict(traffic)

        return run

    def inducer(self, stage: InduceHop, settings: RunSettings) -> Runner:
        """Return the function that finds all edges among the nodes of each tree of this rank.

        The nodes go to their owners, each once for all trees, and all their in-edges come back, of which this rank
        keeps those that begin and end in one tree.
        """
        comm, _ = settings.channels()
        graph, rows, threads = stage.graph, rows_of_nodes(stage.graph), settings.num_threads
        router = _router(graph)
        excluded = excluder(stage.exclude, graph, settings)

        def run(batch: MiniBatch) -> tuple[FoundLayer, Counts]:
            assert batch.slot is not None  # the pass makes it of trees
            nodes, node_of = unique_and_inverse(batch.n_id)
            exchange = exchange_ids(nodes, router, comm)
            hop = sample_hop(rows, graph.indices, exchange.owned, NeighborRule(-1), 0, num_threads=threads)
            degrees, neighbors, positions = hop.indptr.diff(), hop.neighbors, hop.positions
            left_out = excluded(batch)
            if left_out is not None:
                stays = ~is_left_out(left_out, positions, None)
                degrees, neighbors, positions = starts_of(stays)[hop.indptr].diff(), neighbors[stays], positions[stays]
            columns = (neighbors, graph.original_edge_ids(positions)) if stage.edge_ids else (neighbors,)
            edges, edge_bytes = return_edges(SampledEdges(degrees, columns), exchange, comm)
            indptr, indices, kept = _among(nodes, edges)
            subgraph = induced_in_trees(indptr, indices, node_of, batch.slot, num_threads=threads)
            edge_ids = edges.columns[1][kept[subgraph.positions]] if stage.edge_ids else None
            size = len(batch.n_id)
            block = trusted(Block(subgraph.indptr, subgraph.indices, size, size, edge_ids, types=batch.types))
            traffic = Traffic(2, 4, exchange.wanted.element_size() * exchange.num_received + edge_bytes)
            return FoundLayer(batch, block), asdict(traffic)

        return run


def _router(graph: GraphView) -> RankRouter:
    shard = shard_of_graph(graph)
    assert shard is not None  # the pass gives the finder to hops over shards
    return RankRouter(shard.partition)


#: What bounds elements in time.
_BOUNDS = ("bounds", "lows")


def _at_owners(elements: Mapping[str, Tensor | None], exchange: Exchange, comm: Comm) -> Mapping[str, Tensor | None]:
    """Return what is known of the elements that ranks ask this one for; one round for each bound."""
    if not elements:
        return {}
    known: dict[str, Tensor | None] = {"slots": exchange.owned_slot}
    for name in _BOUNDS:
        values = elements.get(name)
        if values is None:
            continue
        assert exchange.places is not None  # nobody has renumbered it
        of_wanted = torch.empty_like(values)
        of_wanted[exchange.places] = values
        of_owned = values.new_empty(len(exchange.owned))
        of_owned[exchange.asked_rows] = exchange.collect(of_wanted, comm)
        known[name] = of_owned
    return known


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
