"""One hop over a graph in shards: the owners of the frontier sample for the ranks that need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.graphs.rows import starts_of
from headrace.ops.sampling.sample import Hop as PickedEdges
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.edge_exchange import SampledEdges, return_edges
from headrace.pipeline.distributed.exchange import Exchange, exchange_ids
from headrace.pipeline.distributed.graph_shard import GraphShard
from headrace.pipeline.distributed.traffic import Traffic
from headrace.pipeline.lowered.compact import count_new, with_hop
from headrace.pipeline.lowered.sample_hop import RuleHop
from headrace.pipeline.partition.router import RankRouter
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import MINIBATCH, Counts, Runner


@dataclass(frozen=True, eq=False, repr=False)
class SampleAtOwners(RuleHop):
    """Sample in-neighbours of the frontier where the rows of the graph are, and compact them: two rounds.

    The frontier goes to the owners of its nodes, the picked edges come back: the hop of a fully partitioned graph
    in FastSample (arXiv 2311.17847). The pass ``sample_at_owners`` makes it from hops over shards. ``loader.stats()``
    counts as sent the ids that this rank asks others for, and the degrees, edges, ids of edges and weights that it
    returns to them. Each bound of trees in time takes a round more.

    Parameters
    ----------
    hop
        How, of a graph in shards.
    layer, expand
        As for :class:`~headrace.pipeline.lowered.sample_hop.SampleHop`.
    """

    name: ClassVar[str] = "sample_at_owners"
    lowered: ClassVar[bool] = True

    gives: ClassVar[str | None] = MINIBATCH
    collective: ClassVar[bool] = True

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    @property
    def cooperates(self) -> bool:
        return False

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()
        graph = self.graph
        assert isinstance(graph, GraphShard)  # the pass makes the stage of shards
        router = RankRouter(graph.partition)
        excluded = self.hop.excluder(settings)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            frontier = self.frontier(batch)
            elements = self.hop.elements(batch, frontier)
            exchange = exchange_ids(frontier, router, comm, slot=elements.get("slots"))
            asked = _at_owners(elements, exchange, comm)
            hop = self.hop.pick(exchange.owned, asked, batch, settings, excluded=excluded(batch))
            columns = [hop.neighbors]
            if self.edge_ids:
                columns.append(graph.original_edge_ids(hop.positions))
            if hop.weights is not None:
                columns.append(hop.weights)
            picked = SampledEdges(hop.indptr.diff(), tuple(columns))
            edges, edge_bytes = return_edges(picked, exchange, comm)
            returned = PickedEdges(
                starts_of(edges.degrees),
                edges.columns[0],
                torch.empty(0, dtype=torch.int64, device="cpu"),
                edges.columns[-1] if hop.weights is not None else None,
            )
            found = with_hop(batch, returned, edges.columns[1] if self.edge_ids else None, self.expand, graph)
            num_bounds = sum(elements.get(name) is not None for name in _BOUNDS)
            sent = exchange.wanted.element_size() * (1 + num_bounds) * exchange.num_received
            traffic = Traffic(2 + num_bounds, 4 + num_bounds, sent + edge_bytes)
            return found, {**count_new(batch, found), **asdict(traffic)}

        return run


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
