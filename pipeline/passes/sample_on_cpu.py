"""Sample on the CPU with rules that have no GPU kernel: the copy to the GPU moves to after the sampler.

A copy of seeds to a GPU requests sampling there. Rules without a kernel, walks, GraphSAINT's samplers, parts of a graph
and reordered graphs are sampled in CPU memory nevertheless, and the plan shows it. Trees are also planted on the CPU,
which takes little time, and grow after the copy.
"""

from __future__ import annotations

from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.lowered import Compact, HopStage, PlantTrees, TranslateIds
from headrace.pipeline.plan import Facts, Machine, Rule, Stage, Window
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.sampler import Sampler
from headrace.pipeline.stages.uniform_negative import SampleUniformNegative


def _copy_behind_hop(copy: CopyTo, hop: HopStage, compact: Compact, facts: Facts, machine: Machine) -> Window | None:
    del facts
    return None if _stays(hop, copy.moves_to, machine) else (hop, compact, copy)


def _copy_behind(
    copy: CopyTo, stage: Sampler | TranslateIds | PlantTrees, facts: Facts, machine: Machine
) -> Window | None:
    del facts
    return None if _stays(stage, copy.moves_to, machine) else (stage, copy)


def _copy_behind_negatives(copy: CopyTo, stage: SampleUniformNegative, facts: Facts, machine: Machine) -> Window | None:
    del facts, machine
    return None if copy.moves_to == CPU else (stage, copy)


def _stays(stage: Stage, place: Place | None, machine: Machine) -> bool:
    """Whether a stage works on a batch that was copied to a place."""
    if place is None or place == CPU:
        return True
    # Where ranks exchange ids in CPU memory, the pass that inserts the exchange moves the copy.
    sampled_there = isinstance(stage, HopStage) and stage.on_gpu
    return machine.gpus > 0 and place.kind == "cuda" and sampled_there


RULES = (
    Rule("no kernel on a GPU: copy_to behind negatives", (CopyTo, SampleUniformNegative), _copy_behind_negatives),
    Rule("no kernel on a GPU: copy_to behind the hop", (CopyTo, HopStage, Compact), _copy_behind_hop),
    Rule("no kernel on a GPU: copy_to behind the sampler", (CopyTo, Sampler), _copy_behind),
    Rule("trees are planted on the CPU: copy_to behind their roots", (CopyTo, PlantTrees), _copy_behind),
    Rule("ids of a graph with an order of its own: copy_to behind them", (CopyTo, TranslateIds), _copy_behind),
)
