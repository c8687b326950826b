"""The base of the GraphSAINT samplers: from drawn nodes to a batch of one square block with norms."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.errors import InputError, PlanError
from headrace.ops.sampling.saint import (
    Subgraph,
    induced_subgraph,
)
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.lowered.compact import count_new
from headrace.pipeline.plan.checks import check_flags
from headrace.pipeline.plan.settings import RunSettings
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
    def num_hops(self) -> int:
        return 1

    @property
    def reads(self) -> frozenset[str]:
        return frozenset()

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
            block = Block(
                indptr=subgraph.indptr,
                indices=subgraph.indices,
                num_src=len(nodes),
                num_dst=len(nodes),
                edge_ids=self.graph.original_edge_ids(subgraph.positions) if self.edge_ids else None,
                weight=None if norms is None else norms.edge_weight(subgraph, nodes, threads),
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
        warnings.warn(message, UserWarning, stacklevel=2)
