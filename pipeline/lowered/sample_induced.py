"""Layers whose sources are their destinations: the subgraph that the nodes of a batch induce."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.sampling.saint import induced_subgraph
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.lowered.compact import count_new
from headrace.pipeline.plan.checks import check_graph, check_items_fit, divided_graph
from headrace.pipeline.plan.errors import PlanError
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, MapStage, Runner, Stage
from headrace.pipeline.plan.traits import Divided


@dataclass(frozen=True, eq=False, repr=False)
class SampleInduced(MapStage):
    """Add layers that take all edges among the nodes of the batch: one square block, once for each of them.

    The pass ``within_boundary`` makes it of hops that must not reach new nodes. Of all nodes of a graph in their order
    the subgraph is the graph itself: its arrays are taken as they are.

    Parameters
    ----------
    graph
        The graph.
    num_layers
        How many times the block is added.
    first_layer
        The hop that the first of them stands for.
    edge_ids
        Whether the block carries the original ids of its edges.
    """

    name: ClassVar[str] = "sample_induced"
    lowered: ClassVar[bool] = True

    graph: GraphView
    num_layers: int = field(kw_only=True)
    first_layer: int = field(kw_only=True)
    edge_ids: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"n_id", "num_sampled_nodes"})

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})

    @property
    def first_hop(self) -> int | None:
        return self.first_layer

    @property
    def num_hops(self) -> int:
        return self.num_layers

    def divided(self) -> tuple[Divided, ...]:
        return divided_graph(self.graph)

    def check(self, before: tuple[Stage, ...]) -> None:
        check_items_fit(self, self.graph, before)

    def runner(self, settings: RunSettings) -> Runner:
        if settings.world_size > 1:
            raise PlanError(
                f"{self.origin.name}: {settings.world_size} ranks would share each batch, but a subgraph cannot be cut "
                "into shares; let ranks make batches together, .loader(cooperative=True), or give each rank a loader "
                "of its own, with rank=0, world_size=1 and another seed"
            )

        @cache
        def whole() -> Block:
            return self._whole_graph()  # the same in each epoch, and so is what layers keep with it

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            block = whole() if self._are_all(batch.n_id) else self._block(batch.n_id, settings.num_threads)
            extended = batch.replace(
                blocks=(*[block] * self.num_layers, *batch.blocks),
                num_sampled_nodes=(*batch.num_sampled_nodes, *[0] * self.num_layers),
                num_sampled_edges=(*batch.num_sampled_edges, *[block.num_edges] * self.num_layers),
            )
            return extended, count_new(batch, extended)

        return run

    def _are_all(self, nodes: Tensor) -> bool:
        """Whether these are all nodes of a whole graph, in order."""
        size = len(nodes)
        if not isinstance(self.graph, Graph) or size != self.graph.num_nodes:
            return False
        return bool((nodes == torch.arange(size, device="cpu")).all())

    def _whole_graph(self) -> Block:
        graph = self.graph
        edge_ids = graph.edge_ids.long() if self.edge_ids else None
        return Block(graph.indptr, graph.indices, graph.num_nodes, graph.num_nodes, edge_ids)

    def _block(self, nodes: Tensor, num_threads: int) -> Block:
        graph, size = self.graph, len(nodes)
        subgraph = induced_subgraph(graph.indptr, graph.indices, nodes, num_threads=num_threads)
        edge_ids = graph.original_edge_ids(subgraph.positions) if self.edge_ids else None
        return Block(subgraph.indptr, subgraph.indices, size, size, edge_ids)
