"""The whole in-neighbourhood of the seeds: nothing is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ops.sampling.rules import NeighborRule
from headrace.pipeline.lowered.hop import Hop
from headrace.pipeline.lowered.sample_hop import Expand
from headrace.pipeline.plan.checks import MOST_HOPS, check_edge_ids, check_expand, check_flags, make_positive
from headrace.pipeline.plan.fanouts import rules_of
from headrace.pipeline.plan.stage import MacroStage, Stage
from headrace.pipeline.plan.verbs import verb
from headrace.pipeline.stages.hop_sampler import sampled
from headrace.pipeline.stages.sampler import Sampler


@verb("sample_in_subgraph")
@dataclass(frozen=True, eq=False, repr=False)
class SampleInSubgraph(Sampler, MacroStage):
    """Take all in-edges, hop by hop: ``sample_neighbor`` with fanouts of -1.

    Parameters
    ----------
    graph
        The graph to take the edges from.
    num_hops
        The number of hops from the seeds; 1 (default) gives the subgraph of all edges that end at a seed.
    expand, edge_ids
        As for ``sample_neighbor``. With ``"all"`` blocks repeat edges, as layers need them; with ``"new"`` each edge is
        in one block only.

    Raises
    ------
    InputError
        For a number of hops below 1, a subject that is not a graph, or an unknown hop rule.
    """

    with_types: ClassVar[bool] = True

    num_hops: int = field(default=1, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_expand(self.name, self.expand)
        make_positive(self, "num_hops", most=MOST_HOPS)
        check_flags(self, "edge_ids")
        check_edge_ids(self.name, self.graph, self.edge_ids)

    def parts(self) -> tuple[Stage, ...]:
        rules = rules_of(self.graph, (-1,) * self.num_hops, NeighborRule)
        hops = [Hop(self.graph, rule, key_layer=layer, edge_ids=self.edge_ids) for layer, rule in enumerate(rules)]
        return sampled(hops, self.expand)
