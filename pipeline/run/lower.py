"""Lowering: from the final plan to running nodes. The only place that knows both."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.facts import facts_of
from headrace.pipeline.plan.rewriting import Rewriting
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import BatchSource, source_of
from headrace.pipeline.plan.stage import ON_ITS_WAY, MapStage, Stage, WindowRunner, WindowStage
from headrace.pipeline.run.base_node import BaseNode
from headrace.pipeline.run.deferred_prefetch import DeferredPrefetchNode
from headrace.pipeline.run.hand_over import Drawing, Reading, hand_over, up_to_date
from headrace.pipeline.run.nodes import MapNode, SourceNode, Step, Work, named, step_of
from headrace.pipeline.run.prefetch_node import PrefetchNode
from headrace.pipeline.run.window_node import WindowNode
from headrace.pipeline.stages.prefetch import Prefetch

if TYPE_CHECKING:
    from headrace.pipeline.distributed.channel import Comm


def lower(rewriting: Rewriting, settings: RunSettings) -> tuple[BaseNode[Work], BatchSource, tuple[Comm, ...]]:
    """Return the node that yields finished work, the source at its beginning, and the channels that were made for it.

    What runs is the plan behind the passes; records name the user's stages as well.

    Stages between two prefetches run one after the other in the same thread, so they become one node, or two where a
    stage between them looks at the batches to come. Those of them that communicate do so on a channel of that thread:
    collectives of one channel come in the order of the batches, and those of two channels need no order.

    Raises
    ------
    PlanError
        If the plan holds a stage that cannot run (a macro that was not expanded).
    """
    plan, origins = rewriting.final, rewriting.origins
    names = plan.names
    source = source_of(plan).source(settings)
    ahead = max((i for i, stage in enumerate(plan.stages) if _runs_ahead(stage)), default=0)
    drawing = Drawing(names[0], source) if ahead and source.watched() else None
    node: BaseNode[Work] = SourceNode(names[0], source, drawing)
    steps: list[Step] = []
    anew: list[tuple[Stage, Step | None]] = []  # all that makes a batch, up to where the training loop takes it
    readings: list[tuple[int, Reading]] = [] if drawing is None else [(0, drawing)]
    taken: tuple[Step, ...] = ()
    channels: list[Comm] = []
    collective = False
    lockstep = any(stage.collective for stage in plan.stages)
    known = list(facts_of(plan.stages))[1:-1]
    stages = zip(names[1:], origins[1:], plan.stages[1:], known, strict=True)
    for i, (name, origin, stage, facts) in enumerate(stages, 1):
        if isinstance(stage, MapStage):
            if stage.collective and not collective:
                collective = True
                settings = settings.with_channel()
                channels.append(settings.channels()[0])
            run = stage.runner(settings)
            step = step_of(name, origin, stage, run, settings)
            if i <= ahead:
                again = stage.again(settings) if isinstance(stage, WindowStage) else run
                anew.append((stage, None if again is None else step_of(name, origin, stage, again, settings)))
                watched = stage.watched()
                if watched:
                    reading = Reading(origin, watched)
                    readings.append((len(anew) - 1, reading))
                    step = reading.noting(step)
            if isinstance(run, WindowRunner):
                enter = named(name, origin, _entering(run), settings)
                node = WindowNode(node, tuple(steps), run, enter, step, lockstep=lockstep)
                steps, taken = [], ()
            else:
                steps.append(step)
        elif isinstance(stage, Prefetch):
            if stage.workers > 0:
                leave, take = hand_over(None if facts.given == ON_ITS_WAY else facts.place)
                node = _prefetch_node(node, (*steps, *leave), stage, lockstep=lockstep)
                steps, taken = [*take], take
                collective = False
        else:
            raise PlanError(f"{stage.name} cannot run as it is; a pass should have expanded it")
    if readings:
        steps.insert(len(taken), up_to_date)
    for first, reading in readings:
        behind = [stage for stage, _ in anew[first:]]
        reading.made_anew_by(
            tuple(step for _, step in anew[first:] if step is not None),
            refused=next((stage.origin.name for stage, step in anew[first:] if stage.collective or step is None), None),
            may_change=first > 0 and any(stage.calls_users or not _is_own(stage) for stage in behind),
        )
    return MapNode(node, tuple(steps)), source, tuple(channels)


def _runs_ahead(stage: Stage) -> bool:
    """Whether what stands before a stage, or the stage itself, works on batches before they are due."""
    return isinstance(stage, WindowStage) or (isinstance(stage, Prefetch) and stage.workers > 0)


def _is_own(stage: Stage) -> bool:
    return type(stage).__module__.partition(".")[0] == __name__.partition(".")[0]


def _entering(run: WindowRunner) -> Callable[[Work], None]:
    return lambda work: run.enter(work.batch)


def _prefetch_node(node: BaseNode[Work], steps: tuple[Step, ...], stage: Prefetch, *, lockstep: bool) -> PrefetchNode:
    # Ranks in lockstep begin the same batches, and their collectives come in the same order: one thread makes the
    # batches one after the other, and when it begins must not depend on the time that one rank takes.
    if lockstep:
        return PrefetchNode(node, steps, workers=1, depth=stage.depth, lockstep=True)
    kind = PrefetchNode if stage.eager else DeferredPrefetchNode
    return kind(node, steps, workers=stage.workers, depth=stage.depth)
