"""The stages: the import of the file of a stage adds its verb to plans."""

# ruff: noqa: F401 - imported for their verbs
from headrace.pipeline.stages import (
    cluster_sampler,
    conversions,
    copy_to,
    exclude_seed_edges,
    fetch_feature,
    induce_subgraph,
    item_sampler,
    ladies,
    make_bidirectional,
    neighbor,
    other_sources,
    pad,
    pinsage,
    saint,
    shadow,
    steps,
    uniform_negative,
)
