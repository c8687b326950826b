"""What is known at each position of a plan, folded once from its source.

Rules of legal plans, passes and lowering ask facts; none of them looks back over the stages by itself.

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
    """What is known of the batch that arrives at one position of a plan.

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
        Where the last copy has moved the batch; None if no stage has moved it.
    given
        What arrives: a minibatch, a sampled hop, an object of another library.
    converted
        The stage that has made the batch an object of another library.
    hops
        Hops sampled so far.
    fetched
        The features read so far, each with its domain: ("node", "x").
    graphs
        The graphs that stages have read so far, each once.
    exclude
        The stage whose edges the hops from here on leave out.
    trees
        Whether each seed grows a tree of its own.
    shares_layers
        Whether each rank has a share of one batch, whose layers exchange rows in the model.
    threads
        Whether the batch arrives in another thread than the one that drew its items.
    sound_ids
        Whether all ids are those of `source` or of `graphs`: a stage of a user may write others.
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
        """How many hops beyond its seeds the nodes of a batch may be; None for any number."""
        return None if self.source is None else self.source.boundary

    def say_the_same_as(self, other: Facts) -> bool:
        """Whether both know the same of the batch, however it came about."""
        return all(getattr(self, name) == getattr(other, name) for name in _OF_THE_BATCH)

    def behind(self, stage: Stage) -> Facts:
        """Return what is known behind a stage that stands at the position."""
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
            shares_layers=self.shares_layers or stage.shares_layers,
            threads=self.threads or stage.threads,
            sound_ids=self.sound_ids and (stage is source or stage.lowered or stage.keeps_ids_sound),
        )

    def _fields_behind(self, stage: Stage) -> Mapping[str, Place]:
        place = stage.writes_at
        if place is None:
            # What is made of fields in two places is made on the device; a stage that names none reads all there are.
            read = [self.fields[name] for name in sorted(stage.reads or self.fields)]
            place = next((place for place in read if not place.on_host), CPU)
        fields = {**self.fields, **dict.fromkeys(stage.writes, place)}
        return fields if stage.moves_to is None else dict.fromkeys(fields, stage.moves_to)

    def _graphs_behind(self, stage: Stage) -> tuple[GraphView, ...]:
        graph = getattr(stage, "graph", None)
        if not isinstance(graph, GraphView) or any(graph is one for one in self.graphs):
            return self.graphs
        return (*self.graphs, graph)


#: What facts know of the batch itself.
_OF_THE_BATCH = tuple(one.name for one in fields(Facts) if one.name not in ("upstream", "last"))


def facts_of(stages: Iterable[Stage]) -> Iterator[Facts]:
    """Yield what is known before each stage, and at last behind all of them."""
    facts = Facts()
    yield facts
    for stage in stages:
        facts = facts.behind(stage)
        yield facts
