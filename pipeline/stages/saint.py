"""GraphSAINT: from drawn nodes to a batch of one square block with norms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch

from headrace.ops.errors import InputError, PlanError
from headrace.ops.forks import cached_property
from headrace.ops.sampling.saint import induced_subgraph
from headrace.pipeline.data import Block, MiniBatch, trusted
from headrace.pipeline.data.arrays import is_one_of
from headrace.pipeline.lowered.compact import count_new
from headrace.pipeline.plan.checks import LARGEST_COUNT, MOST_STEPS, check_flags, make_positive
from headrace.pipeline.plan.plan import verb
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import SourceStage
from headrace.pipeline.plan.stage import Counts, MapStage, Runner, Stage
from headrace.pipeline.plan.traits import RankTraits
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.saint_draws import EdgeDraws, NodeDraws, SaintDraws
from headrace.pipeline.stages.saint_walk import WalkDraws
from headrace.pipeline.stages.sampler import Sampler

LOSS_WEIGHT = "loss_weight"

#: The kinds of draws that have an option.
_OPTIONS = {"budget": ("node", "edge"), "walk_length": ("walk",), "num_samples": ("walk",)}


@verb("sample_saint")
@dataclass(frozen=True, eq=False, repr=False)
class SampleSaint(Sampler, MapStage):
    """Train on the subgraph of drawn nodes (GraphSAINT, arXiv 1907.04931).

    The batch becomes the subgraph on the drawn nodes, with every edge of the graph between them, as *one* square block:
    ``num_src == num_dst``, and all layers of a model use it. Every node of the subgraph is then a seed: ``seeds`` are
    ``n_id``, ``labels=`` of ``fetch_feature`` reads their labels, and ``item_index`` is -1, because they are not items
    of the source.

    ``by`` names the draws of a batch, which depend on the source's seed, the epoch and the batch index:

    - "node": ``budget`` nodes, independently and with replacement, node u in proportion to the sum over its
      out-neighbours w of 1 / in-degree(w) ** 2, which is the squared norm of u's column in the row-normalised adjacency
      matrix. A node without out-edges is never drawn. Items of the source only give the number of batches.
    - "edge": the ends of ``budget`` edges, independently and with replacement, edge u -> v in proportion to 1 /
      in-degree(v). If every edge exists in both directions, this is the law of the paper, 1 / degree(u) + 1 /
      degree(v). Items only give the number of batches.
    - "walk": the nodes that walks visit, one from each distinct seed, of ``walk_length`` steps to uniform
      in-neighbours; a walk ends early at a node without in-edges. To train on every node, give the source all nodes,
      shuffled.

    With norms the batch has:

    - ``node["loss_weight"]``: float32[num_drawn]; ``(batch.node["loss_weight"] * losses).sum()`` estimates the mean
      loss over all nodes of the graph. If only some nodes are labelled, set the losses of the others to 0 and multiply
      by ``graph.num_nodes / num_labelled``. Do not divide by ``num_global_seeds``. Nodes that are never drawn count
      with a loss of 0; a warning states their number.
    - ``Block.weight``: the plain mean of messages times these weights is the paper's unbiased estimate of the mean over
      all in-neighbours, and a mean weighted by them is the Hajek estimate.

    Norms of nodes and edges have a closed form. Those of walks are counted on ``num_samples`` subgraphs before the
    first batch: the batches of epochs that training never reaches, so they are a pure function of the plan, too. The
    graph keeps them, in 8 bytes per edge. Nodes and edges in none of these subgraphs count as if they were in one; a
    warning states their number.

    Parameters
    ----------
    graph
        The graph to sample from.
    by
        "node", "edge" or "walk".
    budget
        Draws per batch, for "node" and "edge".
    walk_length
        Steps per walk, at most 1,048,576, for "walk".
    num_samples
        Subgraphs to draw for the norms of walks. None (default): 50 * num_nodes / (batch_size * (walk_length + 1)),
        rounded up, so that the walks visit each node about 50 times if the source's items are all nodes.
    norms
        Whether the batch has ``node["loss_weight"]`` and ``Block.weight``.
    edge_ids
        Whether the block carries the original ids of its edges.

    Raises
    ------
    InputError
        For a subject that is not a graph or has no edges, numbers below 1, options of other draws, items that are not
        in the graph, or `num_samples` without norms.
    PlanError
        If the source has labels, if several ranks would share a batch, or if norms of walks are requested and the
        source is not an ``ItemSampler``, whose batches can be drawn beforehand.
    """

    ranks: ClassVar[RankTraits] = RankTraits(cooperates=False)
    num_hops: ClassVar[int] = 1

    by: Literal["node", "edge", "walk"]
    budget: int | None = field(default=None, kw_only=True)
    walk_length: int | None = field(default=None, kw_only=True)
    num_samples: int | None = field(default=None, kw_only=True)
    norms: bool = field(default=True, kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(self, "norms", "edge_ids")
        self._check_options()
        if self.graph.num_edges == 0:
            raise InputError(f"{self.name}: the graph has no edges, so its subgraphs have none; expected at least one")

    def _check_options(self) -> None:
        if not is_one_of(self.by, ("node", "edge", "walk")):
            raise InputError(f"{self.name}: expected by to be 'node', 'edge' or 'walk', got {self.by!r}")
        for name, kinds in _OPTIONS.items():
            if self.by not in kinds and getattr(self, name) is not None:
                others = " and ".join(map(repr, kinds))
                raise InputError(f"{self.name}: expected {name} for {others} alone, got it for {self.by!r}")
        size, most = ("walk_length", MOST_STEPS) if self.by == "walk" else ("budget", LARGEST_COUNT)
        if getattr(self, size) is None:
            raise InputError(f"{self.name}: expected {size}= for {self.by!r}, got none")
        make_positive(self, size, most=most)
        if self.num_samples is not None:
            make_positive(self, "num_samples")
            if not self.norms:
                raise InputError(
                    f"{self.name}: expected norms=True beside num_samples={self.num_samples}, which is how many "
                    "subgraphs they are counted on, got False; leave num_samples out"
                )

    @cached_property
    def draws(self) -> SaintDraws:
        """The draws of a batch, and their norms."""
        if self.by == "walk":
            assert self.walk_length is not None
            return WalkDraws(self.name, self.graph, self.walk_length, self.num_samples)
        assert self.budget is not None
        return (NodeDraws if self.by == "node" else EdgeDraws)(self.name, self.graph, self.budget)

    @property
    def reads(self) -> frozenset[str]:
        return self.draws.reads

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
        self.draws.check(before, norms=self.norms)

    def runner(self, settings: RunSettings) -> Runner:
        if settings.world_size > 1:
            raise PlanError(
                f"{self.name}: {settings.world_size} ranks would share each batch, but a subgraph cannot be cut into "
                "shares; give each rank a loader of its own, with rank=0, world_size=1 and another seed"
            )
        draw = self.draws.drawer(settings)
        norms = self.draws.make_norms(settings, self) if self.norms else None

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
