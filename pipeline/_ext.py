"""The classes that extend headrace: stages, samplers and their rules, sources of batches, feature sources, passes.

`docs/extending.md` has an example of each. `hr.FeatureSource`, `hr.Rows` and `hr.Comm`, which programs that extend
nothing use as well, are in `headrace` itself.
"""

from headrace.ops.random.uniform import uniform
from headrace.ops.sampling.rules import LaborImportanceRule, LaborRule, LadiesRule, LatestRule, NeighborRule
from headrace.pipeline.lowered._with_hop import with_hop
from headrace.pipeline.plan.plan import verb, verbs
from headrace.pipeline.plan.rules import Facts, Pass, Promise, Rule
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import BatchSource, SourceStage
from headrace.pipeline.plan.stage import MacroStage, MapStage, Stage
from headrace.pipeline.stages.hop_sampler import HopSampler
from headrace.pipeline.stages.other_sources import NodeSource
from headrace.pipeline.storage.source_protocols import ExpectingSource, PlacingSource
from headrace.pipeline.storage.users_policy import CachePolicy

__all__ = [
    "BatchSource",
    "CachePolicy",
    "ExpectingSource",
    "Facts",
    "HopSampler",
    "LaborImportanceRule",
    "LaborRule",
    "LadiesRule",
    "LatestRule",
    "MacroStage",
    "MapStage",
    "NeighborRule",
    "NodeSource",
    "Pass",
    "PlacingSource",
    "Promise",
    "Rule",
    "RunSettings",
    "SourceStage",
    "Stage",
    "uniform",
    "verb",
    "verbs",
    "with_hop",
]
