"""LADIES and PLADIES: layer sampling, where a hop draws its nodes as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ops.sampling.rules import LadiesRule
from headrace.pipeline.lowered._hop import Hop
from headrace.pipeline.plan import MacroStage, Stage, check_edge_ids, check_flags, check_weight, rules_of, verb
from headrace.pipeline.plan.fanouts import Counts as SizesByHop
from headrace.pipeline.plan.fanouts import counts_by_relation
from headrace.pipeline.stages.hop_sampler import sampled
from headrace.pipeline.stages.sampler import Sampler


@verb("sample_ladies")
@dataclass(frozen=True, eq=False, repr=False)
class SampleLadies(MacroStage, Sampler):
    """Draw a number of nodes per *layer*: LADIES (arXiv 1911.07323) and PLADIES (arXiv 2210.13339).

    The destinations of a hop are all nodes found so far. Each in-neighbour t has the score ``q_t = sum of P_ts ** 2``
    over the destinations s, with P_ts = 1 / in-degree of s (or the edge's share of the row's weights). Nodes are drawn
    by their scores, and *all* edges from them to the destinations are kept. Therefore the number of nodes of a batch is
    known beforehand, and a destination may have any number of edges, or none.

    ``Block.weight`` is P_ts / pi_t, where pi_t is the probability of t, scaled to average to 1 per destination. The
    plain mean of messages times these weights is the Hajek estimate of the mean (or weighted mean) over all in-edges;
    without edges, use 0. The scores depend on all nodes of the hop. Ranks that each sample a share of the batch draw
    `layer_sizes` each; with ``.loader(cooperative=True)`` they draw together.

    *Self terms.* Destinations are the first sources of a block, as always, so a layer has their own rows
    (``x[:num_dst]``) without a draw. Destinations have no other advantage: no self-loops are added, and an edge from
    one destination to another is kept only if its source was drawn. Otherwise the estimate would be biased.
    Destinations that are drawn count towards `layer_sizes`, so a layer adds at most that many new nodes. For P with
    self-loops, use a graph with self-loops.

    Parameters
    ----------
    graph
        The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
    layer_sizes
        Nodes to draw, one number per hop. ``layer_sizes[0]`` is the hop next to the seeds; DGL and GraphBolt list them
        from the input side, so reverse such a list. -1 takes all in-neighbours.
    poisson
        False (default): LADIES, exactly that many nodes (if there are as many), one after the other, without
        replacement. The published estimate is biased; this one divides by probabilities that make it unbiased before
        scaling. True: PLADIES, each node independently with probability ``min(1, c * q_t)``; layer sizes are then
        expected numbers.
    layer_dependency
        Whether all hops share the random numbers, so that a node drawn in one hop is likely to be drawn in the next.
    weight
        Name of the edge attribute A, one number of at least 0 per edge, for P_ts = A_ts / sum of A over the in-edges of
        s. Edges of weight 0 are never kept. None (default): all edges have equal weight.
    edge_ids
        Whether blocks carry the original ids of their edges.

    Raises
    ------
    InputError
        If there is no such edge attribute, or it holds negative, infinite or undefined values.
        For layer sizes that are empty or below -1, or a subject that is not a graph.
    """

    with_types: ClassVar[bool] = True

    layer_sizes: SizesByHop
    poisson: bool = field(default=False, kw_only=True)
    layer_dependency: bool = field(default=False, kw_only=True)
    weight: str | None = field(default=None, kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(self, "poisson", "layer_dependency", "edge_ids")
        check_weight(self.name, self.graph, self.weight)
        object.__setattr__(
            self, "layer_sizes", counts_by_relation(self.name, "layer_size", self.layer_sizes, self.graph)
        )
        check_edge_ids(self.name, self.graph, self.edge_ids)

    @property
    def num_hops(self) -> int:
        return len(self.layer_sizes)

    def parts(self) -> tuple[Stage, ...]:
        rules = rules_of(self.graph, self.layer_sizes, lambda size: LadiesRule(size, poisson=self.poisson))
        hops = [
            Hop(
                self.graph,
                rule,
                key_layer=0 if self.layer_dependency else layer,
                weight=self.weight,
                edge_ids=self.edge_ids,
            )
            for layer, rule in enumerate(rules)
        ]
        return sampled(hops)
