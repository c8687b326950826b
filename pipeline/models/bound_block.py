"""Blocks as a model of several ranks sees them: the input of a layer that it prepares is exchanged first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from headrace.pipeline.data.block import Block
from headrace.pipeline.models.by_parts.edge_lists import DESTINATIONS, EDGES, NODES
from headrace.pipeline.models.by_parts.layer_watch import LayerWatch
from headrace.pipeline.models.by_parts.row_watch import running_watch
from headrace.pipeline.models.running_batch import RunningBatch


class BoundBlock:
    """A block of the batch that a model is running on. It is to a layer what the block is.

    Parameters
    ----------
    block
        The block.
    running
        How far the model has come with the batch.
    """

    def __init__(self, block: Block, running: RunningBatch) -> None:
        self._block = block
        self._running = running

    def to_pyg(self, x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor, tuple[int, int]]:
        """Return the arguments of a bipartite PyG layer, as :meth:`Block.to_pyg` does.

        The output of the layer before is exchanged between ranks here, as it would be when the layer is called.
        """
        return self._block.to_pyg(self._running.sources(self._block, x))

    def aggregate(self, x: Tensor, *, weight: Tensor | None = None, **kwargs: Any) -> Tensor:
        """Return what :meth:`Block.aggregate` does, one step of a layer that is watched."""
        return self._step(partial(self._block.aggregate, x, weight=weight, **kwargs), x, weight)

    def attend(self, x: Tensor, *scores: Tensor, edge_scores: Tensor | None = None, **kwargs: Any) -> Tensor:
        """Return what :meth:`Block.attend` does, one step of a layer that is watched."""
        return self._step(partial(self._block.attend, x, *scores, edge_scores=edge_scores, **kwargs), x, *scores)

    @staticmethod
    def _step(call: Callable[[], Tensor], *values: Tensor | None) -> Tensor:
        watch = running_watch()
        if not isinstance(watch, LayerWatch):
            return call()
        rows: Tensor = watch.step(call, [(one, {NODES, EDGES}) for one in values if one is not None], DESTINATIONS)
        return rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)

    def __repr__(self) -> str:
        return repr(self._block)


def bind(argument: Any, running: RunningBatch) -> Any:
    """Return an argument of a model with the blocks in it bound to the batch."""
    if isinstance(argument, Block):
        return BoundBlock(argument, running)
    if type(argument) in (tuple, list):
        return type(argument)(bind(one, running) for one in argument)
    return argument
