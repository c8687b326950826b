"""Uniform neighbour sampling, the GraphSAGE sampler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.ops.errors import InputError
from headrace.ops.sampling.rules import LatestRule, NeighborRule
from headrace.pipeline.data.arrays import is_one_of
from headrace.pipeline.plan.checks import check_flags
from headrace.pipeline.plan.verbs import verb
from headrace.pipeline.stages.tree_sampler import TreeSampler


@verb("sample_neighbor")
@dataclass(frozen=True, eq=False, repr=False)
class SampleNeighbor(TreeSampler):
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
    disjoint
        Whether each seed grows a tree of its own: no node is shared, and one that two trees reach is there twice;
        `MiniBatch.slot` says which is in which. Seeds come first, repeats kept, one tree each; both ends of a pair
        share one. Draws of trees are independent.
    time
        Name of times of edges, of nodes, or of both (edge attributes and node attributes of the graph): a tree, which
        is disjoint then, has only edges of the time of its seed or earlier, those of an edge being the later one of its
        own time and of its source's. Seeds have times of their own, ``ItemSampler(items, time=...)``, or those of their
        nodes. Rows are sorted by time once, at the first loader, which copies the graph where they are not yet; see
        `Graph.by_time`.

        *Its own time counts*: a link that is predicted at time t sees the edge of that link, which has the time t, too,
        and so its label. For links that are edges of the graph take ``strictly_before=True``; where other edges of that
        time are to stay, ``exclude_seed_edges(by="edge_id")``, which leaves out the link's own edge alone.
    window
        Beside `time`, how far back trees look: edges are no earlier than the seed's time less this.
    strictly_before
        Beside `time`: False (default), edges of the seed's own time are there; True, only those of earlier times, in
        all hops. Earlier edges between the same nodes stay, which `exclude_seed_edges` by the ends of pairs would take
        away. A window reaches back from the seed's time either way.
    strategy
        Beside `time`: ``"uniform"`` (default) draws among the edges of a tree, by weight if there is one; ``"last"``
        takes the most recent, of edges of one time those that came last.

    Raises
    ------
    GraphError
        If there is no such edge attribute, or it holds negative, infinite or undefined values; if there are no times of
        this name, or they are none.
    InputError
        For fanouts that are empty or below -1, a subject that is not a graph, or an unknown hop rule; for a window,
        `strictly_before` or ``strategy="last"`` without times, or the latter with a weight or replacement.
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
