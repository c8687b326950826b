"""Scores of nodes, float64[num_nodes]: the larger, the more often the features of the node are read.

They show which rows to keep in fast memory, before any row is read:

====================================  ======================================================================
`out_degree`                          the number of nodes that may read it in one hop
`reverse_pagerank`                    the same over many hops, from all nodes equally
`weighted_reverse_pagerank`           over five hops, mostly from the labelled nodes (Data Tiering)
`inclusion`                           the probability that a plan's own sampler finds it, from the plan's own items
`access_frequency`                    the number of reads in a short run of the plan
`ranking`                             the ids by falling score
====================================  ======================================================================
"""

from typing import TYPE_CHECKING

from headrace.ops.names import refusal
from headrace.pipeline.data.ranking import ranking
from headrace.pipeline.scores.inclusion import access_frequency, inclusion
from headrace.pipeline.scores.reverse_pagerank import out_degree, reverse_pagerank, weighted_reverse_pagerank

__all__ = [
    "access_frequency",
    "inclusion",
    "out_degree",
    "ranking",
    "reverse_pagerank",
    "weighted_reverse_pagerank",
]

if not TYPE_CHECKING:  # a checker would take any name
    __getattr__ = refusal("headrace.scores", __all__)


def __dir__() -> list[str]:
    # The functions, not the modules that they are in.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
