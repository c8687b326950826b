"""The stages, one a file, which is loaded when its verb or its class is asked for the first time."""

from typing import TYPE_CHECKING

from headrace.ops.names import later as _later
from headrace.pipeline.data.later import VERBS as _VERBS

if TYPE_CHECKING:
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

# The file of each stage.
_FILES = {
    "ClusterSampler": "cluster_sampler",
    "CopyTo": "copy_to",
    "ExcludeSeedEdges": "exclude_seed_edges",
    "FetchFeature": "fetch_feature",
    "GlobalBatch": "global_batch",
    "InduceSubgraph": "induce_subgraph",
    "ItemSampler": "item_sampler",
    "MakeBidirectional": "make_bidirectional",
    "NodeSource": "node_source",
    "Prefetch": "prefetch",
    "SampleInSubgraph": "in_subgraph",
    "SampleLadies": "ladies",
    "SampleLayerNeighbor": "labor",
    "SampleNeighbor": "neighbor",
    "SamplePinsage": "pinsage",
    "SampleSaintEdge": "saint_edge",
    "SampleSaintNode": "saint_node",
    "SampleSaintWalk": "saint_walk",
    "SampleShadow": "shadow",
    "SampleUniformNegative": "uniform_negative",
    "ToDgl": "to_dgl",
    "ToPyg": "to_pyg",
    "Transform": "transform",
}

# The file of each verb.
_VERB_FILES = {
    "copy_to": "copy_to",
    "exclude_seed_edges": "exclude_seed_edges",
    "fetch_feature": "fetch_feature",
    "induce_subgraph": "induce_subgraph",
    "make_bidirectional": "make_bidirectional",
    "prefetch": "prefetch",
    "sample_in_subgraph": "in_subgraph",
    "sample_ladies": "ladies",
    "sample_layer_neighbor": "labor",
    "sample_neighbor": "neighbor",
    "sample_pinsage": "pinsage",
    "sample_saint_edge": "saint_edge",
    "sample_saint_node": "saint_node",
    "sample_saint_walk": "saint_walk",
    "sample_shadow": "shadow",
    "sample_uniform_negative": "uniform_negative",
    "to_dgl": "to_dgl",
    "to_pyg": "to_pyg",
    "transform": "transform",
}

_VERBS.update({verb: f"{__name__}.{file}" for verb, file in _VERB_FILES.items()})

if not TYPE_CHECKING:
    __getattr__, __dir__ = _later(__name__, {name: f"{__name__}.{file}" for name, file in _FILES.items()}, {})
