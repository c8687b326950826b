"""The stages. The file of a stage is loaded when its verb or its class is asked for the first time."""

from headrace.pipeline.later import SOURCES as _SOURCES
from headrace.pipeline.later import VERBS as _VERBS

# The file of each verb.
_FILES = {
    "copy_to": "copy_to",
    "exclude_seed_edges": "exclude_seed_edges",
    "fetch_feature": "fetch_feature",
    "induce_subgraph": "induce_subgraph",
    "make_bidirectional": "make_bidirectional",
    "pad": "pad",
    "prefetch": "steps",
    "sample_in_subgraph": "neighbor",
    "sample_ladies": "ladies",
    "sample_layer_neighbor": "neighbor",
    "sample_neighbor": "neighbor",
    "sample_pinsage": "pinsage",
    "sample_saint_edge": "saint_sampler",
    "sample_saint_node": "saint_sampler",
    "sample_saint_walk": "saint_walk",
    "sample_shadow": "shadow",
    "sample_uniform_negative": "uniform_negative",
    "to_dgl": "conversions",
    "to_pyg": "conversions",
    "transform": "steps",
}

_VERBS.update({verb: f"{__name__}.{file}" for verb, file in _FILES.items()})
_SOURCES += [f"{__name__}.{file}" for file in ("cluster_sampler", "item_sampler", "other_sources")]
