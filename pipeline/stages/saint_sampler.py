"""GraphSAINT: from drawn nodes to a batch of one square block with norms; the node sampler and the edge sampler."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.errors import InputError, PlanError
from headrace.ops.memory_limit import check_fits_memory
from headrace.ops.random.rng import DRAW, stream_key
from headrace.ops.sampling.compact import unique_and_inverse
from headrace.ops.sampling.saint import (
    EdgeLaw,
    NodeLaw,
    Subgraph,
    draw_edges,
    draw_nodes,
    edge_law,
    inclusion_probability,
    induced_subgraph,
    node_law,
    subgraph_weights,
)
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data import Block, MiniBatch, trusted
from headrace.pipeline.data.graph_machinery import kept, table
from headrace.pipeline.lowered.compact import count_new
from headrace.pipeline.plan.checks import check_flags, make_positive
from headrace.pipeline.plan.plan import verb
from headrace.pipeline.plan.source import SourceStage
from headrace.pipeline.plan.stage import Counts, MapStage, Runner, RunSettings, Stage
from headrace.pipeline.plan.traits import RankTraits
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.sampler import Sampler

LOSS_WEIGHT = "loss_weight"


@dataclass(frozen=True)
class SaintNorms:
    """The norms of nodes and edges, from known or estimated frequencies in subgraphs.

    Parameters
    ----------
    loss_weight: float32[num_nodes]
        1 / (num_nodes * probability that the node is in a subgraph); 0 for a node that is in none.
    edge_weight
        Takes a subgraph, its nodes, int64[num_drawn], and a number of threads; returns float32[num_edges].
    """

    loss_weight: Tensor
    edge_weight: Callable[[Subgraph, Tensor, int], Tensor]


@dataclass(frozen=True, eq=False, repr=False)
class SaintSampler(Sampler, MapStage):
    """Base of the GraphSAINT samplers (arXiv 1907.04931). A subclass draws the nodes of a batch and computes norms.

    The batch becomes the subgraph on the drawn nodes, with every edge of the graph between them, as *one* square block:
    ``num_src == num_dst``, and all layers of a model use it. Every node of the subgraph is then a seed: ``seeds`` are
    ``n_id``, ``labels=`` of ``fetch_feature`` reads their labels, and ``item_index`` is -1, because they are not items
    of the source. With norms the batch has:

    - ``node["loss_weight"]``: float32[num_drawn]; ``(batch.node["loss_weight"] * losses).sum()`` estimates the mean
      loss over all nodes of the graph. If only some nodes are labelled, set the losses of the others to 0 and multiply
      by ``graph.num_nodes / num_labelled``. Do not divide by ``num_global_seeds``. Nodes that are never drawn count
      with a loss of 0; a warning states their number.
    - ``Block.weight``: the plain mean of messages times these weights is the paper's unbiased estimate of the mean over
      all in-neighbours (so they average to 1 in expectation, not in each row), and a mean weighted by them is the
      Hajek estimate.
    """

    ranks: ClassVar[RankTraits] = RankTraits(cooperates=False)
    num_hops: ClassVar[int] = 1
    reads: ClassVar[frozenset[str]] = frozenset()

    norms: bool = field(default=True, kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(self, "norms", "edge_ids")
        if self.graph.num_edges == 0:
            raise InputError(f"{self.name}: the graph has no edges, so its subgraphs have none; expected at least one")

    @abstractmethod
    def drawer(self, settings: RunSettings) -> Callable[[MiniBatch], Tensor]:
        """Return the function from a batch to the distinct nodes of its subgraph, int64[num_drawn]."""

    @abstractmethod
    def make_norms(self, settings: RunSettings) -> SaintNorms:
        """Return the norms of the subgraphs that the drawer gives."""

    @property
    def writes(self) -> frozenset[str]:
        fields = {"seeds", "seed_index", "item_index", "n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"}
        return frozenset(fields | ({"node"} if self.norms else set()))

    def check(self, before: tuple[Stage, ...]) -> None:
        source = before[0]
        if isinstance(source, ItemSampler) and source.items.labels is not None:
            raise PlanError(self._labels_problem())
        if isinstance(source, SourceStage) and source.seed_times is not None:
            raise PlanError(
                f"{self.name}: expected items without times, got some, but the seeds of the batch become all nodes of "
                "the subgraph, whatever their times; leave out time="
            )

    def runner(self, settings: RunSettings) -> Runner:
        if settings.world_size > 1:
            raise PlanError(
                f"{self.name}: {settings.world_size} ranks would share each batch, but a subgraph cannot be cut into "
                "shares; give each rank a loader of its own, with rank=0, world_size=1 and another seed"
            )
        draw = self.drawer(settings)
        norms = self.make_norms(settings) if self.norms else None

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            if batch.y is not None:
                raise PlanError(self._labels_problem())
            nodes = draw(batch)
            threads = settings.num_threads
            subgraph = induced_subgraph(self.graph.indptr, self.graph.indices, nodes, num_threads=threads)
            node = dict(batch.node)
            if norms is not None:
                node[LOSS_WEIGHT] = norms.loss_weight[nodes]
            block = trusted(
                Block(
                    indptr=subgraph.indptr,
                    indices=subgraph.indices,
                    num_src=len(nodes),
                    num_dst=len(nodes),
                    edge_ids=self.graph.original_edge_ids(subgraph.positions) if self.edge_ids else None,
                    weight=None if norms is None else norms.edge_weight(subgraph, nodes, threads),
                )
            )
            ids = self.graph.to_original_ids(nodes)
            drawn = batch.replace(
                seeds=ids,
                seed_index=torch.arange(len(nodes), device="cpu"),
                item_index=torch.full_like(nodes, -1),
                n_id=ids,
                node=node,
                blocks=(block,),
                num_sampled_nodes=(len(nodes), 0),
                num_sampled_edges=(block.num_edges,),
                num_global_seeds=len(nodes),
            )
            return drawn, {**count_new(batch, drawn), "nodes": len(nodes)}

        return run

    def _labels_problem(self) -> str:
        return (
            f"{self.name}: the source's labels belong to its items, but the seeds of the batch become all nodes of "
            "the subgraph; give the source ids alone and fetch labels with .fetch_feature(store, labels='y')"
        )


def warn_of_left_out(stage: SaintSampler, num_left_out: int, what: str, advice: str) -> None:
    """Say how many nodes the norms know nothing of, if any."""
    if num_left_out > 0:
        message = f"{stage.name}: {num_left_out} of {stage.graph.num_nodes} nodes {what}; {advice}"
        warn_user(message)


@dataclass(frozen=True, eq=False, repr=False)
class DrawSampler(SaintSampler):
    """Base of the samplers with subgraphs of ``budget`` independent draws: their norms are exact."""

    never_drawn: ClassVar[str]
    """Which nodes have no probability, for the warning."""

    budget: int

    def __post_init__(self) -> None:
        super().__post_init__()
        make_positive(self, "budget")

    def check(self, before: tuple[Stage, ...]) -> None:
        super().check(before)
        # Draws, and the table and the order by which each node is found once.
        check_fits_memory(32 * self.budget, f"{self.name}: got budget = {self.budget:,}", "lower it")

    @abstractmethod
    def law(self) -> NodeLaw | EdgeLaw:
        """Return the law of one draw."""

    def make_norms(self, settings: RunSettings) -> SaintNorms:
        del settings
        law, degrees = self.law(), self.graph.in_degrees()
        inclusion = inclusion_probability(law.probability, self.budget)
        loss_weight = torch.where(inclusion > 0, 1.0 / (self.graph.num_nodes * inclusion), 0.0).float()
        self._tell_of_never_drawn(law)

        def edge_weight(subgraph: Subgraph, nodes: Tensor, num_threads: int) -> Tensor:
            return subgraph_weights(subgraph, law, nodes, degrees[nodes], self.budget, num_threads=num_threads)

        return SaintNorms(loss_weight, edge_weight)

    def _tell_of_never_drawn(self, law: NodeLaw | EdgeLaw) -> None:
        """Warn, once for a graph, of nodes without probability."""
        name = f"nodes that {self.name} never draws"
        tables = kept(self.graph).tables
        if name not in tables:
            tables[name] = num_left_out = int((law.probability == 0).sum())
            num_drawn = self.graph.num_nodes - num_left_out
            warn_of_left_out(
                self,
                num_left_out,
                f"are never drawn, as they have no {self.never_drawn}, so the loss leaves them out",
                "to have them drawn, add self-loops to the graph; to have the mean loss of the others, multiply it by "
                f"{self.graph.num_nodes} / {num_drawn}",
            )


@verb("sample_saint_node")
@dataclass(frozen=True, eq=False, repr=False)
class SampleSaintNode(DrawSampler):
    """Train on the subgraph of drawn nodes: GraphSAINT's node sampler (arXiv 1907.04931).

    Each batch draws ``budget`` nodes, independently and with replacement, node u in proportion to the sum over its
    out-neighbours w of 1 / in-degree(w) ** 2, which is the squared norm of u's column in the row-normalised adjacency
    matrix. A node without out-edges is never drawn. The items of the source only give the number of batches of an
    epoch. The drawn nodes depend on the source's seed, the epoch and the batch index.

    The norms have a closed form and are exact; nothing is sampled beforehand.
    :class:`~headrace.pipeline.stages.saint_sampler.SaintSampler` describes the contents of the batch.

    Parameters
    ----------
    graph
        The graph to sample from.
    budget
        Draws per batch; the subgraph has at most that many nodes.
    norms
        Whether the batch has ``node["loss_weight"]`` and ``Block.weight``.
    edge_ids
        Whether the block carries the original ids of its edges.

    Raises
    ------
    InputError
        For a subject that is not a graph or has no edges, or a budget below 1.
    PlanError
        If the source has labels, or several ranks would share a batch.
    """

    never_drawn: ClassVar[str] = "out-edges"

    def drawer(self, settings: RunSettings) -> Callable[[MiniBatch], Tensor]:
        law = self.law()

        def draw(batch: MiniBatch) -> Tensor:
            key = stream_key(settings.seed, batch.epoch, batch.index, 0, DRAW)
            return unique_and_inverse(draw_nodes(law, self.budget, key=key, num_threads=settings.num_threads))[0]

        return draw

    def law(self) -> NodeLaw:
        graph = self.graph
        return table(graph, "law of sample_saint_node", lambda: node_law(graph.indptr, graph.indices))


@verb("sample_saint_edge")
@dataclass(frozen=True, eq=False, repr=False)
class SampleSaintEdge(DrawSampler):
    """Train on the subgraph between the ends of drawn edges: GraphSAINT's edge sampler (arXiv 1907.04931).

    Each batch draws ``budget`` edges, independently and with replacement, edge u -> v in proportion to 1 /
    in-degree(v), by exactly uniform integers. If every edge exists in both directions, u and v can be drawn by either,
    and this is the law of the paper, 1 / degree(u) + 1 / degree(v). The items of the source only give the number of
    batches and the position, as for ``sample_saint_node``.

    The norms have a closed form and are exact; nothing is sampled beforehand.
    :class:`~headrace.pipeline.stages.saint_sampler.SaintSampler` describes the contents of the batch.

    Parameters
    ----------
    graph
        The graph to sample from.
    budget
        Edges to draw per batch; the subgraph has at most twice as many nodes, and all edges between them.
    norms, edge_ids
        As for ``sample_saint_node``.

    Raises
    ------
    InputError
        For a subject that is not a graph or has no edges, or a budget below 1.
    PlanError
        If the source has labels, or several ranks would share a batch.
    """

    never_drawn: ClassVar[str] = "edges"

    def drawer(self, settings: RunSettings) -> Callable[[MiniBatch], Tensor]:
        law, graph = self.law(), self.graph

        def draw(batch: MiniBatch) -> Tensor:
            key = stream_key(settings.seed, batch.epoch, batch.index, 0, DRAW)
            threads = settings.num_threads
            ends = draw_edges(graph.indptr, graph.indices, law, self.budget, key=key, num_threads=threads)
            return unique_and_inverse(ends.reshape(-1))[0]

        return draw

    def law(self) -> EdgeLaw:
        graph = self.graph
        return table(graph, "law of sample_saint_edge", lambda: edge_law(graph.indptr, graph.indices))
