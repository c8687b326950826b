"""What every sampler that works hop by hop shares: its parameters, their checks and its expansion."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ops.errors import GraphError, InputError
from headrace.ops.sample import LaborRule, NeighborRule
from headrace.pipeline.arrays import whole_number
from headrace.pipeline.graph import Graph
from headrace.pipeline.stage import MacroStage, Stage
from headrace.pipeline.stages.compact import Compact
from headrace.pipeline.stages.hop import Expand, SampleHop, check_graph_and_rule


@dataclass(frozen=True, eq=False, repr=False)
class HopSampler(MacroStage):
    """Base of the hop-by-hop samplers; a new one has only to name the rule of a hop."""

    on_host: ClassVar[bool] = True

    graph: Graph
    fanouts: tuple[int, ...]
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    @abstractmethod
    def rule(self, fanout: int) -> NeighborRule | LaborRule:
        """Return how a hop with this fanout chooses among the in-edges of one vertex."""

    def key_layer(self, layer: int) -> int:
        """Return the layer that keys the randomness of hop ``layer``."""
        return layer

    def __post_init__(self) -> None:
        check_graph_and_rule(self.verb, self.graph, self.expand)
        if self.weight is not None:
            try:
                self.graph.edge_weights(self.weight)
            except GraphError as error:
                raise GraphError(f"{self.verb}: {error}") from error
        object.__setattr__(self, "fanouts", _checked_fanouts(self.verb, self.fanouts))

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    def parts(self) -> tuple[Stage, ...]:
        pieces: list[Stage] = []
        for layer, fanout in enumerate(self.fanouts):
            hop = SampleHop(
                self.graph,
                self.rule(fanout),
                layer=layer,
                key_layer=self.key_layer(layer),
                weight=self.weight,
                expand=self.expand,
                edge_ids=self.edge_ids,
            )
            pieces += [hop, Compact(self.graph, expand=self.expand, edge_ids=self.edge_ids)]
        return tuple(pieces)


def _checked_fanouts(verb: str, fanouts: Sequence[int]) -> tuple[int, ...]:
    if isinstance(fanouts, str) or not isinstance(fanouts, Iterable):
        raise InputError(
            f"{verb}: fanouts must list one number per hop, the hop next to the seeds first; {fanouts!r} came"
        )
    listed = list(fanouts)
    if not listed:
        raise InputError(f"{verb}: fanouts must list one number per hop, the hop next to the seeds first; none came")
    return tuple(whole_number(fanout, f"{verb}: a fanout (-1 takes all)", -1, InputError) for fanout in listed)
