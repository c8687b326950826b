"""Sources that draw no items: all nodes of a graph as the one batch of an epoch, and the items of a torchdata node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
import torch

from headrace.ops.errors import HeadraceError, InputError
from headrace.pipeline.data import GraphView, ItemSet, MiniBatch
from headrace.pipeline.data.items import seed_batch
from headrace.pipeline.plan import BatchSource, NumberedSource, RunSettings, SourceStage, check_graph


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
    boundary: ClassVar[int | None] = 0  # there is nothing beyond all nodes

    graph: GraphView
    seed: Any = field(default=None, kw_only=True)  # None or an int; an int once constructed

    def __post_init__(self) -> None:
        check_graph("GlobalBatch", self.graph)
        self.settle_seed()

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


@dataclass(frozen=True, eq=False, repr=False)
class NodeSource(SourceStage):
    """Take the seeds of each batch from a torchdata node.

    The node owns the order of its items and its own state; a checkpoint of the loader carries that state. Every rank
    must give the plan a node that yields that rank's share, in the same number of batches on all ranks; a `PeerError`
    names ranks that have others. A node has one position, so loaders can take their turns with it, and the first one
    ends with a `HeadraceError` where another one begins before it has come to its end.

    Parameters
    ----------
    node
        A ``torchdata.nodes.BaseNode`` (or an object with its ``reset``, ``__next__`` and ``state_dict``). Each of its
        items has the seeds of one batch, in any form that ``ItemSampler`` takes.
    seed
        Seed of the samplers that follow; by default that of torch, as for ``ItemSampler``.

    Raises
    ------
    InputError
        If the node lacks one of these methods, or yields something that is not a set of items.
    """

    name: ClassVar[str] = "node_source"
    writes: ClassVar[frozenset[str]] = frozenset(
        {"seeds", "seed_index", "item_index", "n_id", "num_sampled_nodes", "y"}
    )

    node: Any
    seed: Any = field(default=None, kw_only=True)  # None or an int; an int once constructed

    def __post_init__(self) -> None:
        missing = [name for name in ("reset", "__next__", "state_dict") if not hasattr(self.node, name)]
        if missing:
            raise InputError(
                f"node_source: expected a torchdata node, got {type(self.node).__name__} without {', '.join(missing)}"
            )
        self.settle_seed()

    def decisive(self) -> dict[str, Any]:
        return {"node": type(self.node), "seed": self.seed}

    def source(self, settings: RunSettings) -> NodeDrawer:
        return NodeDrawer(self, settings)


#: The drawer that was the last to begin each torchdata node, by the identity of the node, which the drawer keeps alive.
_DRAWERS: WeakValueDictionary[int, NodeDrawer] = WeakValueDictionary()


class NodeDrawer(BatchSource):
    """Draws batches from a torchdata node."""

    num_batches = None

    def __init__(self, stage: NodeSource, settings: RunSettings) -> None:
        self._node = stage.node
        self._settings = settings
        self._epoch = 0
        self._batch = 0
        self._item = 0

    def seek(self, epoch: int, state: dict[str, Any] | None) -> None:
        self._epoch = epoch
        self._batch = 0 if state is None else int(state["batch"])
        self._item = 0 if state is None else int(state["item"])
        _DRAWERS[id(self._node)] = self
        self._node.reset(None if state is None else state["node"])

    def state(self) -> dict[str, Any]:
        from headrace.pipeline.data.own_state import own_state  # loaded where there is a node

        # The node may go on in what it returned.
        return own_state({"item": self._item, "node": self._node.state_dict()})

    def saved(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        if state.get("node", {}) is None:
            raise InputError(
                f"node_source: expected {type(self._node).__name__}.state_dict to return what reset takes, got "
                "None, by which the node would begin anew; return its position"
            )
        return state

    def draw(self) -> MiniBatch:
        if _DRAWERS.get(id(self._node)) is not self:
            raise HeadraceError(
                f"node_source: expected a torchdata node that one loader iterates at a time, got a "
                f"{type(self._node).__name__} that another loader has begun anew since, so that each would have a part "
                "of its items; give each loader a node of its own"
            )
        drawn = next(self._node)
        items = ItemSet.of(drawn, allow_empty=True)
        batch = seed_batch(
            items,
            np.arange(len(items), dtype=np.int64),
            first=self._item,
            epoch=self._epoch,
            index=self._batch,
            num_global_seeds=len(items) * self._settings.world_size,
        )
        self._batch += 1
        self._item += len(items)
        return batch
