"""A torchdata node as the source of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from headrace.ops.errors import ItemsError
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.items import ItemSet, seed_batch
from headrace.pipeline.plan.source import BatchSource, SourceStage
from headrace.pipeline.plan.stage import RunSettings


@dataclass(frozen=True, eq=False, repr=False)
class NodeSource(SourceStage):
    """Take the seeds of each batch from a torchdata node.

    The node owns the order of its items and its own state; a checkpoint of the loader carries that state. Every rank
    must give the plan a node that yields that rank's share, in the same number of batches on all ranks; a `PeerError`
    names ranks that have others.

    Parameters
    ----------
    node
        A ``torchdata.nodes.BaseNode`` (or an object with its ``reset``, ``__next__`` and ``state_dict``). Each of its
        items has the seeds of one batch, in any form that ``ItemSampler`` takes.
    seed
        Seed of the samplers that follow; by default that of torch, as for ``ItemSampler``.

    Raises
    ------
    ItemsError
        If the node lacks one of these methods, or yields something that is not a set of items.
    """

    name: ClassVar[str] = "node_source"

    node: Any
    seed: Any = field(default=None, kw_only=True)  # None or an int; an int once constructed

    def __post_init__(self) -> None:
        missing = [name for name in ("reset", "__next__", "state_dict") if not hasattr(self.node, name)]
        if missing:
            raise ItemsError(
                f"node_source: expected a torchdata node, got {type(self.node).__name__} without {', '.join(missing)}"
            )
        self.settle_seed()

    @property
    def writes(self) -> frozenset[str]:
        # Whether the node yields labels shows only when it runs.
        return frozenset({"seeds", "seed_index", "item_index", "n_id", "num_sampled_nodes", "y"})

    def decisive(self) -> dict[str, Any]:
        return {"node": type(self.node), "seed": self.seed}

    def source(self, settings: RunSettings) -> NodeDrawer:
        return NodeDrawer(self, settings)


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
        self._node.reset(None if state is None else state["node"])

    def state(self) -> dict[str, Any]:
        return {"item": self._item, "node": self._node.state_dict()}

    def draw(self) -> MiniBatch:
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
