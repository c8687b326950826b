"""Uniform neighbour sampling, the GraphSAGE sampler, and whole in-neighbourhoods, where nothing is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from headrace.ops.errors import InputError
from headrace.ops.sampling.rules import LatestRule, NeighborRule
from headrace.pipeline.data.arrays import is_one_of
from headrace.pipeline.lowered.hop import Hop
from headrace.pipeline.lowered.sample_hop import Expand
from headrace.pipeline.plan.checks import MOST_HOPS, check_edge_ids, check_expand, check_flags, make_positive
from headrace.pipeline.plan.fanouts import rules_of
from headrace.pipeline.plan.stage import MacroStage, Stage
from headrace.pipeline.plan.verbs import verb
from headrace.pipeline.stages.hop_sampler import TreeSampler, sampled
from headrace.pipeline.stages.sampler import Sampler


@verb("sample_neighbor")
@dataclass(frozen=True, eq=False, repr=False)
class SampleNeighbor(TreeSampler):
    """Sample in-neighbours hop by hop, independently for each node (GraphSAGE, arXiv 1706.02216).

    Every k-subset of a node's in-edges is exactly equally likely: the random integers have no modulo bias.

    Parameters
    ----------
    graph
        The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
    fanouts
        In-edges to draw per node, one number per hop. ``fanouts[0]`` is the hop next to the seeds, as in PyG; DGL and
        GraphBolt list them from the input side, so reverse such a list. -1 takes all in-edges.
    replace
        Whether to draw with replacement. A fanout of -1 takes every in-edge once either way.
    weight
        Name of the edge attribute to sample by, one number of at least 0 per edge. Each draw has probabilities
        proportional to it; without replacement, edges are drawn one after the other. Edges of weight 0 are never drawn.
        None (default) samples uniformly. Weighted sampling without replacement gives no unbiased mean or weighted mean;
        use `sample_layer_neighbor`. The first batch makes tables of two bytes per edge, which the graph keeps.
    expand
        ``"all"`` (default): each hop samples for every node found so far, as layer-wise blocks need (DGL, GraphBolt).
        ``"new"``: each hop samples only for nodes that the previous hop found first, so all layers share one block
        (PyG, ``trim_to_layer``).
    edge_ids
        Whether blocks carry the original ids of their edges; without them sampling is a little faster.
    disjoint
        Whether each seed has its own tree. Trees share no nodes: a node in two trees has two entries, and
        `MiniBatch.slot` is the tree of each entry. Seeds are first, repeats included, one tree each; both ends of a
        pair share one tree. Draws of trees are independent.
    time
        Name of the times of edges, nodes, or both (edge attributes and node attributes of the graph). Each seed then
        has its own tree, which contains only edges no later than the seed. The time of an edge is the later of its own
        time and that of its source. The time of a seed is given by ``ItemSampler(items, time=...)``, or is that of its
        node. The first loader sorts rows by time, once, and copies the graph if they are not sorted; see
        `Graph.by_time`.

        *The seed's own time is included*: for a link at time t, the tree contains the edge of that link, which reveals
        its label. For links that are edges of the graph use ``strictly_before=True``; or, to keep other edges of that
        time, ``exclude_seed_edges(by="edge_id")``, which leaves out only the link's own edge.
    window
        With `time`, the length of the time window: edges are no earlier than the seed's time minus `window`.
    strictly_before
        With `time`: False (default) includes edges of the seed's own time; True only earlier edges, in all hops.
        Earlier edges between the same nodes stay; `exclude_seed_edges` by the ends of pairs would leave them out. A
        window ends at the seed's time in both cases.
    strategy
        With `time`: ``"uniform"`` (default) draws among the edges in the time window, by `weight` if given; ``"last"``
        takes the most recent ones. Among edges with the same time, those given last count as most recent.

    Raises
    ------
    GraphError
        If there is no such edge attribute, or it holds negative, infinite or undefined values; if there are no times of
        this name, or they are not times.
    InputError
        For fanouts that are empty or below -1, a subject that is not a graph, or an unknown hop rule; for a window,
        `strictly_before` or ``strategy="last"`` without times; for ``strategy="last"`` with a weight or replacement.
    """

    replace: bool = field(default=False, kw_only=True)
    strategy: Literal["uniform", "last"] = field(default="uniform", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(self, "replace")
        if not is_one_of(self.strategy, ("uniform", "last")):
            raise InputError(f"{self.name}: expected strategy to be 'uniform' or 'last', got {self.strategy!r}")
        if self.strategy == "last" and (self.time is None or self.replace or self.weight is not None):
            raise InputError(
                f"{self.name}: expected time= beside strategy='last', which takes the most recent edges, and neither "
                f"replace nor weight, got time={self.time!r}, replace={self.replace}, weight={self.weight!r}"
            )

    def decisive(self) -> dict[str, Any]:
        decisive = super().decisive()
        if self.strategy == "uniform":  # checkpoints of before there was another stay valid
            del decisive["strategy"]
        return decisive

    def rule(self, fanout: int) -> NeighborRule | LatestRule:
        if self.strategy == "last":
            return LatestRule(fanout)
        return NeighborRule(fanout, replace=self.replace)


@verb("sample_in_subgraph")
@dataclass(frozen=True, eq=False, repr=False)
class SampleInSubgraph(Sampler, MacroStage):
    """Take all in-edges, hop by hop: ``sample_neighbor`` with fanouts of -1.

    Parameters
    ----------
    graph
        The graph to take the edges from.
    num_hops
        The number of hops from the seeds; 1 (default) gives the subgraph of all edges that end at a seed.
    expand, edge_ids
        As for ``sample_neighbor``. With ``"all"`` blocks repeat edges, as layers need them; with ``"new"`` each edge is
        in one block only.

    Raises
    ------
    InputError
        For a number of hops below 1, a subject that is not a graph, or an unknown hop rule.
    """

    with_types: ClassVar[bool] = True

    num_hops: int = field(default=1, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_expand(self.name, self.expand)
        make_positive(self, "num_hops", most=MOST_HOPS)
        check_flags(self, "edge_ids")
        check_edge_ids(self.name, self.graph, self.edge_ids)

    def parts(self) -> tuple[Stage, ...]:
        rules = rules_of(self.graph, (-1,) * self.num_hops, NeighborRule)
        hops = [Hop(self.graph, rule, key_layer=layer, edge_ids=self.edge_ids) for layer, rule in enumerate(rules)]
        return sampled(hops, self.expand)
