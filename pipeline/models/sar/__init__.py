"""Training on the whole graph, in the memory that a part of it takes (SAR, arXiv 2111.06483).

=====================  ==================================================================================
`ShardedGraph`         a rank's part of a graph; layers pass messages over it, shard by shard
`wrap`                 a model of PyG's or DGL's layers, for calls with such a graph
`dropout_state`        the state of its dropout masks, for checkpoints; `load_dropout_state` restores it
=====================  ==================================================================================
"""

from typing import TYPE_CHECKING

from headrace.ops.names import refusal
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph
from headrace.pipeline.models.sar.transfer import Counts
from headrace.pipeline.models.sar.wrap import dropout_state, load_dropout_state, wrap

__all__ = ["Counts", "ShardedGraph", "dropout_state", "load_dropout_state", "wrap"]

if not TYPE_CHECKING:  # a checker would take any name
    __getattr__ = refusal("headrace.sar", __all__)


def __dir__() -> list[str]:
    # What is public, not the modules that it is in.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
