"""Blocks as a model of several ranks sees them: the input of a layer that it prepares is exchanged first."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from headrace.pipeline.data.block import Block
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
