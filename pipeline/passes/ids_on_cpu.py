"""Copies to a GPU behind the stages that find nodes, where ranks exchange ids: that happens in CPU memory."""

from __future__ import annotations

from headrace.pipeline.data.place import CPU
from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.lowered.hop import HopStage
from headrace.pipeline.plan.rules import Window
from headrace.pipeline.stages.copy_to import CopyTo


def find_on_cpu(stages: Window) -> Window:
    """Return the stages with each copy to a device behind the hops that a GPU would sample."""
    moved = list(stages)
    for place in range(len(moved) - 2, -1, -1):  # the last copy first, so that copies keep their order
        stage, at = moved[place], place
        while isinstance(stage, CopyTo) and stage.moves_to != CPU:
            behind = moved[at + 1 : at + 3]
            if len(behind) == 2 and isinstance(behind[0], HopStage) and isinstance(behind[1], Compact):
                moved[at : at + 3] = [*behind, stage]
                at += 2
            elif behind and isinstance(behind[0], SampleFused):
                moved[at : at + 2] = [behind[0], stage]
                at += 1
            else:
                break
    return tuple(moved)
