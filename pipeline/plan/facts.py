"""The facts known at each position of a plan, folded once from its source.

The rules of legal plans, passes and lowering read facts; none of them inspects earlier stages itself.

>>> import headrace as hr, torch
>>> plan = hr.ItemSampler(10, batch_size=2).copy_to("cpu").prefetch()
>>> [facts.place for facts in facts_of(plan.stages)]
[None, None, Place('cpu'), Place('cpu')]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.plan.source import SourceStage
from headrace.pipeline.plan.stage import CONVERTED, MINIBATCH, Stage

if TYPE_CHECKING:
    from headrace.pipeline.data.feature_names import FeatureName


@dataclass(frozen=True, eq=False, repr=False)
class Facts:
    """The facts known about the batch that arrives at one position of a plan.

    Attributes
    ----------
    upstream
        The facts one stage earlier; None at the beginning of a plan.
    last
        The stage right before the position.
    source
        The source of the plan.
    fields
        The place of each field that the batch has.
    place
        The place to which the last copy has moved the batch; None if no stage has moved it.
    given
        The kind of input: a minibatch, a sampled hop, an object of another library.
    converted
        The stage that converted the batch to an object of another library.
    hops
        Hops sampled so far.
    fetched
        The features read so far, each with "node" or "edge": ("node", "x").
    graphs
        The graphs that stages have read so far, each once.
    exclude
        The stage whose edges later hops leave out.
    trees
        Whether each seed has its own tree.
    shares_layers
        Whether each rank has a share of one batch, with layers that exchange rows in the model.
    threads
        Whether the batch arrives in another thread than that of the source.
    sound_ids
        Whether all ids are those of `source` or of `graphs`; a user's own stage may write others.
    """

    upstream: Facts | None = None
    last: Stage | None = None
    source: SourceStage | None = None
    fields: Mapping[str, Place] = field(default_factory=dict)
    place: Place | None = None
    given: str = MINIBATCH
    converted: Stage | None = None
    hops: int = 0
    fetched: frozenset[tuple[str, FeatureName]] = frozenset()
    graphs: tuple[GraphView, ...] = ()
    exclude: Stage | None = None
    trees: bool = False
    shares_layers: bool = False
    threads: bool = False
    sound_ids: bool = True

    @cached_property
    def before(self) -> tuple[Stage, ...]:
        """The stages before the position, source first."""
        stages, facts = list[Stage](), self
        while facts.upstream is not None and facts.last is not None:
            stages.append(facts.last)
            facts = facts.upstream
        return tuple(reversed(stages))

    @property
    def boundary(self) -> int | None:
        """The largest number of hops from the seeds to a node of the batch; None for no bound."""
        return None if self.source is None else self.source.boundary

    def say_the_same_as(self, other: Facts) -> bool:
        """Whether both contain the same facts about the batch, for any stages before."""
        return all(getattr(self, name) == getattr(other, name) for name in _OF_THE_BATCH)

    def behind(self, stage: Stage) -> Facts:
        """Return the facts after a stage at this position."""
        source = stage if self.last is None and isinstance(stage, SourceStage) else self.source
        return replace(
            self,
            upstream=self,
            last=stage,
            source=source,
            fields=self._fields_behind(stage),
            place=stage.moves_to or self.place,
            given=stage.gives or self.given,
            converted=stage if stage.gives == CONVERTED else self.converted,
            hops=self.hops + stage.num_hops,
            fetched=self.fetched | stage.fetches,
            graphs=self._graphs_behind(stage),
            exclude=self.exclude if stage.excludes is None else stage,
            trees=self.trees or stage.plants_trees,
            shares_layers=self.shares_layers or stage.ranks.shares_layers,
            threads=self.threads or stage.threads,
            sound_ids=self.sound_ids and (stage is source or stage.lowered or stage.keeps_ids_sound),
        )

    def _fields_behind(self, stage: Stage) -> Mapping[str, Place]:
        place = stage.writes_at
        if place is None:
            # A stage that reads fields in two places writes on the device; a stage without `reads` reads all fields.
            read = [self.fields[name] for name in sorted(stage.reads or self.fields)]
            place = next((place for place in read if not place.on_host), CPU)
        fields = {**self.fields, **dict.fromkeys(stage.writes, place)}
        return fields if stage.moves_to is None else dict.fromkeys(fields, stage.moves_to)

    def _graphs_behind(self, stage: Stage) -> tuple[GraphView, ...]:
        graph = getattr(stage, "graph", None)
        if not isinstance(graph, GraphView) or any(graph is one for one in self.graphs):
            return self.graphs
        return (*self.graphs, graph)


#: The facts about the batch itself.
_OF_THE_BATCH = tuple(one.name for one in fields(Facts) if one.name not in ("upstream", "last"))


def facts_of(stages: Iterable[Stage]) -> Iterator[Facts]:
    """Yield the facts before each stage, and finally those after all of them."""
    facts = Facts()
    yield facts
    for stage in stages:
        facts = facts.behind(stage)
        yield facts
