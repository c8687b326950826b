"""The masks of dropout of attention, which belong to edges: the same for any number of ranks."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data import Block, as_number
from headrace.pipeline.models.nn.aggregate import Edges, is_block
from headrace.pipeline.models.recomputation import Draws, DropoutKeys
from headrace.pipeline.models.running_batch import RUNNING, RunningBatch
from headrace.pipeline.models.shared_edges import IDS_OF_LOOPS


def dropout_probability(layer: str, value: object) -> float:
    """Return the probability that an attention is dropped.

    Raises
    ------
    InputError
        For a value outside [0, 1).
    """
    probability = as_number(value)
    if probability is None or not 0 <= probability < 1:
        raise InputError(f"{layer}: expected a dropout in [0, 1), got {value!r}")
    return probability


class Masks(NamedTuple):
    """What masks depend on.

    Parameters
    ----------
    key
        The same on all ranks.
    edge_ids: int64[num_edges + num_dst], optional
        The ids of the edges of a block, then those of loops at its destinations; None: masks depend on the positions of
        edges, or on their ids in a graph.
    """

    key: int
    edge_ids: Tensor | None = None


class AttentionKeys:
    """The keys of the dropout of attention of a layer.

    In `hr.cooperative` they are those of the batch, over a graph in shards those that `hr.sar.wrap` gives; else all
    ranks take the key that torch's generator draws on rank 0, for which they meet.

    Attributes
    ----------
    given : DropoutKeys or None
        Keys of a model that `wrap` was called with.
    """

    def __init__(self) -> None:
        self.given: DropoutKeys | None = None
        self._draws: Draws[Masks | None] = Draws()

    def next(self, block: Edges) -> Masks:
        """Return what the masks of this call depend on.

        Raises
        ------
        InputError
            In a batch that ranks make together, if its edges have no ids.
        """
        masks = self._draws.of(lambda: _of_batch(block))
        if masks is not None:
            return masks
        if self.given is not None:
            return Masks(self.given.next())
        key = int(torch.randint(2**63 - 1, (), device="cpu"))
        comm = None if is_block(block) else getattr(block, "comm", None)
        if comm is not None and comm.world_size > 1:
            with comm.doing("the key of dropout of attention"):
                key = comm.all_gather(key)[0]
        return Masks(key)


def _of_batch(block: Edges) -> Masks | None:
    running = RUNNING.get()
    if running is None:
        return None
    return Masks(running.dropout_key(running.seed), _edge_ids(block, running) if is_block(block) else None)


def _edge_ids(block: Block, running: RunningBatch) -> Tensor | None:
    """Return the ids of the edges of a block, then those of loops at its destinations."""
    if block.edge_ids is None and running.comm is None:
        return None
    nodes = running.nodes[: block.num_dst].to(block.indices.device)
    return torch.cat([running.edge_ids(block.num_edges), IDS_OF_LOOPS + nodes])
