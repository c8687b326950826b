"""Stages without verbs, which only passes produce. The stages share the files with an underscore.

Wings above import the names that most of them use from here; stages of ranks and of GPUs are apart and loaded where a
plan has one.
"""

from headrace.pipeline.lowered._excluded import SeedEdges, seed_edges
from headrace.pipeline.lowered._fetch_stage import FetchStage
from headrace.pipeline.lowered._finders import HERE, Finder
from headrace.pipeline.lowered._hop import Hop
from headrace.pipeline.lowered.compact import Compact, with_square_block
from headrace.pipeline.lowered.sample_hop import Expand, HopStage, SampleHop
from headrace.pipeline.lowered.translate_ids import TranslateIds, in_graph_ids
from headrace.pipeline.lowered.trees import PlantTrees, Trees

__all__ = [
    "HERE",
    "Compact",
    "Expand",
    "FetchStage",
    "Finder",
    "Hop",
    "HopStage",
    "PlantTrees",
    "SampleHop",
    "SeedEdges",
    "TranslateIds",
    "Trees",
    "in_graph_ids",
    "seed_edges",
    "with_square_block",
]
