"""One hop of all ranks together that reaches no new node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.graphs.rows import starts_of
from headrace.ops.partition.owners import group_by_owner
from headrace.ops.sampling.compact import element_keys, unique_and_inverse
from headrace.ops.sampling.rules import NeighborRule
from headrace.ops.sampling.sample import Hop, sample_hop
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.lowered.excluded import SeedEdges, excluder, is_left_out
from headrace.pipeline.lowered.sample_hop import HopStage, SampledHop
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.checks import check_partition_fits
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Runner, Stage
from headrace.pipeline.plan.traits import Divided


@dataclass(frozen=True, eq=False, repr=False)
class InducedHop(HopStage):
    """Take the in-edges of owned nodes that come from nodes of the batch, whichever rank owns these.

    The pass ``cooperative`` puts it in the place of ``sample_induced`` and ``induce_subgraph``. A rank knows the nodes
    of the batch that it owns, so each source of another one is asked for there: two rounds, of the sources and of a
    byte for each in answer. Of trees, edges are kept that begin and end in one.

    Parameters
    ----------
    graph
        The graph.
    layer
        As for :class:`~headrace.pipeline.lowered.sample_hop.HopStage`.
    partition
        The owner of each node; one part for each rank.
    edge_ids
        Whether blocks carry the original ids of their edges.
    exclude
        Edges between seeds that are not there; None for no such edges.
    """

    name: ClassVar[str] = "induced_hop"
    lowered: ClassVar[bool] = True
    collective: ClassVar[bool] = True

    graph: GraphView
    partition: Partition = field(kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)
    exclude: SeedEdges | None = field(default=None, kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | (frozenset() if self.exclude is None else frozenset({"seeds"}))

    def divided(self) -> tuple[Divided, ...]:
        return (*super().divided(), Divided("the partition", self.partition))

    def check(self, before: tuple[Stage, ...]) -> None:
        super().check(before)
        check_partition_fits(self.partition, self.origin.name, self.graph)

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()
        graph, everything = self.graph, NeighborRule(-1)
        excluded = excluder(self.exclude, graph, settings)

        def run(batch: MiniBatch) -> tuple[SampledHop, Counts]:
            hop = sample_hop(graph.indptr, graph.indices, batch.n_id, everything, 0, num_threads=settings.num_threads)
            owned, elements, of_edges = batch.n_id, hop.neighbors.long(), None
            if batch.slot is not None:
                owned = element_keys(owned, batch.slot, graph.num_nodes)
                of_edges = batch.slot.repeat_interleave(hop.indptr.diff(), output_size=len(elements))
                elements = element_keys(elements, of_edges, graph.num_nodes)
            sources, source_of = unique_and_inverse(elements)
            owners = self.partition.owner(sources if batch.slot is None else sources % graph.num_nodes)
            known, sent_bytes = in_batch(sources, owners, owned, comm)
            kept = known[source_of]
            left_out = excluded(batch)
            if left_out is not None:
                kept &= ~is_left_out(left_out, hop.positions, of_edges)
            induced = Hop(starts_of(kept)[hop.indptr], hop.neighbors[kept], hop.positions[kept], None)
            return SampledHop(batch, induced), {"rounds": 2, "collectives": 3, "sent_bytes": sent_bytes}

        return run


def in_batch(sources: Tensor, owners: Tensor, owned: Tensor, comm: Comm) -> tuple[Tensor, int]:
    """Ask the owners of nodes which of these are in the batch.

    Parameters
    ----------
    sources: int64[n]
        Distinct nodes, or keys of nodes in trees.
    owners: int32[n]
        Their owners.
    owned: int64[num_owned]
        The nodes, or keys, of the batch that this rank owns.
    comm
        The channel.

    Returns
    -------
    Tensor
        bool[n].
    int
        Bytes that this rank has sent to others: ids, and answers to those of others.
    """
    asked = group_by_owner(sources, owners, comm.world_size)
    receive_counts = asked.counts.tolist()
    send_counts = comm.all_to_all_counts(receive_counts)
    wanted = comm.all_to_all(asked.ids, receive_counts, send_counts)
    answers = comm.all_to_all(torch.isin(wanted, owned).to(torch.uint8), send_counts, receive_counts)
    num_asked, num_answered = (sum(counts) - counts[comm.rank] for counts in (receive_counts, send_counts))
    return answers[asked.places].bool(), 8 * num_asked + num_answered
