"""Hops of ranks that make batches together and need each other's nodes to find edges."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops import Hop, NeighborRule, group_by_owner, sample_hop, unique_and_inverse
from headrace.ops.graphs.rows import starts_of
from headrace.ops.sampling.compact import element_keys
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph_machinery import rows_of_nodes
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.rank_reducer import RankReducer
from headrace.pipeline.lowered._excluded import excluder, is_left_out
from headrace.pipeline.lowered._finders import Finder, SampledHop
from headrace.pipeline.lowered.induce_hop import InduceHop
from headrace.pipeline.lowered.sample_hop import HopStage, SampleHop
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan import Counts, Divided, RankTraits, Runner, RunSettings, check_partition_fits


@dataclass(frozen=True)
class Together(Finder):
    """Each rank finds the in-edges of the nodes that it owns, and asks others about theirs.

    The pass ``cooperative`` gives it to layer-wise rules, LABOR-1, ..., LABOR-* (arXiv 2210.13339), LADIES (arXiv
    1911.07323) and PLADIES, and to subgraphs. The edges of all ranks, and their weights, are those that one process
    would find.

    ``loader.stats()`` counts, for each batch,

    ============  ====================================  =====================================
    rule          rounds                                collectives
    ============  ====================================  =====================================
    LABOR-i       1 + 2 i                               2 + 2 i
    LABOR-*       2 + 3 (1 + rounds of importance)      3 + 3 (1 + rounds of importance)
    LADIES        6                                     8
    PLADIES       5 + steps to find c (2 to about 6)    6 + steps
    subgraph      2                                     3
    ============  ====================================  =====================================

    where (P)LADIES stops after 5 rounds, of 6 collectives, if there are no more sources than it is to draw. See
    :class:`~headrace.pipeline.distributed.rank_reducer.RankReducer` for what is sent.

    Parameters
    ----------
    partition
        The owner of each node; one part for each rank.
    """

    ranks: ClassVar[RankTraits] = RankTraits(collective=True)

    partition: Partition

    def divided(self) -> tuple[Divided, ...]:
        return (Divided("the partition", self.partition),)

    def check(self, stage: HopStage) -> None:
        check_partition_fits(self.partition, stage.origin.name, stage.graph)

    def sampler(self, stage: SampleHop, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()
        excluded = stage.hop.excluder(settings)

        def run(batch: MiniBatch) -> tuple[SampledHop, Counts]:
            reducer = RankReducer(self.partition, comm)
            hop = stage.pick(batch, settings, reducer=reducer, excluded=excluded(batch))
            return SampledHop(batch, hop), asdict(reducer.traffic)

        return run

    def inducer(self, stage: InduceHop, settings: RunSettings) -> Runner:
        """Return the function that takes the in-edges of owned nodes from nodes of the batch, whoever owns these.

        A rank knows the nodes of the batch that it owns, so each source of another one is asked for there: two rounds,
        of the sources and of a byte for each in answer. Of trees, edges are kept that begin and end in one.
        """
        comm, _ = settings.channels()
        graph, rows, everything = stage.graph, rows_of_nodes(stage.graph), NeighborRule(-1)
        excluded = excluder(stage.exclude, graph, settings)

        def run(batch: MiniBatch) -> tuple[SampledHop, Counts]:
            hop = sample_hop(rows, graph.indices, batch.n_id, everything, 0, num_threads=settings.num_threads)
            owned, elements, of_edges = batch.n_id, hop.neighbors.long(), None
            if batch.slot is not None:
                owned = element_keys(owned, batch.slot, graph.num_nodes)
                of_edges = batch.slot.repeat_interleave(hop.indptr.diff(), output_size=len(elements))
                elements = element_keys(elements, of_edges, graph.num_nodes)
            sources, source_of = unique_and_inverse(elements)
            owners = self.partition.owner(sources if batch.slot is None else sources % graph.num_nodes)
            known, sent_bytes = _in_batch(sources, owners, owned, comm)
            kept = known[source_of]
            left_out = excluded(batch)
            if left_out is not None:
                kept &= ~is_left_out(left_out, hop.positions, of_edges)
            induced = Hop(starts_of(kept)[hop.indptr], hop.neighbors[kept], hop.positions[kept], None)
            return SampledHop(batch, induced), {"rounds": 2, "collectives": 3, "sent_bytes": sent_bytes}

        return run


def _in_batch(sources: Tensor, owners: Tensor, owned: Tensor, comm: Comm) -> tuple[Tensor, int]:
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
