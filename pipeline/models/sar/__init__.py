"""Training on the whole graph at once, in as much memory as a part of it takes (SAR, arXiv 2111.06483).

=====================  ==================================================================================
`ShardedGraph`         a rank's part of a graph, over which layers pass messages, shard after shard
`wrap`                 a model of PyG's or DGL's layers, to be called with such a graph
`dropout_state`        where its masks of dropout are, for checkpoints; `load_dropout_state` goes on there
=====================  ==================================================================================
"""

from __future__ import annotations

from headrace.pipeline.models.sar.counts import Counts
from headrace.pipeline.models.sar.dropout_state import dropout_state, load_dropout_state
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph
from headrace.pipeline.models.sar.wrap import wrap

__all__ = ["Counts", "ShardedGraph", "dropout_state", "load_dropout_state", "wrap"]


def __dir__() -> list[str]:
    # What is public, not the modules that it is in.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
