"""Scores of nodes: how hot their features are, the larger the hotter, float64[num_nodes].

They say which rows are worth a place in fast memory, before any is read:

====================================  ======================================================================
`out_degree`                          how many nodes may ask for it in one hop
`reverse_pagerank`                    the same over many hops, from all nodes alike
`weighted_reverse_pagerank`           over five hops, mostly from the labelled nodes (Data Tiering)
`inclusion`                           how likely a plan's own sampler is to reach it, from the plan's own items
`access_frequency`                    how often a short run of the plan reads it
`ranking`                             the ids by falling score
====================================  ======================================================================
"""

from __future__ import annotations

from headrace.pipeline.data.ranking import ranking
from headrace.pipeline.scores.access_frequency import access_frequency
from headrace.pipeline.scores.inclusion import inclusion
from headrace.pipeline.scores.out_degree import out_degree
from headrace.pipeline.scores.reverse_pagerank import reverse_pagerank, weighted_reverse_pagerank

__all__ = [
    "access_frequency",
    "inclusion",
    "out_degree",
    "ranking",
    "reverse_pagerank",
    "weighted_reverse_pagerank",
]


def __dir__() -> list[str]:
    # The functions, not the modules that they are in.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
