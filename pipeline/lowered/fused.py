"""The fused CSC sampler as a stage: several hops and their compactions in one native call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ops.gpu import device_of
from headrace.ops.sampling.rules import HopRule
from headrace.ops.sampling.sampled import Trees
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.graph_types import typed_ids
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.lowered.compact import count_new
from headrace.pipeline.lowered.excluded import SeedEdges, excluder
from headrace.pipeline.lowered.hop import Expand, sampled_on_gpu
from headrace.pipeline.lowered.hop_key import hop_key
from headrace.pipeline.lowered.trees import tree_fields, trees_of
from headrace.pipeline.plan.checks import check_expand, check_graph, check_items_fit, check_weight, divided_graph
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Divided, MapStage, Runner, Stage


@dataclass(frozen=True, eq=False, repr=False)
class SampleFused(MapStage):
    """Sample all hops in one call, straight into CSC (FastSample, arXiv 2311.17847).

    The pass ``fuse_sampling`` makes it from hops and compactions.

    Parameters
    ----------
    graph
        The graph to sample from.
    rules
        One rule per hop, the hop next to the seeds first.
    key_layers
        The layer that keys the randomness of each hop.
    first_layer
        Which hop the first of these is; blocks of the hops before it are there then.
    batch_dependency, weight, expand, edge_ids, disjoint, time, window, strictly_before, exclude
        As for :class:`~headrace.pipeline.lowered.hop.SampleHop`.
    """

    name: ClassVar[str] = "sample_fused"
    lowered: ClassVar[bool] = True

    graph: GraphView
    rules: tuple[HopRule, ...]
    key_layers: tuple[int, ...] = field(kw_only=True)
    batch_dependency: float = field(default=1, kw_only=True)
    first_layer: int = field(default=0, kw_only=True)
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)
    disjoint: bool = field(default=False, kw_only=True)
    time: str | None = field(default=None, kw_only=True)
    window: float | None = field(default=None, kw_only=True)
    strictly_before: bool = field(default=False, kw_only=True)
    exclude: SeedEdges | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph, with_types=True)
        check_expand(self.name, self.expand)
        check_weight(self.name, self.graph, self.weight)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU can do it, for a batch that is there."""
        return sampled_on_gpu(self.graph, self.rules, self.exclude)

    @property
    def first_hop(self) -> int | None:
        return self.first_layer

    @property
    def num_hops(self) -> int:
        return len(self.rules)

    @property
    def reads(self) -> frozenset[str]:
        fields = tree_fields(self.disjoint, self.time)
        return frozenset({"n_id", "num_sampled_nodes"} | (set() if self.exclude is None else {"seeds"})) | fields

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    def divided(self) -> tuple[Divided, ...]:
        return divided_graph(self.graph)

    def check(self, before: tuple[Stage, ...]) -> None:
        check_items_fit(self, self.graph, before)

    @property
    def cooperates(self) -> bool:
        return self.expand == "all" and self.num_hops == 1 and self.rules[0].per_destination

    def _trees(self, batch: MiniBatch) -> Trees:
        return trees_of(batch, self.time, self.window, strictly_before=self.strictly_before)

    def runner(self, settings: RunSettings) -> Runner:
        excluded = excluder(self.exclude, self.graph, settings)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            if self.weight is not None:
                self.graph.edge_weights(self.weight)  # refuses weights that were changed since
            device = device_of(batch.n_id)
            sampler = self.graph.block_sampler(self.weight, device)
            # The CPU's sampler finds out by itself.
            looks = device is not None and any(rule.has_edge_variates for rule in self.rules)
            sampled = sampler.sample(
                batch.n_id,
                self.rules,
                [hop_key(batch, settings, layer, self.batch_dependency) for layer in self.key_layers],
                expand=self.expand,
                edge_ids=self.edge_ids,
                num_threads=settings.num_threads,
                parallel_edges=not looks or self.graph.has_parallel_edges,
                trees=self._trees(batch) if self.disjoint else None,
                excluded=excluded(batch),
            )
            types = typed_ids(self.graph, sampled.n_id)
            blocks = tuple(
                Block(
                    indptr=hop.indptr,
                    indices=hop.indices,
                    num_src=hop.num_src,
                    num_dst=hop.num_dst,
                    edge_ids=hop.edge_ids,
                    weight=hop.weights,
                    types=None if types is None else types.first(hop.num_src),
                )
                for hop in reversed(sampled.hops)
            )
            found = batch.replace(
                n_id=sampled.n_id,
                slot=sampled.slots,
                types=types,
                blocks=(*blocks, *batch.blocks),
                num_sampled_nodes=(*batch.num_sampled_nodes, *sampled.num_sampled_nodes[1:]),
                num_sampled_edges=(*batch.num_sampled_edges, *sampled.num_sampled_edges),
            )
            return found, count_new(batch, found)

        return run
