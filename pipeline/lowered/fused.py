"""The fused CSC sampler as a stage: several hops and their compactions in one native call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from headrace.ops.gpu import device_of
from headrace.ops.sampling.sampled import SampledHop
from headrace.pipeline.data import Block, GraphView, MiniBatch, Seen, TypedIds
from headrace.pipeline.data.checks import versions_of
from headrace.pipeline.data.graph_machinery import arrays_on, block_sampler
from headrace.pipeline.data.graph_types import typed_ids
from headrace.pipeline.lowered._hop import Hop
from headrace.pipeline.lowered.compact import count_new
from headrace.pipeline.lowered.sample_hop import Expand
from headrace.pipeline.plan.checks import check_expand, check_graph, check_weight
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner
from headrace.pipeline.plan.traits import RankTraits, Shown

if TYPE_CHECKING:
    from headrace.pipeline.lowered.gpu.fetch_rows import GraphCache


@dataclass(frozen=True, eq=False, repr=False)
class SampleFused(MapStage):
    """Sample all hops in one call, straight into CSC (FastSample, arXiv 2311.17847).

    The pass ``fuse_sampling`` makes it from hops and compactions; ``split_sample`` and ``graph_cache`` let it fetch
    rows of a graph that does not fit in a GPU.

    Parameters
    ----------
    hops
        The hop next to the seeds first; they differ by their rules and the layers of their keys alone.
    first_layer
        Which hop the first of these is; blocks of the hops before it are there then.
    expand
        As for :class:`~headrace.pipeline.lowered.sample_hop.SampleHop`.
    fetch
        Whether a GPU copies rows of hops that look at whole ones before it samples them, as
        :class:`~headrace.pipeline.lowered.gpu.fetch_rows.FetchRows` does.
    cache
        With `fetch`, where hot parts of the rows are kept.
    """

    name: ClassVar[str] = "sample_fused"
    lowered: ClassVar[bool] = True
    writes: ClassVar[frozenset[str]] = frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    hops: tuple[Hop, ...]
    first_layer: int = field(default=0, kw_only=True)
    expand: Expand = field(default="all", kw_only=True)
    fetch: bool = field(default=False, kw_only=True)
    cache: GraphCache | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph, with_types=True)
        check_expand(self.name, self.expand)
        check_weight(self.name, self.graph, self.hops[0].weight)

    @property
    def graph(self) -> GraphView:
        """The graph that is sampled."""
        return self.hops[0].graph

    @property
    def batch_dependency(self) -> float:
        return self.hops[0].batch_dependency

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU can do it, for a batch that is there."""
        return all(hop.on_gpu for hop in self.hops)

    @property
    def first_hop(self) -> int | None:
        return self.first_layer

    @property
    def num_hops(self) -> int:
        return len(self.hops)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"}) | self.hops[0].reads

    @property
    def ranks(self) -> RankTraits:
        alone = self.expand == "all" and self.num_hops == 1
        return RankTraits(cooperates=alone and self.hops[0].rule.per_destination)

    def sampled_by(self) -> tuple[Seen, ...]:
        return self.hops[0].sampled_by()

    def shown(self) -> list[Shown]:
        same = [one for one in Shown.of_fields(self.hops[0]) if one.name not in ("graph", "rule", "key_layer")]
        return [
            Shown("graph", self.graph),
            Shown("rules", tuple(hop.rule for hop in self.hops)),
            Shown("key_layers", tuple(hop.key_layer for hop in self.hops), named=True),
            *same,
            *(one for one in super().shown() if one.name != "hops"),
        ]

    def runner(self, settings: RunSettings) -> Runner:
        hop, graph = self.hops[0], self.graph
        rules, is_typed = tuple(one.rule for one in self.hops), graph.is_typed
        excluded = hop.excluder(settings)
        have_edge_variates = any(rule.has_edge_variates for rule in rules)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            if hop.weight is not None:
                graph.edge_weights(hop.weight)  # refuses weights that were changed since
            device = device_of(batch.n_id)
            # The CPU's sampler finds out by itself.
            looks = device is not None and have_edge_variates
            cache = None
            if device is not None and self.cache is not None:
                cache = self.cache.of(arrays_on(graph, device).indices, device)
            sampled = block_sampler(graph, hop.weight, device).sample(
                batch.n_id,
                rules,
                [one.key(batch, settings) for one in self.hops],
                expand=self.expand,
                edge_ids=hop.edge_ids,
                num_threads=settings.num_threads,
                parallel_edges=not looks or graph.has_parallel_edges,
                trees=None if hop.trees is None else hop.trees.of(batch),
                excluded=excluded(batch),
                fetch=self.fetch,
                cache=cache,
            )
            types = typed_ids(graph, sampled.n_id) if is_typed else None
            blocks = [
                _block(one, None if types is None else types.first(one.num_src)) for one in reversed(sampled.hops)
            ]
            found = batch.replace(
                n_id=sampled.n_id,
                slot=sampled.slots,
                types=types,
                blocks=(*blocks, *batch.blocks),
                num_sampled_nodes=(*batch.num_sampled_nodes, *sampled.num_sampled_nodes[1:]),
                num_sampled_edges=(*batch.num_sampled_edges, *sampled.num_sampled_edges),
            )
            return found, {**count_new(batch, found), **sampled.counts}

        return run


def _block(hop: SampledHop, types: TypedIds | None) -> Block:
    """Return a hop as a block. What the kernel returned fits together, and small batches feel the checks of `Block`."""
    block = object.__new__(Block)
    block.__dict__.update(
        indptr=hop.indptr,
        indices=hop.indices,
        num_src=hop.num_src,
        num_dst=hop.num_dst,
        edge_ids=hop.edge_ids,
        weight=hop.weights,
        types=types,
        bipartite=False,
        _is_trusted=versions_of(hop),
    )
    return block
