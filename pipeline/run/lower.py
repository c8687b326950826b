"""Lowering: from the final plan to running nodes, or to a function of one batch. The only place that knows both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.ops.errors import PlanError
from headrace.pipeline.data import MiniBatch, Place
from headrace.pipeline.data.checks import is_of_headrace
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.checks import batches_of
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.rewriting import Rewriting
from headrace.pipeline.plan.rules import facts_of
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import BatchSource, source_of
from headrace.pipeline.plan.stage import MapStage, Stage, WindowRunner, WindowStage
from headrace.pipeline.plan.verify import check_data
from headrace.pipeline.run.base_node import BaseNode
from headrace.pipeline.run.hand_over import Drawing, Reading, Tables, hand_over, up_to_date
from headrace.pipeline.run.nodes import MapNode, SourceNode, Step, Work, named, step_of
from headrace.pipeline.run.prefetch_node import DeferredPrefetchNode, PrefetchNode
from headrace.pipeline.run.window_node import WindowNode
from headrace.pipeline.stages.steps import Prefetch

if TYPE_CHECKING:
    from headrace.pipeline.distributed.channel import Comm
    from headrace.pipeline.lowered.gpu.on_stream import OnStream


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
    plan = rewriting.final
    source = batches_of(source_of(plan), settings)
    ahead = max((i for i, stage in enumerate(plan.stages) if _runs_ahead(stage)), default=0)
    chain = _Chain(plan, source, settings, ahead=ahead > 0)
    known = list(facts_of(plan.stages))[1:-1]
    stages = zip(plan.names[1:], rewriting.origins[1:], plan.stages[1:], known, strict=True)
    for i, (name, origin, stage, facts) in enumerate(stages, 1):
        if isinstance(stage, MapStage):
            chain.add(name, origin, stage, ahead=i <= ahead)
        elif isinstance(stage, Prefetch):
            chain.add_threads(stage, facts.place)
        else:
            raise PlanError(f"{stage.name} cannot run as it is; a pass should have expanded it")
    return chain.end(), source, tuple(chain.channels)


class _Chain:
    """Running nodes, one behind the other, and the steps that the last one is yet to take.

    Parameters
    ----------
    plan
        What they run; stages are added one by one.
    source
        What draws its batches.
    settings
        What runners are made with.
    ahead
        Whether batches are drawn before they are due.
    """

    def __init__(self, plan: Plan, source: BatchSource, settings: RunSettings, *, ahead: bool) -> None:
        self._plan = plan
        name = plan.names[0]
        drawing = Drawing(name, source) if ahead and source.watched() else None
        self._anew = _Anew(drawing)
        self._node: BaseNode[Work] = SourceNode(name, source, drawing)
        self._steps: list[Step] = []
        self._num_taking = 0  # of these, how many take batches from threads
        self._settings = settings
        self._lockstep = any(stage.ranks.collective for stage in plan.stages)
        self._has_channel = False
        # What launches stages on a side stream, and those that it launches.
        self._stream: OnStream | None = None
        self._launched: list[tuple[str, str, MapStage]] = []
        self.channels: list[Comm] = []

    def add(self, name: str, origin: str, stage: MapStage, *, ahead: bool) -> None:
        """Let a stage work on batches, ahead of the training loop or when they are due."""
        if self._stream is not None:
            self._launched.append((name, origin, stage))
            return
        if ahead and stage.stream == "launch":
            self._stream = stage  # type: ignore[assignment] # the only such stage
            return
        settings = self._settings_of(stage)
        run = _checked(stage, stage.runner(settings), self._plan)
        step = step_of(name, origin, stage, run, settings)
        if ahead:
            again = stage.again(settings) if isinstance(stage, WindowStage) else run
            once_more = None if again is None else step_of(name, origin, stage, again, settings)
            step = self._anew.add([stage], origin, step, once_more)
        if isinstance(run, WindowRunner):
            enter = named(name, origin, run.enter, settings)
            self._put(WindowNode(self._node, tuple(self._steps), run, enter, step, lockstep=self._lockstep))
        else:
            self._steps.append(step)

    def _add_launches(self, stream: OnStream) -> None:
        """Let stages work on a side stream, ahead of the training loop."""
        from headrace.pipeline.lowered.gpu.on_stream import OnItsWay

        steps = list[Step]()
        for name, origin, stage in self._launched:
            settings = self._settings_of(stage)
            steps.append(step_of(name, origin, stage, _checked(stage, stage.launcher(settings), self._plan), settings))
        launch = stream.launcher_of()

        def step(work: Work) -> Work:
            def run(batch: MiniBatch) -> Work:
                made = Work(batch, work.epoch, work.index, work.state, work.records, work.notes)
                for one in steps:
                    made = one(made)
                return made

            made, event = launch(work.batch, run)
            made.batch = OnItsWay(made.batch, event)
            return made

        stages = [stage for _, _, stage in self._launched]
        # Named by the stage that reads what may be written.
        reading = next((origin for _, origin, stage in self._launched if stage.watched()), self._launched[0][1])
        self._steps.append(self._anew.add(stages, reading, step, step))

    def _settings_of(self, stage: MapStage) -> RunSettings:
        """Return what the runner of a stage is made with: the first that communicates in a thread gets a channel."""
        if stage.ranks.collective and not self._has_channel:
            self._has_channel = True
            self._settings = self._settings.with_channel()
            self.channels.append(self._settings.channels()[0])
        return self._settings

    def add_threads(self, stage: Prefetch, place: Place | None) -> None:
        """Let threads do what was added so far, and hand over batches that lie at a place, if any do."""
        if stage.workers > 0:
            if self._stream is not None:
                self._add_launches(self._stream)
            # Batches of a side stream come with their events.
            leave, take = hand_over(None if self._stream is not None else place)
            self._stream, self._launched = None, []
            steps = (*self._steps, *leave)
            self._put(_prefetch_node(self._node, steps, stage, lockstep=self._lockstep), take)
            self._has_channel = False  # that of its thread

    def end(self) -> BaseNode[Work]:
        """Return the node that yields what is due."""
        assert self._stream is None  # verified: threads launch what a stream is for
        if self._anew.settle():
            self._steps.insert(self._num_taking, up_to_date)
        return MapNode(self._node, tuple(self._steps))

    def _put(self, node: BaseNode[Work], take: tuple[Step, ...] = ()) -> None:
        self._node, self._steps, self._num_taking = node, [*take], len(take)


class _Anew:
    """All that makes a batch ahead of the training loop, and makes it anew where what it was made of is written since.

    Parameters
    ----------
    drawing
        The source, if it draws from what a training loop may write.
    """

    def __init__(self, drawing: Drawing | None) -> None:
        self._made: list[tuple[Sequence[Stage], Step | None]] = []  # None: of what cannot be made once more
        self._readings: list[tuple[int, Reading]] = [] if drawing is None else [(0, drawing)]

    def add(self, stages: Sequence[Stage], origin: str, step: Step, again: Step | None) -> Step:
        """Add stages that are one step, and what makes a batch anew; return the step, which notes what it reads."""
        self._made.append((stages, again))
        watched = [one for stage in stages for one in stage.watched()]
        if not watched:
            return step
        reading = Reading(origin, watched)
        self._readings.append((len(self._made) - 1, reading))
        return reading.noting(step)

    def settle(self) -> bool:
        """Tell each reading what is behind it, as far as batches are not due; return whether there is one."""
        for first, reading in self._readings:
            made = self._made[first:]
            behind = [stage for stages, _ in made for stage in stages]
            refusing = (
                stage.origin.name for stages, step in made for stage in stages if stage.ranks.collective or step is None
            )
            reading.made_anew_by(
                tuple(step for _, step in made if step is not None),
                refused=next(refusing, None),
                may_change=first > 0 and any(stage.calls_users or not is_of_headrace(stage) for stage in behind),
            )
        return bool(self._readings)


def _runs_ahead(stage: Stage) -> bool:
    """Whether what stands before a stage, or the stage itself, works on batches before they are due."""
    return isinstance(stage, WindowStage) or (isinstance(stage, Prefetch) and stage.workers > 0)


def _checked(stage: MapStage, run: Any, plan: Plan) -> Any:
    """Return a runner; that of a user's stage checks what it returns, as far as a stage of the plan follows."""
    if is_of_headrace(stage):
        return run
    from headrace.pipeline.plan.users_stage import checked_runner  # loaded where there is one

    last = [one for one in plan.stages if isinstance(one, MapStage)][-1]
    return checked_runner(stage, run, is_last=stage is last)


def _prefetch_node(node: BaseNode[Work], steps: tuple[Step, ...], stage: Prefetch, *, lockstep: bool) -> PrefetchNode:
    # Ranks in lockstep begin the same batches, and their collectives come in the same order: one thread makes the
    # batches one after the other, and when it begins must not depend on the time that one rank takes.
    if lockstep:
        return PrefetchNode(node, steps, workers=1, depth=stage.depth, lockstep=True)
    kind = PrefetchNode if stage.eager else DeferredPrefetchNode
    return kind(node, steps, workers=stage.workers, depth=stage.depth)


def one_batch(plan: Plan, *, num_threads: int | None = None) -> Callable[[MiniBatch], Any]:
    """Return the function that runs all stages behind the source on a batch, in the thread that calls it.

    What it draws is named by the seed of the plan, and by the epoch and the index of the batch. It holds no thread and
    may be called from several at once.

    Parameters
    ----------
    plan
        The plan; its source draws nothing here.
    num_threads
        Threads that one kernel call may use at most; by default the machine's cores.

    Raises
    ------
    PlanError
        If the plan is not legal.
    InputError
        If the data of two stages do not fit together.
    """
    machine = replace(Machine.detect(), rank=0, world_size=1)
    rewriting = rewrite(plan, machine, {"prefetch": False})
    final = rewriting.final
    check_data(plan)
    check_data(final)
    Tables(rewriting).check()
    source = source_of(final)
    settings = RunSettings(source.seed, source, machine.cores if num_threads is None else num_threads)
    runners = [_checked(stage, stage.runner(settings), final) for stage in final.stages if isinstance(stage, MapStage)]

    def run(batch: MiniBatch) -> Any:
        made: Any = batch
        for runner in runners:
            made, _ = runner(made)
        return made

    return run
