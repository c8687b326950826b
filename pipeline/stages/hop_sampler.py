"""The bases of hop-by-hop samplers: parameters, their checks, the expansion to hops, and trees bounded by times."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headrace.ops import InputError, LaborImportanceRule, LaborRule, LatestRule, Rule
from headrace.ops.sampling.rules import TRAITS
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.data.times import check_window, times_of
from headrace.pipeline.lowered import Compact, Expand, Hop, PlantTrees, SampleHop, Trees, in_graph_ids
from headrace.pipeline.plan import MacroStage, Stage, check_edge_ids, check_expand, check_flags, check_weight, rules_of
from headrace.pipeline.plan.fanouts import Counts as FanoutsByHop
from headrace.pipeline.plan.fanouts import counts_by_relation
from headrace.pipeline.stages.sampler import Sampler

#: Layers are 16-bit words of the keys of random streams.
LAST_LAYER = (1 << 16) - 1


@dataclass(frozen=True, eq=False, repr=False)
class HopSampler(MacroStage, Sampler):
    """Base class of hop-by-hop samplers. A subclass names the rule of each hop.

    Parameters
    ----------
    graph, fanouts, weight, expand, edge_ids
        As for ``sample_neighbor``. ``rule`` gets each fanout, of each relation.
    disjoint, time, window, strictly_before
        As for ``sample_neighbor``. A rule that takes the latest edges needs `time`.

    Raises
    ------
    InputError
        As of ``sample_neighbor``. The loader refuses objects that are no rules, and rules without the options that are
        given.
    """

    with_types: ClassVar[bool] = True

    fanouts: FanoutsByHop
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)
    disjoint: bool = field(default=False, kw_only=True)
    time: str | None = field(default=None, kw_only=True)
    window: float | None = field(default=None, kw_only=True)
    strictly_before: bool = field(default=False, kw_only=True)

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
        check_flags(self, "disjoint", "strictly_before")
        if self.time is None:
            for name, default in (("window", None), ("strictly_before", False)):
                if getattr(self, name) is not default:
                    raise InputError(f"{self.name}: expected time= beside {name}={getattr(self, name)!r}, got none")
            return
        if not isinstance(self.time, str):
            raise InputError(
                f"{self.name}: expected time to be the name of times of edges or nodes, got "
                f'{type(self.time).__name__}; give them to the graph, edge_attrs={{"time": ...}}, those of seeds to '
                'ItemSampler(items, time=...), and pass time="time"'
            )
        try:
            times = times_of(self.graph, self.time)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from error
        if self.window is not None:
            window = check_window(self.name, self.window, times, strictly_before=self.strictly_before)
            object.__setattr__(self, "window", window)

    @property
    def num_hops(self) -> int:
        return len(self.fanouts)

    @property
    def in_trees(self) -> bool:
        """Whether each seed grows a tree of its own; by time it does."""
        return self.disjoint or self.time is not None

    def decisive(self) -> dict[str, Any]:
        # Checkpoints of before there were trees stay valid.
        defaults = {"disjoint": False, "time": None, "window": None, "strictly_before": False}
        decisive = super().decisive()
        return {name: value for name, value in decisive.items() if value != defaults.get(name, _NO_DEFAULT)}

    def parts(self) -> tuple[Stage, ...]:
        if not self.in_trees:
            return self.hops(self.graph, None)
        graph = self.graph if self.time is None else self.graph.by_time(self.time)
        trees = Trees(self.time, self.window, self.strictly_before)
        return (PlantTrees(self.graph, time=self.time), *self.hops(graph, trees))

    def hops(self, graph: GraphView, trees: Trees | None) -> tuple[Stage, ...]:
        """Return the hops and their compactions, over this graph or the same one sorted by time."""
        rules = rules_of(self.graph, self.fanouts, self._checked_rule)
        made = [
            Hop(
                graph,
                rule,
                key_layer=whole_number(
                    self.key_layer(layer), f"{self.name}: key_layer({layer})", 0, InputError, LAST_LAYER
                ),
                batch_dependency=self.batch_dependency,
                weight=self.weight,
                edge_ids=self.edge_ids,
                trees=trees,
            )
            for layer, rule in enumerate(rules)
        ]
        return sampled(made, self.expand)

    def _checked_rule(self, fanout: int) -> Rule:
        """Return the rule of a fanout, if it can do what the sampler is asked for."""
        rule = self.rule(fanout)
        if not isinstance(rule, Rule):
            raise InputError(
                f"{self.name}: expected rule(fanout) of {type(self).__name__} to return a rule, such as "
                f"hr.ext.NeighborRule(fanout), got {rule!r}"
            )
        kind = type(rule).__name__
        if rule.kind not in TRAITS:
            raise InputError(
                f"{self.name}: expected a rule of a kind that there is, {', '.join(TRAITS)}, got {kind} of "
                f"{rule.kind!r}; leave kind as its base has it, as kernels pick by kind, or write a stage for a law of "
                'your own ("A sampler of your own" in docs/extending.md)'
            )
        if isinstance(rule, LatestRule) and self.time is None:
            raise InputError(
                f"{self.name}: expected time= beside {kind}, which takes the most recent edges, got none; give it "
                "the name of times of edges or nodes"
            )
        if self.weight is not None and not rule.traits.takes_weights:
            raise InputError(
                f"{self.name}: expected no weight beside {kind}, which does not draw, got weight={self.weight!r}; "
                "leave it out"
            )
        if self.in_trees and not rule.per_destination:
            raise InputError(
                f"{self.name}: expected a rule for each node alone where each seed grows a tree of its own, got "
                f"{kind}, by which all nodes of a hop agree on what they draw; leave out disjoint and time"
            )
        if self.batch_dependency != 1 and (self.in_trees or not isinstance(rule, LaborRule | LaborImportanceRule)):
            raise InputError(
                f"{self.name}: expected batch_dependency=1, or LABOR's rules without trees, got "
                f"{self.batch_dependency!r} with {kind}; LABOR alone blends random numbers of several batches"
            )
        return rule


def sampled(hops: Sequence[Hop], expand: Expand = "all") -> tuple[Stage, ...]:
    """Return the stages of a sampler: each of its hops, and its compaction."""
    pieces: list[Stage] = []
    for layer, hop in enumerate(hops):
        pieces += [SampleHop(hop, layer=layer, expand=expand), Compact(hop.graph, expand=expand, edge_ids=hop.edge_ids)]
    return in_graph_ids(hops[0].graph, pieces)


_NO_DEFAULT = object()
