"""Sample on the CPU with rules that have no GPU kernel: the copy to the GPU moves to after the sampler.

A copy of seeds to a GPU requests sampling there. Rules without a kernel, walks, GraphSAINT's samplers, parts of a graph
and reordered graphs are sampled in CPU memory nevertheless, and the plan shows it. Negatives and the roots of trees,
which stand before the sampler, are then made on the CPU as well; so are roots in a graph in shards. Each rank that
takes its own share of batches samples on its GPU as one process does; `cooperative` decides for ranks that share
batches.
"""

from __future__ import annotations

from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.lowered import Compact, HopStage, PlantTrees, TranslateIds
from headrace.pipeline.plan import Facts, Machine, Rule, Stage, Window
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.sampler import Sampler
from headrace.pipeline.stages.uniform_negative import SampleUniformNegative

#: What a GPU does for seeds before their first hop, if it also samples that.
_BEFORE_HOPS = (SampleUniformNegative, PlantTrees)


def _copy_behind_hop(
    copy: CopyTo, between: Window, hop: HopStage, compact: Compact, facts: Facts, machine: Machine
) -> Window | None:
    del facts
    return _copy_behind(copy, between, (hop, compact), machine)


def _copy_behind_stage(
    copy: CopyTo,
    between: Window,
    stage: Sampler | TranslateIds | PlantTrees,
    facts: Facts,
    machine: Machine,
) -> Window | None:
    del facts
    return _copy_behind(copy, between, (stage,), machine)


def _copy_behind_negatives(copy: CopyTo, stage: SampleUniformNegative, facts: Facts, machine: Machine) -> Window | None:
    del facts
    return _copy_behind(copy, (), (stage,), machine)


def _copy_behind(copy: CopyTo, between: Window, finding: Window, machine: Machine) -> Window | None:
    """Move a copy behind a stage that does not work where it copies to, and behind what prepares seeds for that."""
    if not all(isinstance(one, _BEFORE_HOPS) for one in between) or _stays(finding[0], copy.moves_to, machine):
        return None
    return (*between, *finding, copy)


def _stays(stage: Stage, place: Place | None, machine: Machine) -> bool:
    """Whether a stage works on a batch that was copied to a place."""
    if place is None or place == CPU:
        return True
    # Where hops are at the owners of shards, the pass that puts them there moves the copy from before a hop alone.
    alone = machine.world_size == 1 or stage.num_hops > 0 or not stage.divided()
    return machine.gpus > 0 and place.kind == "cuda" and getattr(stage, "on_gpu", False) and alone


RULES = (
    Rule("no kernel on a GPU: copy_to behind negatives", (CopyTo, SampleUniformNegative), _copy_behind_negatives),
    Rule("no kernel on a GPU: copy_to behind the hop", (CopyTo, ..., HopStage, Compact), _copy_behind_hop),
    Rule("no kernel on a GPU: copy_to behind the sampler", (CopyTo, ..., Sampler), _copy_behind_stage),
    Rule("trees are planted on the CPU: copy_to behind their roots", (CopyTo, ..., PlantTrees), _copy_behind_stage),
    Rule(
        "ids of a graph with an order of its own: copy_to behind them", (CopyTo, ..., TranslateIds), _copy_behind_stage
    ),
)
