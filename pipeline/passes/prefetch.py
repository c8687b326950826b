"""Make batches ahead of the training loop, in background threads."""

from __future__ import annotations

from headrace.pipeline.machine import Machine
from headrace.pipeline.passes.rewrite import Pass, Promise, Rule, Window
from headrace.pipeline.plan import stages_of
from headrace.pipeline.stage import MapStage, SourceStage
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.prefetch import Prefetch


def _insert(window: Window, machine: Machine) -> Window | None:
    """Put a prefetch behind the last stage that works on the CPU, unless the user has placed one."""
    last = window[0]
    upstream = stages_of(last)
    placed = any(isinstance(stage, Prefetch) for stage in (*upstream, *window))
    only_source = all(isinstance(stage, (SourceStage, CopyTo)) for stage in upstream)
    if placed or only_source or machine.cores < 2 or isinstance(last, CopyTo):
        return None
    # One worker and two batches ahead are enough to hide sampling behind training: the kernels use the cores by
    # themselves.
    return (last, Prefetch(workers=1, depth=2), *window[1:])


PREFETCH = Pass(
    "prefetch",
    Promise.SAME_BATCHES,
    rules=(
        # The copy to a device stays with the training loop, whose stream it belongs to.
        Rule("prefetch before copy_to", (MapStage, CopyTo), _insert, at_end=True),
        Rule("prefetch at the end", (MapStage,), _insert, at_end=True),
    ),
)
