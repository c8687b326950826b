"""Lowering: from the final plan to running nodes. The only place that knows both."""

from __future__ import annotations

from collections.abc import Callable

from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.facts import facts_of
from headrace.pipeline.plan.rewriting import Rewriting
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import BatchSource, source_of
from headrace.pipeline.plan.stage import ON_ITS_WAY, MapStage, WindowRunner
from headrace.pipeline.run.base_node import BaseNode
from headrace.pipeline.run.deferred_prefetch import DeferredPrefetchNode
from headrace.pipeline.run.hand_over import hand_over
from headrace.pipeline.run.nodes import MapNode, SourceNode, Step, Work, named, step_of
from headrace.pipeline.run.prefetch_node import PrefetchNode
from headrace.pipeline.run.window_node import WindowNode
from headrace.pipeline.stages.prefetch import Prefetch


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
    node: BaseNode[Work] = SourceNode(names[0], source)
    steps: list[Step] = []
    channels: list[Comm] = []
    collective = False
    lockstep = any(stage.collective for stage in plan.stages)
    known = list(facts_of(plan.stages))[1:-1]
    for name, origin, stage, facts in zip(names[1:], origins[1:], plan.stages[1:], known, strict=True):
        if isinstance(stage, MapStage):
            if stage.collective and not collective:
                collective = True
                settings = settings.with_channel()
                channels.append(settings.channels()[0])
            run = stage.runner(settings)
            step = step_of(name, origin, stage, run, settings)
            if isinstance(run, WindowRunner):
                enter = named(name, origin, _entering(run), settings)
                node = WindowNode(node, tuple(steps), run, enter, step, lockstep=lockstep)
                steps = []
            else:
                steps.append(step)
        elif isinstance(stage, Prefetch):
            if stage.workers > 0:
                leave, take = hand_over(None if facts.given == ON_ITS_WAY else facts.place)
                node = _prefetch_node(node, (*steps, *leave), stage, lockstep=lockstep)
                steps = [*take]
                collective = False
        else:
            raise PlanError(f"{stage.name} cannot run as it is; a pass should have expanded it")
    return MapNode(node, tuple(steps)), source, tuple(channels)


def _entering(run: WindowRunner) -> Callable[[Work], None]:
    return lambda work: run.enter(work.batch)


def _prefetch_node(node: BaseNode[Work], steps: tuple[Step, ...], stage: Prefetch, *, lockstep: bool) -> PrefetchNode:
    # Ranks in lockstep begin the same batches, and their collectives come in the same order: one thread makes the
    # batches one after the other, and when it begins must not depend on the time that one rank takes.
    if lockstep:
        return PrefetchNode(node, steps, workers=1, depth=stage.depth, lockstep=True)
    kind = PrefetchNode if stage.eager else DeferredPrefetchNode
    return kind(node, steps, workers=stage.workers, depth=stage.depth)
