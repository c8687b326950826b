"""One hop over a graph in shards: the owners of the frontier sample for the ranks that need it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

import torch

from headrace.ops.sampling.sample import Hop
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.distributed.edge_exchange import SampledEdges, return_edges
from headrace.pipeline.distributed.exchange import exchange_ids
from headrace.pipeline.distributed.graph_shard import GraphShard
from headrace.pipeline.distributed.traffic import Traffic
from headrace.pipeline.lowered.compact import count_new, with_hop
from headrace.pipeline.lowered.hop import RuleHop
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import MINIBATCH, Counts, Runner
from headrace.pipeline.storage.router import RankRouter


@dataclass(frozen=True, eq=False, repr=False)
class SampleAtOwners(RuleHop):
    """Sample in-neighbours of the frontier where the rows of the graph are, and compact them: two rounds.

    The frontier goes to the owners of its nodes, the picked edges come back: the hop of a fully partitioned graph
    in FastSample (arXiv 2311.17847). The pass ``sample_at_owners`` makes it from hops over shards. ``loader.stats()``
    counts as sent the ids that this rank asks others for, and the degrees, edges, ids of edges and weights that it
    returns to them.

    Parameters
    ----------
    graph
        A shard.
    layer, rule, key_layer, batch_dependency, weight, expand, edge_ids
        As for :class:`~headrace.pipeline.lowered.hop.SampleHop`.
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

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            exchange = exchange_ids(self.frontier(batch), router, comm)
            hop = self.sample(batch, settings, frontier=exchange.owned)
            columns = [hop.neighbors]
            if self.edge_ids:
                columns.append(graph.original_edge_ids(hop.positions))
            if hop.weights is not None:
                columns.append(hop.weights)
            picked = SampledEdges(hop.indptr.diff(), tuple(columns))
            edges, edge_bytes = return_edges(picked, exchange, comm)
            indptr = torch.zeros(len(edges.degrees) + 1, dtype=torch.int64)
            torch.cumsum(edges.degrees, 0, out=indptr[1:])
            returned = Hop(
                indptr,
                edges.columns[0],
                torch.empty(0, dtype=torch.int64),
                edges.columns[-1] if hop.weights is not None else None,
            )
            found = with_hop(batch, returned, edges.columns[1] if self.edge_ids else None, self.expand, graph.num_nodes)
            traffic = Traffic(2, 4, exchange.wanted.element_size() * exchange.num_received + edge_bytes)
            return found, {**count_new(batch, found), **asdict(traffic)}

        return run
