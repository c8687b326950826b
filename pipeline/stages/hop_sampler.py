"""What every sampler that works hop by hop shares: its parameters, their checks and its expansion."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.ops.errors import GraphError, InputError
from headrace.ops.rules import Rule
from headrace.pipeline.graph import Graph
from headrace.pipeline.stage import MacroStage, Stage
from headrace.pipeline.stages.compact import Compact
from headrace.pipeline.stages.hop import Expand, SampleHop


@dataclass(frozen=True, eq=False, repr=False)
class HopSampler(MacroStage):
    """Base of the hop-by-hop samplers; a new one has only to name the rule of a hop."""

    graph: Graph
    fanouts: tuple[int, ...]
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    @abstractmethod
    def rule(self, fanout: int) -> Rule:
        """Return how a hop with this fanout chooses among the in-edges of one vertex."""

    def key_layer(self, layer: int) -> int:
        """Return the layer that keys the randomness of hop ``layer``."""
        return layer

    def __post_init__(self) -> None:
        if not isinstance(self.graph, Graph):
            raise InputError(f"{self.verb}: the first argument must be an hr.Graph; {type(self.graph).__name__} came")
        if self.expand not in ("all", "new"):
            raise InputError(f"{self.verb}: expand must be 'all' or 'new'; {self.expand!r} came")
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


def _checked_fanouts(stage: str, fanouts: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(fanouts, Sequence) or isinstance(fanouts, str) or len(fanouts) == 0:
        raise InputError(
            f"{stage}: fanouts must list one number per hop, the hop next to the seeds first; {fanouts!r} came"
        )
    for fanout in fanouts:
        if isinstance(fanout, bool) or not isinstance(fanout, int) or fanout < -1:
            raise InputError(
                f"{stage}: a fanout is an integer of at least -1 (-1 takes all); {fanout!r} came in {list(fanouts)}"
            )
    return tuple(fanouts)
