"""All nodes of a graph as the one batch of an epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.plan.checks import check_graph
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import BatchSource, NumberedSource, SourceStage


@dataclass(frozen=True, eq=False, repr=False)
class GlobalBatch(SourceStage):
    """Make each epoch one batch of all nodes of a graph (global-batch of GraphTheta, arXiv 2104.10569).

    ``sample_in_subgraph(graph, num_hops=K)`` then gives every layer of a model the whole graph: K times the same block,
    whose destinations and sources are all nodes in the order of their ids. The block has the arrays of the graph;
    nothing is sampled or copied. A graph with types is refused: pass ``graph.untyped()`` here and to the next stage.

    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=3)
    >>> [batch] = hr.GlobalBatch(graph).sample_in_subgraph(graph, num_hops=2).loader()
    >>> batch.n_id.tolist(), batch.blocks
    ([0, 1, 2], (Block(3 -> 3 nodes, 3 edges), Block(3 -> 3 nodes, 3 edges)))

    Parameters
    ----------
    graph
        The graph; its nodes are the seeds.
    seed
        Seed of the stages that follow, as for ``ItemSampler``.

    Raises
    ------
    InputError
        If `graph` is not a graph.
    """

    name: ClassVar[str] = "global_batch"
    counts_alike: ClassVar[bool] = True

    graph: GraphView
    seed: Any = field(default=None, kw_only=True)  # None or an int; an int once constructed

    def __post_init__(self) -> None:
        check_graph("GlobalBatch", self.graph)
        self.settle_seed()

    @property
    def boundary(self) -> int | None:
        return 0  # there is nothing beyond all nodes

    @property
    def num_nodes(self) -> int | None:
        return self.graph.num_nodes

    def source(self, settings: RunSettings) -> BatchSource:
        return _AllNodes(self.graph.num_nodes, settings)


class _AllNodes(NumberedSource):
    """Draws the batch of a :class:`GlobalBatch`; each rank takes a contiguous share of the nodes."""

    num_batches: int = 1
    batch_size: int = 1

    def __init__(self, num_nodes: int, settings: RunSettings) -> None:
        self._num_nodes = num_nodes
        self._settings = settings

    def batch_at(self, epoch: int, index: int) -> MiniBatch:
        """Return this rank's share of the nodes."""
        rank, world_size = self._settings.rank, self._settings.world_size
        nodes = torch.arange(
            self._num_nodes * rank // world_size, self._num_nodes * (rank + 1) // world_size, device="cpu"
        )
        return MiniBatch.of_seeds(nodes, epoch=epoch, index=index, item_index=nodes, num_global_seeds=self._num_nodes)
