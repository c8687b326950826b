"""One hop of a layer-wise rule, sampled by all ranks together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.distributed.rank_reducer import RankReducer
from headrace.pipeline.lowered.sample_hop import RuleHop, SampledHop
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.plan.checks import check_partition_fits
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Runner, Stage
from headrace.pipeline.plan.traits import Divided


@dataclass(frozen=True, eq=False, repr=False)
class SampleHopTogether(RuleHop):
    """Sample in-neighbours of owned nodes by a rule that depends on the whole frontier, that of all ranks.

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
    hop, layer, expand
        As for :class:`~headrace.pipeline.lowered.sample_hop.SampleHop`.
    partition
        The owner of each node; one part for each rank.
    """

    name: ClassVar[str] = "sample_hop_together"
    lowered: ClassVar[bool] = True

    collective: ClassVar[bool] = True

    partition: Partition = field(kw_only=True)

    def divided(self) -> tuple[Divided, ...]:
        return (*super().divided(), Divided("the partition", self.partition))

    def check(self, before: tuple[Stage, ...]) -> None:
        super().check(before)
        check_partition_fits(self.partition, self.origin.name, self.graph)

    def runner(self, settings: RunSettings) -> Runner:
        comm, _ = settings.channels()
        excluded = self.hop.excluder(settings)

        def run(batch: MiniBatch) -> tuple[SampledHop, Counts]:
            reducer = RankReducer(self.partition, comm)
            hop = self.pick(batch, settings, reducer=reducer, excluded=excluded(batch))
            return SampledHop(batch, hop), asdict(reducer.traffic)

        return run
