"""The fused CSC sampler as a stage: several hops and their compactions in one native call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.ops.rng import NEIGHBOR, stream_key
from headrace.ops.rules import Rule
from headrace.pipeline.batch import MiniBatch
from headrace.pipeline.block import Block
from headrace.pipeline.graph import Graph
from headrace.pipeline.stage import MapStage, Runner, RunSettings, Stage, verb
from headrace.pipeline.stages.compact import count_new
from headrace.pipeline.stages.hop import Expand, check_items_fit


@verb("sample_fused")
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
    weight, expand, edge_ids
        As for :class:`~headrace.pipeline.stages.hop.SampleHop`.
    """

    on_host: ClassVar[bool] = True

    graph: Graph
    rules: tuple[Rule, ...]
    key_layers: tuple[int, ...] = field(kw_only=True)
    weight: str | None = field(default=None, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    def check(self, upstream: tuple[Stage, ...]) -> None:
        check_items_fit(self, self.graph, upstream)

    def runner(self, settings: RunSettings) -> Runner:
        sampler = self.graph.block_sampler(self.weight)

        def run(batch: MiniBatch) -> MiniBatch:
            sampled = sampler.sample(
                batch.n_id,
                self.rules,
                [stream_key(settings.seed, batch.epoch, batch.index, layer, NEIGHBOR) for layer in self.key_layers],
                expand=self.expand,
                edge_ids=self.edge_ids,
                num_threads=settings.num_threads,
            )
            blocks = tuple(
                Block(
                    indptr=hop.indptr,
                    indices=hop.indices,
                    num_src=hop.num_src,
                    num_dst=hop.num_dst,
                    edge_ids=hop.edge_ids,
                    weight=hop.weights,
                )
                for hop in reversed(sampled.hops)
            )
            return batch.replace(
                n_id=sampled.n_id,
                blocks=blocks,
                num_sampled_nodes=tuple(sampled.num_sampled_nodes),
                num_sampled_edges=tuple(sampled.num_sampled_edges),
            )

        return run

    def counts(self, before: MiniBatch, after: MiniBatch) -> dict[str, int]:
        return count_new(before, after)
