"""The stages, one a file. Importing this package registers their verbs on plans."""

from headrace.pipeline.stages.cluster_sampler import ClusterSampler
from headrace.pipeline.stages.copy_to import CopyTo
from headrace.pipeline.stages.exclude_seed_edges import ExcludeSeedEdges
from headrace.pipeline.stages.fetch_feature import FetchFeature
from headrace.pipeline.stages.global_batch import GlobalBatch
from headrace.pipeline.stages.in_subgraph import SampleInSubgraph
from headrace.pipeline.stages.induce_subgraph import InduceSubgraph
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.labor import SampleLayerNeighbor
from headrace.pipeline.stages.ladies import SampleLadies
from headrace.pipeline.stages.make_bidirectional import MakeBidirectional
from headrace.pipeline.stages.neighbor import SampleNeighbor
from headrace.pipeline.stages.node_source import NodeSource
from headrace.pipeline.stages.pinsage import SamplePinsage
from headrace.pipeline.stages.prefetch import Prefetch
from headrace.pipeline.stages.saint_edge import SampleSaintEdge
from headrace.pipeline.stages.saint_node import SampleSaintNode
from headrace.pipeline.stages.saint_walk import SampleSaintWalk
from headrace.pipeline.stages.shadow import SampleShadow
from headrace.pipeline.stages.to_dgl import ToDgl
from headrace.pipeline.stages.to_pyg import ToPyg
from headrace.pipeline.stages.transform import Transform
from headrace.pipeline.stages.uniform_negative import SampleUniformNegative

__all__ = [
    "ClusterSampler",
    "CopyTo",
    "ExcludeSeedEdges",
    "FetchFeature",
    "GlobalBatch",
    "InduceSubgraph",
    "ItemSampler",
    "MakeBidirectional",
    "NodeSource",
    "Prefetch",
    "SampleInSubgraph",
    "SampleLadies",
    "SampleLayerNeighbor",
    "SampleNeighbor",
    "SamplePinsage",
    "SampleSaintEdge",
    "SampleSaintNode",
    "SampleSaintWalk",
    "SampleShadow",
    "SampleUniformNegative",
    "ToDgl",
    "ToPyg",
    "Transform",
]
