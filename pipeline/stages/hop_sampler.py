"""What every sampler that works hop by hop shares: its parameters, their checks and its expansion."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ops.errors import GraphError, InputError
from headrace.ops.rules import Rule
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
    def rule(self, fanout: int) -> Rule:
        """Return how a hop with this fanout chooses among the in-edges of one vertex."""

    def key_layer(self, layer: int) -> int:
        """Return the layer that keys the randomness of hop ``layer``."""
        return layer

    def __post_init__(self) -> None:
        check_sampler(self.verb, self.graph, weight=self.weight, expand=self.expand)
        object.__setattr__(self, "fanouts", checked_counts(self.verb, "fanout", self.fanouts))

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    def parts(self) -> tuple[Stage, ...]:
        return hops(
            self.graph,
            [self.rule(fanout) for fanout in self.fanouts],
            [self.key_layer(layer) for layer in range(len(self.fanouts))],
            weight=self.weight,
            expand=self.expand,
            edge_ids=self.edge_ids,
        )


def hops(
    graph: Graph,
    rules: Sequence[Rule],
    key_layers: Sequence[int],
    *,
    weight: str | None = None,
    expand: Expand = "all",
    edge_ids: bool = True,
) -> tuple[Stage, ...]:
    """Return the stages that a sampler stands for: a hop and its compaction for each rule."""
    pieces: list[Stage] = []
    for layer, (rule, key_layer) in enumerate(zip(rules, key_layers, strict=True)):
        hop = SampleHop(graph, rule, layer=layer, key_layer=key_layer, weight=weight, expand=expand, edge_ids=edge_ids)
        pieces += [hop, Compact(graph, expand=expand, edge_ids=edge_ids)]
    return tuple(pieces)


def check_sampler(stage: str, graph: Graph, *, weight: str | None = None, expand: str = "all") -> None:
    """Refuse what no sampler can work with.

    Raises
    ------
    InputError
        For a subject that is not a graph, or an unknown hop rule.
    GraphError
        If there is no such edge attribute, or it holds negative, infinite or undefined values.
    """
    check_graph_and_rule(stage, graph, expand)
    if weight is not None:
        try:
            graph.edge_weights(weight)
        except GraphError as error:
            raise GraphError(f"{stage}: {error}") from error


def checked_counts(stage: str, name: str, counts: Iterable[int]) -> tuple[int, ...]:
    """Return what to draw in each hop, or refuse it.

    Raises
    ------
    InputError
        For no hop at all, or numbers that are not integers of at least -1.
    """
    expected = f"{stage}: {name}s must list one number per hop, the hop next to the seeds first"
    if isinstance(counts, str) or not isinstance(counts, Iterable):
        raise InputError(f"{expected}; {counts!r} came")
    listed = list(counts)
    if not listed:
        raise InputError(f"{expected}; none came")
    return tuple(whole_number(count, f"{stage}: a {name} (-1 takes all)", -1, InputError) for count in listed)
