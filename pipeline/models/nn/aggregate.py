"""Aggregation over edges, as layers call it, and checks of their input and arguments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import Tensor

from headrace.ops.aggregate.autograd import Reduce
from headrace.ops.aggregate.precision import widened
from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import as_number, describe, whole_number
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.block_messages import reduced
from headrace.pipeline.models.bound_block import BoundBlock
from headrace.pipeline.models.message_graph import MessageGraph
from headrace.pipeline.models.running_batch import RUNNING

if TYPE_CHECKING:
    from typing_extensions import TypeIs


#: What layers are called with.
Edges: TypeAlias = Block | MessageGraph


def check_input(layer: str, x: Tensor, block: Edges, in_channels: int) -> None:
    """Check that a layer's input has a row for each source, the destinations among them.

    Raises
    ------
    InputError
        If it has other rows, or destinations are of another type than sources.
    """
    check_has_own_rows(layer, block)
    if not isinstance(x, Tensor) or x.shape != (block.num_src, in_channels):
        raise InputError(
            f"{layer}: expected x of [{block.num_src}, {in_channels}], a row for each source of the block, got "
            f"{describe(x) if isinstance(x, Tensor) else type(x).__name__}; call it as conv(x, block). Blocks come "
            "input side first: blocks[0] takes batch.x"
        )


def check_has_own_rows(layer: str, block: Edges) -> None:
    """Check that the rows of destinations are the first of the sources'.

    Raises
    ------
    InputError
        If destinations are of another type than sources, or for what is no block.
    """
    if not hasattr(block, "num_src"):  # all that messages go over has it
        raise InputError(
            f"{layer}: expected a block, got {type(block).__name__}; call it as conv(x, block), with a block of "
            "batch.blocks"
        )
    if is_block(block) and block.bipartite:
        raise InputError(
            f"{layer}: expected a block whose destinations are sources too, got a relation between two types; make a "
            "layer for rows of both of block.aggregate or block.attend, or call one of PyG as "
            "conv((x_src, x_dst), block.edge_index)"
        )


def is_block(block: Edges) -> TypeIs[Block]:
    """Whether all edges of its destinations are at hand, so that kernels run on them as they are."""
    return isinstance(block, Block | BoundBlock)


def weight_of(block: Edges) -> Tensor | None:
    """Return the importance weights of sampled edges; where nothing is sampled there are none."""
    return block.weight if is_block(block) else None


def check_is_block(layer: str, block: Edges, advice: str) -> Block:
    """Return a block that has all in-edges of its destinations.

    Raises
    ------
    InputError
        With the advice, if ranks share these edges.
    """
    if not is_block(block):
        raise InputError(f"{layer}: expected a Block, whose degrees it reads, got {type(block).__name__}; {advice}")
    return block


def check_knows_sources(layer: str, block: Edges, advice: str) -> Block:
    """Return a block that has also all in-edges of those of its sources that are destinations on any rank.

    Raises
    ------
    InputError
        With the advice, if ranks share the edges, or the nodes: each knows the in-edges of its own alone.
    """
    block, running = check_is_block(layer, block, advice), RUNNING.get()
    if running is not None and running.comm is not None and running.comm.world_size > 1:
        raise InputError(
            f"{layer}: expected a batch of one process, as it reads the degrees of sources, got one that "
            f"{running.comm.world_size} ranks make together, where other ranks have the edges of some; {advice}"
        )
    return block


def aggregate(block: Edges, x: Tensor, reduce: Reduce, weight: Tensor | None = None) -> Tensor:
    """Reduce the messages to each destination; gradients go back over the transposed edges."""
    x = widened(x)
    if weight is not None:
        weight = weight.to(x.dtype)
    if not is_block(block):
        return block.aggregate(x, reduce=reduce, weight=weight)
    return reduced(block, x, reduce, weight)


#: More have no matrix that memory could hold.
MOST_COLUMNS = (1 << 31) - 1


def columns(layer: str, name: str, value: Any) -> int:
    """Return a number of columns or heads as an int; there is at least one.

    Raises
    ------
    InputError
        For other values, among them PyG's -1 (a number that the first call finds) and its pairs.
    """
    if isinstance(value, tuple | list):
        raise InputError(
            f"{layer}: expected {name} to be one integer of at least 1, got {value!r}; rows of both ends of a block "
            "have the same columns"
        )
    return whole_number(value, f"{layer}: {name}", 1, InputError, MOST_COLUMNS)


def finite(layer: str, name: str, value: Any) -> int | float:
    """Return a finite number as an int or a float.

    Raises
    ------
    InputError
        For other values.
    """
    number = as_number(value)
    if number is None or not math.isfinite(number):
        raise InputError(f"{layer}: expected {name} to be a finite number, got {value!r}")
    return number
