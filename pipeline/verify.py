"""The legal language of plans, checked before the first pass and after each."""

from __future__ import annotations

from headrace.pipeline.errors import PlanError
from headrace.pipeline.plan import render, stages_of
from headrace.pipeline.stage import MacroStage, SourceStage, Stage
from headrace.pipeline.stages.hop import SampleHop


def verify(plan: Stage, *, expanded: bool = False) -> None:
    """Check that a plan is legal.

    Parameters
    ----------
    plan
        The plan.
    expanded
        Whether macro stages must be gone.

    Raises
    ------
    PlanError
        Naming the rule that is broken and the stage that breaks it, with the plan.
    """
    stages = stages_of(plan)
    written: set[str] = set()
    for position, stage in enumerate(stages):
        problem = None
        if (position == 0) != isinstance(stage, SourceStage):
            problem = "a plan begins with a source such as ItemSampler, and has no second one"
        elif expanded and isinstance(stage, MacroStage):
            problem = "macro stages must be expanded before this point"
        elif "hop" in written and "hop" not in stage.reads:
            problem = "a sampled hop must be compacted by the very next stage"
        elif isinstance(stage, SampleHop) and stage.layer != _hops_before(stages[:position]):
            problem = f"hops must be numbered from the seeds outwards; this is hop {_hops_before(stages[:position])}"
        elif stage.reads - written:
            missing = ", ".join(sorted(stage.reads - written))
            problem = f"it reads {missing}, which no stage before it writes"
        if problem is not None:
            raise PlanError(f"{stage.verb} cannot stand here: {problem}. The plan is\n{render(plan, '  ')}")
        written |= stage.writes
        if "hop" in stage.reads:
            written.discard("hop")
    if "hop" in written:
        raise PlanError(
            f"{stages[-1].verb} cannot end a plan: its hop is not compacted. The plan is\n{render(plan, '  ')}"
        )


def check_data(plan: Stage) -> None:
    """Check that the data of the stages fit together; run once, before any batch is made.

    Raises
    ------
    InputError
        From the stage that does not fit.
    """
    stages = stages_of(plan)
    for position, stage in enumerate(stages):
        if position > 0:
            stage.check(stages[:position])


def _hops_before(stages: tuple[Stage, ...]) -> int:
    count = 0
    for stage in stages:
        count += 1 if isinstance(stage, SampleHop) else len(getattr(stage, "rules", ()))
    return count
