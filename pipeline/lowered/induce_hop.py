"""One hop to the nodes of the batch itself: all edges among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops.sampling.saint import induced_subgraph
from headrace.pipeline.data import CPU, Block, Graph, GraphView, MiniBatch, Place, trusted
from headrace.pipeline.lowered._excluded import SeedEdges
from headrace.pipeline.lowered._finders import FoundLayer
from headrace.pipeline.lowered.sample_hop import HopStage
from headrace.pipeline.plan import Counts, PlanError, Runner, RunSettings


@dataclass(frozen=True, eq=False, repr=False)
class InduceHop(HopStage):
    """Take all edges among the nodes of the batch.

    The pass ``within_boundary`` makes it of hops that must not reach new nodes. The passes ``cooperative`` and
    ``sample_at_owners`` choose its finder, and make it of ``induce_subgraph`` as well.

    Parameters
    ----------
    graph
        The graph.
    layer, finder
        As for :class:`~headrace.pipeline.lowered.sample_hop.HopStage`.
    edge_ids
        Whether blocks carry the original ids of their edges.
    exclude
        Edges between seeds that are not there; None for no such edges.
    """

    name: ClassVar[str] = "induce_hop"
    lowered: ClassVar[bool] = True
    by_node: ClassVar[bool] = False

    graph: GraphView
    edge_ids: bool = field(default=True, kw_only=True)
    exclude: SeedEdges | None = field(default=None, kw_only=True)

    @property
    def takes_all(self) -> bool:
        return self.exclude is None

    @property
    def reads_at(self) -> Place | None:
        return CPU if self.finder.ranks.collective else None

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | (frozenset() if self.exclude is None else frozenset({"seeds"}))

    def runner(self, settings: RunSettings) -> Runner:
        return self.finder.inducer(self, settings)

    def inducer(self, settings: RunSettings) -> Runner:
        """Return the function that finds the edges in this process.

        Of all nodes of a graph in their order the subgraph is the graph itself: its arrays are taken as they are.
        """
        if settings.world_size > 1:
            raise PlanError(
                f"{self.origin.name}: {settings.world_size} ranks would share each batch, but a subgraph cannot be cut "
                "into shares; let ranks make batches together, .loader(cooperative=True), or give each rank a loader "
                "of its own, with rank=0, world_size=1 and another seed"
            )

        @cache
        def whole() -> Block:
            return self._whole_graph()  # the same in each epoch, and so is what layers keep with it

        def run(batch: MiniBatch) -> tuple[FoundLayer, Counts]:
            block = whole() if self._are_all(batch.n_id) else self._block(batch.n_id, settings.num_threads)
            return FoundLayer(batch, block), {}

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
        return trusted(Block(subgraph.indptr, subgraph.indices, size, size, edge_ids))
