"""One hop of a layer-wise rule, sampled by all ranks together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ops.sampling.sample import Hop
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.distributed.rank_reducer import RankReducer
from headrace.pipeline.distributed.traffic import Traffic
from headrace.pipeline.lowered.hop import RuleHop
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.stage import Runner, RunSettings, Stage, verb
from headrace.pipeline.stages.checks import check_partition_fits


@dataclass(frozen=True)
class HopTogether(Hop):
    """A rank's share of a hop.

    Attributes
    ----------
    traffic
        What it took to agree with the other ranks.
    """

    traffic: Traffic = field(default_factory=Traffic)


@verb("sample_hop_together")
@dataclass(frozen=True, eq=False, repr=False)
class SampleHopTogether(RuleHop):
    """Sample in-neighbours of owned vertices by a rule that depends on the whole frontier, that of all ranks.

    The edges of all ranks, and their weights, are those that one process would sample. The pass ``cooperative`` puts it
    in the place of ``sample_hop`` for LABOR-1, ..., LABOR-* (arXiv 2210.13339), LADIES (arXiv 1911.07323) and PLADIES.

    ``loader.stats()`` counts, for each batch,

    ============  ====================================  =====================================
    rule          rounds                                collectives
    ============  ====================================  =====================================
    LABOR-i       1 + 2 i                               2 + 2 i
    LABOR-*       2 + 3 (1 + rounds of importance)      3 + 3 (1 + rounds of importance)
    LADIES        6                                     8
    PLADIES       5 + steps to find c (2 to about 6)    6 + steps
    ============  ====================================  =====================================

    where (P)LADIES stops after 5 rounds, of 6 collectives, if there are no more sources than it is to draw. See
    :class:`~headrace.pipeline.distributed.rank_reducer.RankReducer` for what is sent.

    Parameters
    ----------
    graph, rule, layer, weight, expand, key_layer, edge_ids
        As for :class:`~headrace.pipeline.lowered.hop.SampleHop`.
    partition
        The owner of each vertex; one part for each rank.
    """

    collective: ClassVar[bool] = True

    partition: Partition = field(kw_only=True)

    def check(self, upstream: tuple[Stage, ...]) -> None:
        super().check(upstream)
        check_partition_fits(self.verb, self.partition, self.verb, self.graph)

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()

        def run(batch: MiniBatch) -> MiniBatch:
            reducer = RankReducer(self.partition, comm)
            hop = self.sample(batch, settings, reducer=reducer)
            share = HopTogether(hop.indptr, hop.neighbors, hop.positions, hop.weights, reducer.traffic)
            return batch.replace(hop=share)

        return run

    def counts(self, before: MiniBatch, after: MiniBatch) -> dict[str, int]:
        assert isinstance(after.hop, HopTogether)
        traffic = after.hop.traffic
        return {
            **super().counts(before, after),
            "rounds": traffic.rounds,
            "collectives": traffic.collectives,
            "sent_bytes": traffic.sent_bytes,
        }
