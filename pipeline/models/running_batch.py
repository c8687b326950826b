"""The batch that a model works on, for modules inside it that must know what their rows stand for."""

from __future__ import annotations

from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.random.rng import DROPOUT, stream_key
from headrace.pipeline.models.recomputation import is_recomputing
from headrace.pipeline.models.rows_by_type import RowsByType, exchange_by_type, types_of

if TYPE_CHECKING:
    from headrace.pipeline.data import Block, MiniBatch, TypeName
    from headrace.pipeline.distributed.channel import Comm


#: Keys of functions of messages begin behind those of dropouts.
_MESSAGES = 1 << 15


@dataclass
class RunningBatch:
    """How far a model has come with a batch.

    Parameters
    ----------
    batch
        The batch.
    nodes
        The nodes whose rows are being worked on, or the first of them: int64[n].
    layer
        The layer that the model is in; None between layers.
    num_layers
        Layers entered so far.
    num_exchanged
        Layers whose input has been exchanged: those up to the next one, if that was prepared before its call.
    num_dropouts
        Dropouts applied so far, also of attention.
    num_messages
        Calls of functions of messages so far, whose masks are those of edges.
    seed
        Of dropout.
    is_trial
        Whether a layer is tried out on this rank alone.
    functions
        What the layer that the model is in has in the place of other libraries' functions.
    relation
        The edge type of which messages are passed, in a `HeteroConv`.
    """

    batch: MiniBatch
    nodes: Tensor
    layer: int | None = None
    num_layers: int = 0
    num_exchanged: int = 1
    num_dropouts: int = 0
    num_messages: int = 0
    seed: int = 0
    is_trial: bool = False
    functions: ExitStack | None = None
    relation: tuple[str, str, str] | None = None

    @staticmethod
    def of(batch: MiniBatch, seed: int = 0) -> RunningBatch:
        """Return the beginning, before the first layer."""
        return RunningBatch(batch, batch.n_id, seed=seed)

    def dropout_key(self, seed: int) -> int:
        """Return the key of the masks of the next dropout, the same on all ranks."""
        self.num_dropouts += 1
        return stream_key(seed, self.batch.epoch, self.batch.index, self.num_dropouts - 1, DROPOUT)

    def message_key(self) -> int:
        """Return the key of the masks of the next function of messages, the same on all ranks."""
        # One process has no such functions: keys of other dropouts are those that it has.
        self.num_messages += 1
        number = _MESSAGES + self.num_messages - 1
        return stream_key(self.seed, self.batch.epoch, self.batch.index, number, DROPOUT)

    def enter(self, layer: int) -> None:
        """Go into a layer: rows are those of its sources, destinations first."""
        exchanges = self.batch.exchanges
        self.nodes = exchanges[layer].wanted if exchanges else self.batch.n_id
        self.layer = layer
        self.num_layers += 1

    def leave(self, layer: int) -> None:
        """Go out of a layer: rows are those of its destinations."""
        exchanges = self.batch.exchanges
        self.nodes = exchanges[layer + 1].owned if exchanges else self.batch.n_id
        self.layer = None
        self.close()

    def close(self) -> None:
        """Give other libraries' functions back."""
        functions, self.functions = self.functions, None
        if functions is not None:
            functions.close()

    @property
    def each_once(self) -> bool:
        """Whether each of the nodes is in one rank: outside of layers, behind the first one, or where rows stay."""
        if self.layer is None and self.num_layers > 0:
            return True
        exchanges = self.batch.exchanges
        return bool(exchanges) and exchanges[self.layer or 0].stays

    def needs_exchange(self, layer: int) -> bool:
        """Whether the input of a layer is still that of owned nodes."""
        return layer >= self.num_exchanged

    def exchange(self, layer: int, rows: Tensor) -> Tensor:
        """Return the rows of a layer's sources, from those of the nodes that this rank owns."""
        exchanged = self.batch.exchange(layer, rows)
        self.num_exchanged = layer + 1
        return exchanged

    def exchange_by_type(self, layer: int, rows: RowsByType) -> dict[TypeName, Tensor]:
        """Return the rows of a layer's sources by type, from those of the nodes that this rank owns."""
        self.num_exchanged = layer + 1
        return exchange_by_type(self.batch, layer, rows) if self.batch.exchanges else dict(rows)

    @property
    def shares_nodes(self) -> bool:
        """Whether the layer that the model is in has sources whose in-edges are on other ranks."""
        return self.layer is not None and self.comm is not None and self.comm.world_size > 1

    @property
    def num_destinations(self) -> int:
        """The number of destinations that this rank has in the layer that the model is in."""
        assert self.layer is not None
        block = self.batch.blocks[self.layer]
        return (block if self.relation is None else block.relation(self.relation)).num_dst

    def at_sources(self, values: Tensor, others: float, number: int) -> Tensor:
        """Return the values of a layer's sources from those of its destinations, which their owners know.

        Parameters
        ----------
        values: floating[num_dst]
            Of this rank's destinations.
        others
            The value of nodes that are no destinations on any rank.
        number
            Sources.
        """
        assert self.layer is not None  # see `shares_nodes`
        if self.is_trial:  # other ranks take no part; what other nodes have stays the same
            return values.new_ones(number)
        owned = self.batch.exchanges[self.layer].owned
        if self.relation is None:
            rows = torch.cat([values, values.new_full((len(owned) - len(values),), others)])
            return self.batch.exchange(self.layer, rows[:, None])[:, 0]
        source, _, destination = self.relation
        if source != destination:
            raise InputError(
                "cooperative: expected degrees of both ends in a relation within one type of nodes, got "
                f"{source!r} and {destination!r}"
            )
        of_type = types_of(self.batch).of(owned).count(source)
        rows = torch.cat([values, values.new_full((of_type - len(values),), others)])
        return exchange_by_type(self.batch, self.layer, {source: rows[:, None]})[source][:, 0]

    def sources(self, block: Block, rows: Tensor) -> Tensor:
        """Return the rows of a block's sources.

        Rows that the model prepares for its next layer, before it calls it, are exchanged here. All others are those of
        sources already.
        """
        if self.batch.exchanges and is_recomputing():
            raise cannot_be_recomputed()
        following, blocks = self.num_layers, self.batch.blocks
        prepared = self.each_once and following < len(blocks) and block is blocks[following]
        return self.exchange(following, rows) if prepared else rows

    @property
    def comm(self) -> Comm | None:
        """The channel on which the model communicates; None if the batch is one process's own."""
        return self.batch.comm

    def ids(self, num_rows: int) -> Tensor:
        """Return the nodes of rows.

        Raises
        ------
        InputError
            If there are other numbers of rows than of nodes: they stand for something else, such as edges or features.
        """
        expected = {0, len(self.nodes), *(block.num_dst for block in self.batch.blocks)}
        if num_rows > len(self.nodes) or num_rows not in expected:
            raise InputError(
                f"cooperative: expected dropout of the rows of {len(self.nodes)} nodes, got {num_rows} rows; its "
                "masks are those of nodes, in the first dimension, so drop attention and messages by other means"
            )
        return self.nodes[:num_rows]

    def edge_ids(self, num_rows: int) -> Tensor:
        """Return the ids of the edges of the layer that the model is in.

        Raises
        ------
        InputError
            Outside of layers, for another number of rows, or if the edges were sampled without their ids.
        """
        blocks = self.batch.blocks
        block = blocks[self.layer] if self.layer is not None and self.layer < len(blocks) else None
        if block is None or block.num_edges != num_rows or block.edge_ids is None:
            has = "no block" if block is None else f"{block.num_edges} edges"
            ids = " without ids" if block is not None and block.edge_ids is None else ""
            raise InputError(
                f"cooperative: expected dropout of attention to have a row for each edge, got {num_rows} rows where "
                f"there is {has}{ids}; sample with edge_ids=True, and name a module attn_drop only if its rows are "
                "edges"
            )
        return block.edge_ids


def cannot_be_recomputed() -> InputError:
    """Return the error for a layer that torch.utils.checkpoint calls once more."""
    return InputError(
        "cooperative: expected torch.utils.checkpoint around what a model does between its layers, got a layer inside "
        "of it, whose input comes from other ranks; leave layers that take blocks outside"
    )


RUNNING: ContextVar[RunningBatch | None] = ContextVar("headrace_running_batch", default=None)
