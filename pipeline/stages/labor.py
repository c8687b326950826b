"""LABOR: layer-neighbour sampling, where nodes share their randomness and so their neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.ops.errors import InputError
from headrace.ops.sampling.rules import MOST_ROUNDS, LaborImportanceRule, LaborRule
from headrace.pipeline.data.arrays import as_number, is_one_of, whole_number
from headrace.pipeline.plan.checks import LARGEST_COUNT, check_flags
from headrace.pipeline.plan.verbs import verb
from headrace.pipeline.stages.tree_sampler import TreeSampler


@verb("sample_layer_neighbor")
@dataclass(frozen=True, eq=False, repr=False)
class SampleLayerNeighbor(TreeSampler):
    """Sample in-neighbours with one random number per *source* node and hop: LABOR (arXiv 2210.13339).

    Nodes that share a neighbour agree on whether to draw it, so a batch touches fewer nodes than with
    ``sample_neighbor`` at the same fanouts, while each node by itself sees a uniform sample of the same size. Of
    several edges from one node to another each has a random number of its own; whether a graph has any is found out
    once, at the first batch.

    Parameters
    ----------
    graph
        The graph to sample from; messages flow along its edges, so neighbours are in-neighbours.
    fanouts
        In-edges per node, one number per hop. ``fanouts[0]`` is the hop next to the seeds, as in PyG; DGL and
        GraphBolt list them from the input side, so reverse a list that comes from there. -1 takes all in-edges.
    exact
        True (default): each node gets exactly ``min(fanout, in-degree)`` in-edges, those with the smallest random
        numbers. False: Poisson sampling as in the paper, where ``fanout`` is the expected number. LABOR-1, ... and
        LABOR-* are Poisson sampling whatever this says.
    importance
        Rounds by which the nodes of a hop agree on the probabilities of their in-neighbours: 0 (default) is
        LABOR-0, 1 is LABOR-1, and so on to 1,000; ``"*"`` goes on until a round lowers the expected number of nodes
        by no more than 0.01 % (LABOR-*).

        *Gains*: fewer nodes, so fewer feature rows, at the same variance of a mean over the sampled neighbours
        (published for ogbn-products, three layers of fanout 10: 166 thousand for LABOR-*, 237 thousand for LABOR-0, 513
        thousand for ``sample_neighbor``).

        *Costs*: more edges, since a node draws more than ``fanout`` of its in-edges where their probabilities differ;
        time, since all in-edges of all nodes of the hop are looked at once per round and more; and a model must use
        ``Block.weight``, which is always there: a plain mean of weighted messages is the Hajek estimate (of no edges,
        take it as 0). The probabilities depend on all nodes of the hop: ranks that each sample a share of the batch
        agree among their own and do not reach the nodes that one process would, but with ``cooperative=True`` they
        agree with each other, in 3 rounds of communication for each round of importance (see `sample_hop_together`).
    layer_dependency
        Whether all hops share the random numbers, so that a node keeps its neighbourhood from hop to hop; fewer
        nodes still, at the price of dependent layers.
    batch_dependency
        Kappa, the number of batches over which the random numbers change (arXiv 2310.12403): 1 (default) draws new
        ones for every batch; with more, consecutive batches sample much the same neighbours of the nodes that they
        share, so that a cache of feature rows misses less; ``math.inf`` never changes them, in no batch and no epoch.
        Each batch by itself is drawn by the same law whatever this is, so sizes, bias and variance stay.

        *Costs*: batches that are less than 2 * kappa apart are dependent; with ``math.inf`` a node's neighbourhood is
        the same for the whole training. Where two random numbers are blended, which are all batches but each kappa-th,
        sampling takes some 50 ns more per in-edge looked at. The random numbers go on from batch to batch
        of an epoch and begin anew with the next one, where nearly all neighbours change at once. Not in trees: their
        random numbers go by the place of their seed in the batch, which changes.
    weight
        Name of the edge attribute A to sample by, one number of at least 0 per edge: edge t -> s is wanted with
        probability min(1, fanout * A_ts / sum of A over the in-edges of s), and ``Block.weight`` makes a plain mean the
        Hajek estimate of the mean weighted by A. Edges of weight 0 are never drawn. None (default) samples uniformly.

        *Bias.* With ``exact=True`` that estimate is biased where fanouts are small or close to in-degrees, and messages
        go with the weights: by about 0.2 standard deviations of messages proportional to the weights at 1 or at 10 of
        20 in-edges, by 0.02 to 0.05 at 1 to 10 of 100; not for messages that have nothing to do with the weights.
        ``sample_neighbor(..., weight=..., replace=True)`` has no bias at any fanout; larger fanouts, for which
        ``exact=False`` is the safer choice, make it small.
    expand, edge_ids, disjoint, time, window, strictly_before
        As for ``sample_neighbor``. Trees share no random numbers, as they share no nodes: `importance` has to be 0,
        and `batch_dependency` 1.

    Raises
    ------
    GraphError
        If there is no such edge attribute, or it holds negative, infinite or undefined values.
    InputError
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
