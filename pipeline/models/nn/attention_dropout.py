"""Dropout of attention whose masks belong to edges, so that they do not depend on how many ranks there are."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.pipeline.data.block import Block
from headrace.pipeline.models.dropout_keys import DropoutKeys
from headrace.pipeline.models.nn.aggregate import Edges, is_block
from headrace.pipeline.models.recomputation import Draws
from headrace.pipeline.models.running_batch import RUNNING, RunningBatch

#: Ids of loops are those of their nodes and this, which no edge has.
LOOPS = 1 << 62


class Masks(NamedTuple):
    """What masks depend on.

    Parameters
    ----------
    key
        The same on all ranks.
    edge_ids: int64[num_edges + num_dst], optional
        What edges of a block are called, and behind them loops at its destinations; None: their positions, or what a
        graph calls them.
    """

    key: int
    edge_ids: Tensor | None = None


class AttentionKeys:
    """Where a layer's dropout of attention has its keys from.

    In `hr.cooperative` they are those of the batch, over a graph in shards those that `hr.sar.wrap` gives; else all
    ranks take what torch's generator draws on rank 0, for which they meet.

    Attributes
    ----------
    given : DropoutKeys or None
        Keys of a model that `wrap` was called with.
    """

    def __init__(self) -> None:
        self.given: DropoutKeys | None = None
        self._draws: Draws[Masks | bool] = Draws()

    def next(self, block: Edges) -> Masks:
        """Return what the masks of this call depend on.

        Raises
        ------
        InputError
            In a batch that ranks make together, if its edges have no ids.
        """
        masks = self._draws.of(lambda: _of_batch(block))
        if isinstance(masks, Masks):
            return masks
        if self.given is not None:
            return Masks(self.given.next())
        key = int(torch.randint(2**63 - 1, (), device="cpu"))
        comm = None if is_block(block) else getattr(block, "comm", None)
        if comm is not None and comm.world_size > 1:
            with comm.doing("the key of dropout of attention"):
                key = comm.all_gather(key)[0]
        return Masks(key)


def _of_batch(block: Edges) -> Masks | bool:
    running = RUNNING.get()
    if running is None:
        return False
    return Masks(running.dropout_key(running.seed), _edge_ids(block, running) if is_block(block) else None)


def _edge_ids(block: Block, running: RunningBatch) -> Tensor | None:
    """Return what edges are called, and loops."""
    if block.edge_ids is None and running.comm is None:
        return None
    nodes = running.nodes[: block.num_dst].to(block.indices.device)
    return torch.cat([running.edge_ids(block.num_edges), LOOPS + nodes])
