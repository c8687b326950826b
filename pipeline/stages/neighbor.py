"""Samplers of neighbours: uniform (GraphSAGE), with shared random numbers (LABOR), and all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from headrace.ops.errors import InputError
from headrace.ops.sampling.rules import MOST_ROUNDS, LaborImportanceRule, LaborRule, LatestRule, NeighborRule
from headrace.pipeline.data.arrays import as_number, is_one_of, whole_number
from headrace.pipeline.lowered import Expand, Hop
from headrace.pipeline.plan.checks import (
    LARGEST_COUNT,
    MOST_HOPS,
    check_edge_ids,
    check_expand,
    check_flags,
    make_positive,
)
from headrace.pipeline.plan.fanouts import rules_of
from headrace.pipeline.plan.plan import verb
from headrace.pipeline.plan.stage import MacroStage, Stage
from headrace.pipeline.stages.hop_sampler import HopSampler, sampled
from headrace.pipeline.stages.sampler import Sampler


@verb("sample_neighbor")
@dataclass(frozen=True, eq=False, repr=False)
class SampleNeighbor(HopSampler):
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
    InputError
        If there is no such edge attribute, or it holds negative, infinite or undefined values; if there are no times of
        this name, or they are not times.
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
class SampleInSubgraph(MacroStage, Sampler):
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


@verb("sample_layer_neighbor")
@dataclass(frozen=True, eq=False, repr=False)
class SampleLayerNeighbor(HopSampler):
    """Sample in-neighbours with one random number per *source* node and hop: LABOR (arXiv 2210.13339).

    Nodes that share a neighbour agree on whether to draw it. Therefore a batch has fewer nodes than with
    ``sample_neighbor`` at the same fanouts, while each node alone has a uniform sample of the same size. Parallel edges
    have separate random numbers; the first batch checks once whether the graph has any.

    Parameters
    ----------
    graph
        The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
    fanouts
        In-edges per node, one number per hop. ``fanouts[0]`` is the hop next to the seeds, as in PyG; DGL and GraphBolt
        list them from the input side, so reverse such a list. -1 takes all in-edges.
    exact
        True (default): each node gets exactly ``min(fanout, in-degree)`` in-edges, those with the smallest random
        numbers. False: Poisson sampling as in the paper, where ``fanout`` is the expected number. LABOR-1, ... and
        LABOR-* are always Poisson sampling.
    importance
        The number of rounds in which the nodes of a hop agree on the probabilities of their in-neighbours: 0 (default)
        is LABOR-0, 1 is LABOR-1, and so on to 1,000; ``"*"`` stops after a round that lowers the expected number of
        nodes by at most 0.01 % (LABOR-*).

        *Gains*: fewer nodes, so fewer feature rows, at the same variance of a mean over the sampled neighbours
        (published for ogbn-products, three layers of fanout 10: 166 thousand for LABOR-*, 237 thousand for LABOR-0, 513
        thousand for ``sample_neighbor``).

        *Costs*: more edges, because a node draws more than ``fanout`` of its in-edges if their probabilities differ.
        More time, because every round reads all in-edges of all nodes of the hop. A model must use ``Block.weight``,
        which is always present: the plain mean of weighted messages is the Hajek estimate; without edges, use 0. The
        probabilities depend on all nodes of the hop. Ranks that each sample a share of the batch agree within their own
        share only, so their nodes differ from those of one process. With ``cooperative=True`` all ranks agree, in 3
        rounds of communication for each round of importance.
    layer_dependency
        Whether all hops share the random numbers, so that a node keeps its neighbourhood from hop to hop. A batch then
        has still fewer nodes, but layers are dependent.
    batch_dependency
        Kappa, the number of batches over which the random numbers change (arXiv 2310.12403). 1 (default): new random
        numbers for every batch. With more, consecutive batches sample mostly the same neighbours of the nodes that they
        share, so a cache of feature rows misses less. ``math.inf``: the random numbers never change, in any batch or
        epoch. The law of each single batch does not depend on kappa, so sizes, bias and variance stay.

        *Costs*: batches that are less than 2 * kappa apart are dependent; with ``math.inf`` a node's neighbourhood is
        the same for the whole training. Sampling takes some 50 ns more per in-edge, except in each kappa-th batch,
        because it blends two random numbers. The random numbers change gradually within an epoch; a new epoch begins
        with new ones, so nearly all neighbours change at once. Trees refuse it: their random numbers depend on the
        position of their seed in the batch, which changes.
    weight
        Name of the edge attribute A to sample by, one number of at least 0 per edge. The target probability of edge t
        -> s is min(1, fanout * A_ts / sum of A over the in-edges of s). With ``Block.weight`` the plain mean is the
        Hajek estimate of the mean weighted by A. Edges of weight 0 are never drawn. None (default) samples uniformly.

        *Bias.* With ``exact=True`` that estimate is biased if fanouts are small or close to in-degrees and messages
        correlate with the weights. For messages proportional to the weights, the bias is about 0.2 standard deviations
        at 1 or at 10 of 20 in-edges, and 0.02 to 0.05 at 1 to 10 of 100. For messages independent of the weights there
        is none. ``sample_neighbor(..., weight=..., replace=True)`` has no bias at any fanout. Larger fanouts, with
        ``exact=False``, make the bias small.
    expand, edge_ids, disjoint, time, window, strictly_before
        As for ``sample_neighbor``. Trees share no random numbers: `importance` must be 0, and `batch_dependency` 1.

    Raises
    ------
    InputError
        If there is no such edge attribute, or it holds negative, infinite or undefined values.
        For fanouts that are empty or below -1, a subject that is not a graph, an unknown hop rule, an importance that
        is neither "*" nor an integer from 0 to 1,000, or a batch dependency that is neither an integer of at least 1
        nor ``math.inf``; in trees for any but 1.
    """

    exact: bool = field(default=True, kw_only=True)
    importance: int | Literal["*"] = field(default=0, kw_only=True)
    layer_dependency: bool = field(default=False, kw_only=True)
    batch_dependency: float = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(self, "exact", "layer_dependency")
        if not is_one_of(self.importance, ("*",)):
            what = f'{self.name}: importance (or "*", which stops by itself)'
            rounds = whole_number(self.importance, what, 0, InputError, MOST_ROUNDS)
            object.__setattr__(self, "importance", rounds)
        if self.in_trees and self.importance != 0:
            raise InputError(
                f"{self.name}: expected importance=0 where each seed grows a tree of its own, got {self.importance!r}, "
                "by which all nodes of a hop agree on what they draw; leave out importance, or disjoint and time"
            )
        batches: float = math.inf
        if as_number(self.batch_dependency) != math.inf:
            what = f"{self.name}: batch_dependency (or math.inf, for neighbourhoods that never change)"
            batches = whole_number(self.batch_dependency, what, 1, InputError, LARGEST_COUNT)
        object.__setattr__(self, "batch_dependency", batches)
        if self.in_trees and batches != 1:
            raise InputError(
                f"{self.name}: expected batch_dependency=1 where each seed grows a tree of its own, got {batches}; "
                "trees share no random numbers with those of other batches: leave out batch_dependency, or disjoint "
                "and time"
            )

    def decisive(self) -> dict[str, Any]:
        # Checkpoints of before there was a dependency stay valid.
        decisive = super().decisive()
        if self.batch_dependency == 1:
            del decisive["batch_dependency"]
        return decisive

    def rule(self, fanout: int) -> LaborRule | LaborImportanceRule:
        if self.importance == 0:
            return LaborRule(fanout, exact=self.exact)
        return LaborImportanceRule(fanout, self.importance)

    def key_layer(self, layer: int) -> int:
        return 0 if self.layer_dependency else layer
