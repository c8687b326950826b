"""Uniform neighbour sampling, the GraphSAGE sampler."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.ops.sampling.rules import NeighborRule
from headrace.pipeline.plan.checks import check_flags
from headrace.pipeline.plan.verbs import verb
from headrace.pipeline.stages.hop_sampler import HopSampler


@verb("sample_neighbor")
@dataclass(frozen=True, eq=False, repr=False)
class SampleNeighbor(HopSampler):
    """Sample in-neighbours hop by hop, each node for itself (GraphSAGE, arXiv 1706.02216).

    Every k-subset of a node's in-edges is equally likely, exactly: the integers behind it are free of modulo bias.

    Parameters
    ----------
    graph
        The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
    fanouts
        In-edges to draw per node, one number per hop. ``fanouts[0]`` is the hop next to the seeds, as in PyG; DGL and
        GraphBolt list them from the input side, so reverse a list that comes from there. -1 takes all in-edges.
    replace
        Whether to draw with replacement. A fanout of -1 takes every in-edge once either way.
    weight
        Name of the edge attribute to sample by, one number of at least 0 per edge: without replacement edges are drawn
        one after the other with probabilities proportional to it, with replacement each draw is. Edges of weight 0 are
        never drawn. None (default) samples uniformly. Without replacement a plain mean over the picks estimates neither
        the mean nor the weighted mean of all in-edges: for that take `sample_layer_neighbor`. The first batch makes
        tables of two bytes per edge, which stay with the graph.
    expand
        ``"all"`` (default): each hop samples for every node seen so far, which layer-wise blocks need (DGL,
        GraphBolt). ``"new"``: only for nodes that the previous hop reached first, which gives one block that all
        layers share (PyG, ``trim_to_layer``).
    edge_ids
        Whether blocks carry the original ids of their edges; without them sampling is a little faster.

    Raises
    ------
    GraphError
        If there is no such edge attribute, or it holds negative, infinite or undefined values.
    InputError
        For fanouts that are empty or below -1, a subject that is not a graph, or an unknown hop rule.
    """

    replace: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(self, "replace")

    def rule(self, fanout: int) -> NeighborRule:
        return NeighborRule(fanout, replace=self.replace)
