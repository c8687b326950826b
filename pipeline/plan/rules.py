"""The rewriting machinery: a rule is a pattern and a function, a pass is a list of rules.

The function of a rule is pure. It gets the stages that match, one argument each, the facts before the first of them
(:class:`Facts`) and the machine. It returns their replacement, or None if the rule does not apply. A pass applies its
rules until none applies. New stages of a rule with a pattern have the origin of the first stage that matches; a rule on
the whole plan sets origins by :meth:`~headrace.pipeline.plan.stage.Stage.made_of`.

Facts are folded once from the source of a plan. The rules of legal plans, passes and lowering read them; none of them
inspects earlier stages itself.

>>> import headrace as hr, torch
>>> plan = hr.ItemSampler(10, batch_size=2).copy_to("cpu").prefetch()
>>> [facts.place for facts in facts_of(plan.stages)]
[None, None, Place('cpu'), Place('cpu')]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import EllipsisType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from headrace.ops.errors import PlanError, add_note
from headrace.ops.forks import cached_property
from headrace.pipeline.data import CPU, GraphView, Place
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.source import SourceStage
from headrace.pipeline.plan.stage import CONVERTED, MINIBATCH, Stage
from headrace.pipeline.plan.text import render
from headrace.pipeline.plan.traits import graphs_of

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
        graphs = self.graphs
        for graph in graphs_of(stage):
            if not any(graph is one for one in graphs):
                graphs = (*graphs, graph)
        return graphs


#: The facts about the batch itself.
_OF_THE_BATCH = tuple(one.name for one in fields(Facts) if one.name not in ("upstream", "last"))


def facts_of(stages: Iterable[Stage]) -> Iterator[Facts]:
    """Yield the facts before each stage, and finally those after all of them."""
    facts = Facts()
    yield facts
    for stage in stages:
        facts = facts.behind(stage)
        yield facts


#: More rewrites than this per stage of the given plan mean that the rules of a pass do not terminate.
MOST_REWRITES_PER_STAGE = 100

Window = tuple[Stage, ...]


class Promise(Enum):
    """The promise of a pass: what it leaves unchanged. It selects the test that the pass must pass."""

    SAME_BATCHES = "same batches"
    SAME_UNION = "same union over ranks"


@dataclass(frozen=True, eq=False, repr=False)
class Rule:
    """Replace consecutive stages.

    Parameters
    ----------
    name
        The effect of the rule, for explain and error messages.
    pattern
        The types of the consecutive stages that it replaces. ``...`` between two of them is a gap: any number of
        stages, the fewest with which the rule applies. Empty for a rule on the whole plan, which is an exception: its
        file gives the reason.
    rewrite
        The function. It takes these stages, one argument each (those of a gap as a tuple), the facts before them and
        the machine. For the whole plan it takes a tuple of the stages, and a tuple of the facts before each of them and
        after all of them. It returns their replacement, or None if the rule does not apply.
    """

    name: str
    pattern: tuple[type[Stage] | EllipsisType, ...]
    rewrite: Callable[..., Window | None]

    def __post_init__(self) -> None:
        kinds: Any = self.pattern
        if not isinstance(kinds, tuple) or not {type(one) for one in kinds} <= {EllipsisType, type(Stage)}:
            raise users_pass().odd_pattern(self)
        gaps = [position for position, kind in enumerate(self.pattern) if kind is ...]
        if len(gaps) > 1 or set(gaps) & {0, len(self.pattern) - 1}:
            raise PlanError(f"rule {self.name!r}: expected at most one gap, between two types, got {self.pattern}")

    def check(self, replacement: Any) -> None:
        """Refuse a replacement that is no tuple of stages.

        Raises
        ------
        PlanError
            If it is none.
        """
        if not isinstance(replacement, tuple) or not all(isinstance(stage, Stage) for stage in replacement):
            raise PlanError(
                f"rule {self.name!r}: expected a tuple of stages, or None where it does not apply, got {replacement!r}"
            )

    @cached_property
    def ends(self) -> tuple[tuple[type[Stage], ...], tuple[type[Stage], ...] | None]:
        """The types before the gap and after it; without a gap all types and None."""
        if ... not in self.pattern:
            return cast(tuple[type[Stage], ...], self.pattern), None
        gap = self.pattern.index(...)
        return cast(Any, self.pattern[:gap]), cast(Any, self.pattern[gap + 1 :])


@dataclass(frozen=True, eq=False, repr=False)
class Pass:
    """A named, ordered list of rules with a promise.

    Parameters
    ----------
    name
        The name of its switch: ``plan.loader(name=False)`` turns it off. A pass of your own goes by the name under
        which ``loader`` gets it.
    promise
        The promise: what it leaves unchanged.
    rules
        Its rules, tried in order, at all positions, until none applies.
    optional
        Whether the plan can run without it.
    on
        Whether it runs by default; a pass of your own that is not does not run.
    needs_gpu
        Whether it never applies on a machine without a GPU.
    needs_ranks
        Whether it never applies with one rank.
    needs_stage
        A type of stages without which it never applies.
    needs_boundary
        Whether it never applies without a boundary of the source.
    """

    name: str
    promise: Promise
    rules: tuple[Rule, ...]
    optional: bool = True
    on: bool = True
    needs_gpu: bool = False
    needs_ranks: bool = False
    needs_stage: type[Stage] = Stage
    needs_boundary: bool = False

    def __post_init__(self) -> None:
        rules: Any = self.rules
        if type(rules) is not tuple or {*map(type, rules)} - {Rule} or type(self.promise) is not Promise:
            raise users_pass().odd_pass(self)

    def may_apply(self, plan: Plan, machine: Machine) -> bool:
        """Whether it may apply to a plan for a machine."""
        return (
            (machine.gpus > 0 or not self.needs_gpu)
            and (machine.world_size > 1 or not self.needs_ranks)
            and any(isinstance(stage, self.needs_stage) for stage in plan.stages)
            and (not self.needs_boundary or getattr(plan.stages[0], "boundary", None) is not None)
        )

    def apply(self, plan: Plan, machine: Machine) -> tuple[Plan, tuple[str, ...]]:
        """Return the rewritten plan and the names of the rules that fired, in order.

        Raises
        ------
        PlanError
            If the rules do not terminate.
        """
        if not self.may_apply(plan, machine):
            return plan, ()
        rewrites = _Rewrites(self, plan, machine)
        most = MOST_REWRITES_PER_STAGE * len(plan.stages)
        while (name := rewrites.step()) is not None:
            if len(rewrites.fired) > most:
                raise PlanError(
                    f"pass {self.name}: rule {name!r} is in a circle; the plan is now\n{render(rewrites.stages, '  ')}"
                )
        return (Plan(rewrites.stages) if rewrites.fired else plan), tuple(rewrites.fired)


class _Rewrites:
    """The stages of a plan while the rules of a pass are applied to it."""

    def __init__(self, one: Pass, plan: Plan, machine: Machine) -> None:
        self.rules, self.machine = one.rules, machine
        self._pass = one.name
        self.stages = list(plan.stages)
        self.fired: list[str] = []
        # The facts before each stage, as far as rules have read them.
        self._facts = [Facts()]
        # The first positions of the windows that each rule has not tried: a rewrite creates new ones only around
        # itself, so that a pass over a chain of similar stages is linear in their number.
        self._unseen = [range(len(self.stages)) for _ in one.rules]

    def step(self) -> str | None:
        """Apply the first rule that applies, at its first position, and return its name; None if there is none."""
        for number, rule in enumerate(self.rules):
            # A rule on the whole plan has one window.
            starts = self._unseen[number] if rule.pattern else self._unseen[number][:1]
            for start in starts:
                try:
                    applies = self._applies(rule, start, number)
                except Exception as error:
                    add_note(error, f"headrace: in rule {rule.name!r} of pass {self._pass}")
                    raise
                if applies:
                    self.fired.append(rule.name)
                    return rule.name
            self._unseen[number] = range(0)
        return None

    def _applies(self, rule: Rule, start: int, number: int) -> bool:
        if not rule.pattern:
            self.facts(len(self.stages))
            replacement = rule.rewrite(tuple(self.stages), tuple(self._facts), self.machine)
            if replacement is not None:
                rule.check(replacement)
                self._replace(0, len(self.stages), replacement, number)
            return replacement is not None
        for length, window in self._windows(rule, start):
            replacement = rule.rewrite(*window, self.facts(start), self.machine)
            if replacement is not None:
                rule.check(replacement)
                self._replace(start, length, _with_origin(replacement, self.stages[start : start + length]), number)
                return True
        return False

    def _windows(self, rule: Rule, start: int) -> Iterator[tuple[int, tuple[Stage | Window, ...]]]:
        """Yield the windows of a rule that begin at a stage: the number of stages of each, and the arguments."""
        head, tail = rule.ends
        first = tuple(self.stages[start : start + len(head)])
        if len(first) < len(head) or not all(map(isinstance, first, head)):
            return
        if tail is None:
            yield len(head), first
            return
        begin = start + len(head)
        for end in range(begin, len(self.stages) - len(tail) + 1):
            last = tuple(self.stages[end : end + len(tail)])
            if all(map(isinstance, last, tail)):
                yield end + len(tail) - start, (*first, tuple(self.stages[begin:end]), *last)

    def facts(self, position: int) -> Facts:
        """Return the facts before the stage at a position."""
        while len(self._facts) <= position:
            self._facts.append(self._facts[-1].behind(self.stages[len(self._facts) - 1]))
        return self._facts[position]

    def _replace(self, start: int, length: int, replacement: Window, number: int) -> None:
        known = self.facts(start + length)
        self._unseen[number] = range(start, len(self.stages))
        self.stages[start : start + length] = replacement
        del self._facts[start + 1 :]
        self._look_again(start, length, len(replacement))
        if not self.facts(start + len(replacement)).say_the_same_as(known):
            self._unseen = [range(min([start, *seen[:1]]), len(self.stages)) for seen in self._unseen]

    def _look_again(self, start: int, length: int, new_length: int) -> None:
        """Shift untried positions by the number of stages added or removed, and add all windows with a new stage."""
        for number, rule in enumerate(self.rules):
            old = self._unseen[number]
            reaches_far = not rule.pattern or rule.ends[1] is not None
            first = 0 if reaches_far else max(0, start - len(rule.pattern) + 1)
            stop = start + new_length
            if old:
                first, stop = min(first, old.start), max(stop, old.stop + new_length - length)
            self._unseen[number] = range(first, stop)


def users_pass() -> ModuleType:
    """Return the module that says what is wrong with passes of users: it is loaded where one is."""
    from headrace.pipeline.plan import users_pass

    return users_pass


def _with_origin(replacement: Window, window: Sequence[Stage]) -> Window:
    """Return stages that replace others; new ones get the origin of the first of these."""
    old = {id(stage) for stage in window}
    return tuple(
        stage.made_of(window[0]) if id(stage) not in old and stage.origin is stage else stage for stage in replacement
    )
