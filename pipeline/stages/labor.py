"""LABOR: layer-neighbour sampling, where vertices share their randomness and so their neighbours."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.ops.sample import LaborRule
from headrace.pipeline.stage import verb
from headrace.pipeline.stages.hop_sampler import HopSampler


@verb("sample_layer_neighbor")
@dataclass(frozen=True, eq=False, repr=False)
class SampleLayerNeighbor(HopSampler):
    """Sample in-neighbours with one random number per *source* vertex and hop: LABOR-0 (arXiv 2210.13339).

    Vertices that share a neighbour agree on whether to draw it, so a batch touches fewer vertices than with
    ``sample_neighbor`` at the same fanouts, while each vertex by itself sees a uniform sample of the same size.

    Parameters
    ----------
    graph
        The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
    fanouts
        In-edges per vertex, one number per hop. ``fanouts[0]`` is the hop next to the seeds, as in PyG; DGL and
        GraphBolt list them from the input side, so reverse a list that comes from there. -1 takes all in-edges.
    exact
        True (default): each vertex gets exactly ``min(fanout, in-degree)`` in-edges, those with the smallest random
        numbers. False: Poisson sampling as in the paper, where ``fanout`` is the expected number.
    layer_dependency
        Whether all hops share the random numbers, so that a vertex keeps its neighbourhood from hop to hop; fewer
        vertices still, at the price of dependent layers.
    weight
        Name of the edge attribute A to sample by, one number of at least 0 per edge: edge t -> s is wanted with
        probability min(1, fanout * A_ts / sum of A over the in-edges of s), and ``Block.weight`` makes a plain mean the
        Hajek estimate of the mean weighted by A. Edges of weight 0 are never drawn. None (default) samples uniformly.
    expand, edge_ids
        As for ``sample_neighbor``.

    Raises
    ------
    GraphError
        If there is no such edge attribute, or it holds negative, infinite or undefined values.
    InputError
        For fanouts that are empty or below -1, a subject that is not a graph, or an unknown hop rule.
    """

    exact: bool = field(default=True, kw_only=True)
    layer_dependency: bool = field(default=False, kw_only=True)

    def rule(self, fanout: int) -> LaborRule:
        return LaborRule(fanout, exact=self.exact)

    def key_layer(self, layer: int) -> int:
        return 0 if self.layer_dependency else layer
