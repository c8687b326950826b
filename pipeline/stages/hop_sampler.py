"""What every sampler that works hop by hop shares: its parameters, their checks and its expansion."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ops.sampling.rules import HopRule, Rule
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.hop import Expand, SampleHop
from headrace.pipeline.lowered.translate_ids import in_graph_ids
from headrace.pipeline.plan.checks import check_edge_ids, check_expand, check_flags, check_weight
from headrace.pipeline.plan.fanouts import Counts as FanoutsByHop
from headrace.pipeline.plan.fanouts import counts_by_relation, rules_of
from headrace.pipeline.plan.stage import MacroStage, Stage
from headrace.pipeline.stages.sampler import Sampler


@dataclass(frozen=True, eq=False, repr=False)
class HopSampler(Sampler, MacroStage):
    """Base class of hop-by-hop samplers. A subclass names the rule of each hop."""

    heeds_types: ClassVar[bool] = True

    fanouts: FanoutsByHop
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    @abstractmethod
    def rule(self, fanout: int) -> Rule:
        """Return the rule by which a hop with this fanout picks among the in-edges of a node."""

    def key_layer(self, layer: int) -> int:
        """Return the layer that keys the randomness of hop ``layer``."""
        return layer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_expand(self.name, self.expand)
        check_flags(self, "edge_ids")
        check_weight(self.name, self.graph, self.weight)
        object.__setattr__(self, "fanouts", counts_by_relation(self.name, "fanout", self.fanouts, self.graph))
        check_edge_ids(self.name, self.graph, self.edge_ids)

    @property
    def num_hops(self) -> int:
        return len(self.fanouts)

    def parts(self) -> tuple[Stage, ...]:
        return self.hops(self.graph)

    def hops(
        self,
        graph: GraphView,
        *,
        disjoint: bool = False,
        time: str | None = None,
        window: float | None = None,
        strictly_before: bool = False,
    ) -> tuple[Stage, ...]:
        """Return the hops and their compactions, over this graph or the same one sorted by time."""
        return hops(
            graph,
            rules_of(self.graph, self.fanouts, self.rule),
            [self.key_layer(layer) for layer in range(len(self.fanouts))],
            batch_dependency=self.batch_dependency,
            weight=self.weight,
            expand=self.expand,
            edge_ids=self.edge_ids,
            disjoint=disjoint,
            time=time,
            window=window,
            strictly_before=strictly_before,
        )


def hops(
    graph: GraphView,
    rules: Sequence[HopRule],
    key_layers: Sequence[int],
    *,
    batch_dependency: float = 1,
    weight: str | None = None,
    expand: Expand = "all",
    edge_ids: bool = True,
    disjoint: bool = False,
    time: str | None = None,
    window: float | None = None,
    strictly_before: bool = False,
) -> tuple[Stage, ...]:
    """Return the stages that a sampler stands for: a hop and its compaction for each rule."""
    pieces: list[Stage] = []
    for layer, (rule, key_layer) in enumerate(zip(rules, key_layers, strict=True)):
        hop = SampleHop(
            graph,
            rule,
            layer=layer,
            key_layer=key_layer,
            batch_dependency=batch_dependency,
            weight=weight,
            expand=expand,
            edge_ids=edge_ids,
            disjoint=disjoint,
            time=time,
            window=window,
            strictly_before=strictly_before,
        )
        pieces += [hop, Compact(graph, expand=expand, edge_ids=edge_ids)]
    return in_graph_ids(graph, pieces)
