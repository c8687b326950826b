"""What a plan is: stages and their traits, the legal language, rewriting, the machine that is planned for.

Wings above import the names that most of them use from here.
"""

from headrace.ops.errors import HeadraceError, InputError, PlanError
from headrace.pipeline.plan.checks import (
    MOST_HOPS,
    check_edge_ids,
    check_expand,
    check_flags,
    check_graph,
    check_partition_fits,
    check_weight,
    graphs_of,
    make_positive,
)
from headrace.pipeline.plan.fanouts import rules_of
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.plan import Plan, verb
from headrace.pipeline.plan.rules import Facts, Rule, Window
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import LAST_EPOCH, BatchSource, NumberedSource, SourceStage, source_of
from headrace.pipeline.plan.stage import (
    CONVERTED,
    HOP,
    MINIBATCH,
    PADDED,
    Counts,
    MacroStage,
    MapStage,
    PlainStage,
    Runner,
    Stage,
    WindowRunner,
    WindowStage,
)
from headrace.pipeline.plan.traits import Divided, RankTraits, Watched

__all__ = [
    "CONVERTED",
    "HOP",
    "LAST_EPOCH",
    "MINIBATCH",
    "MOST_HOPS",
    "PADDED",
    "BatchSource",
    "Counts",
    "Divided",
    "Facts",
    "HeadraceError",
    "InputError",
    "Machine",
    "MacroStage",
    "MapStage",
    "NumberedSource",
    "PlainStage",
    "Plan",
    "PlanError",
    "RankTraits",
    "Rule",
    "RunSettings",
    "Runner",
    "SourceStage",
    "Stage",
    "Watched",
    "Window",
    "WindowRunner",
    "WindowStage",
    "check_edge_ids",
    "check_expand",
    "check_flags",
    "check_graph",
    "check_partition_fits",
    "check_weight",
    "graphs_of",
    "make_positive",
    "rules_of",
    "source_of",
    "verb",
]
