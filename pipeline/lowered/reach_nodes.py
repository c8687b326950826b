"""A hop of which ranks that make batches together want the nodes alone: its edges give way to those of a subgraph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.lowered.compact import count_new, with_hop
from headrace.pipeline.lowered.sample_hop import RuleHop
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import MINIBATCH, Counts, Runner


@dataclass(frozen=True, eq=False, repr=False)
class ReachNodes(RuleHop):
    """Sample in-neighbours of the nodes that this rank owns and that the hop before was the first to reach.

    The pass ``cooperative`` puts it in the place of ``sample_hop`` with ``expand="new"`` and of the compaction behind
    it, where ``induce_subgraph`` follows. Ranks cannot extend the one block of all hops, as its sources move to their
    owners in between, but there it is not wanted. Behind an exchange of ids the last nodes of a rank are those that
    nobody had reached before, as each node is in the list of one rank.

    Parameters
    ----------
    hop, layer, expand
        As for :class:`~headrace.pipeline.lowered.sample_hop.SampleHop`.
    """

    name: ClassVar[str] = "reach_nodes"
    lowered: ClassVar[bool] = True

    gives: ClassVar[str | None] = MINIBATCH

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    @property
    def cooperates(self) -> bool:
        return self.hop.rule.per_destination

    def runner(self, settings: RunSettings) -> Runner:
        excluded = self.hop.excluder(settings)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            hop = self.pick(batch, settings, excluded=excluded(batch))
            found = with_hop(batch, hop, None, "all", self.graph)
            return found, count_new(batch, found)

        return run
