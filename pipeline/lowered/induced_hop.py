"""One hop of all ranks together that reaches no new node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.graphs.rows import starts_of
from headrace.ops.partition.owners import group_by_owner
from headrace.ops.sampling.compact import unique_and_inverse
from headrace.ops.sampling.rules import NeighborRule
from headrace.ops.sampling.sample import Hop, sample_hop
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.lowered.hop import HopStage, SampledHop
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.checks import check_partition_fits
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Divided, Runner, Stage


@dataclass(frozen=True, eq=False, repr=False)
class InducedHop(HopStage):
    """Take the in-edges of owned nodes that come from nodes of the batch, whichever rank owns these.

    The pass ``cooperative`` puts it in the place of ``sample_induced``. A rank knows the nodes of the batch that it
    owns, so each source of another one is asked for there: two rounds, of the sources and of a byte for each in answer.

    Parameters
    ----------
    graph, layer
        As for :class:`~headrace.pipeline.lowered.hop.HopStage`.
    partition
        The owner of each node; one part for each rank.
    edge_ids
        Whether blocks carry the original ids of their edges.
    """

    name: ClassVar[str] = "induced_hop"
    lowered: ClassVar[bool] = True
    collective: ClassVar[bool] = True

    partition: Partition = field(kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def divided(self) -> tuple[Divided, ...]:
        return (*super().divided(), Divided("the partition", self.partition))

    def check(self, before: tuple[Stage, ...]) -> None:
        super().check(before)
        check_partition_fits(self.partition, self.origin.name, self.graph)

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()
        graph, everything = self.graph, NeighborRule(-1)

        def run(batch: MiniBatch) -> tuple[SampledHop, Counts]:
            nodes = batch.n_id
            hop = sample_hop(graph.indptr, graph.indices, nodes, everything, 0, num_threads=settings.num_threads)
            sources, source_of = unique_and_inverse(hop.neighbors.long())
            known, sent_bytes = in_batch(sources, nodes, self.partition, comm)
            kept = known[source_of]
            induced = Hop(starts_of(kept)[hop.indptr], hop.neighbors[kept], hop.positions[kept], None)
            return SampledHop(batch, induced), {"rounds": 2, "collectives": 3, "sent_bytes": sent_bytes}

        return run


def in_batch(sources: Tensor, owned: Tensor, partition: Partition, comm: Comm) -> tuple[Tensor, int]:
    """Ask the owners of nodes which of these are in the batch.

    Parameters
    ----------
    sources: int64[n]
        Distinct nodes.
    owned: int64[num_owned]
        The nodes of the batch that this rank owns.
    partition
        The owners.
    comm
        The channel.

    Returns
    -------
    Tensor
        bool[n].
    int
        Bytes that this rank has sent to others: ids, and answers to those of others.
    """
    asked = group_by_owner(sources, partition.owner(sources), partition.num_parts)
    receive_counts = asked.counts.tolist()
    send_counts = comm.all_to_all_counts(receive_counts)
    wanted = comm.all_to_all(asked.ids, receive_counts, send_counts)
    answers = comm.all_to_all(torch.isin(wanted, owned).to(torch.uint8), send_counts, receive_counts)
    num_asked, num_answered = (sum(counts) - counts[comm.rank] for counts in (receive_counts, send_counts))
    return answers[asked.places].bool(), 8 * num_asked + num_answered
