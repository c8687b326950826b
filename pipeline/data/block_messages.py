"""Message passing over a block of one process, as over edges that ranks share: what layers of one's own are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops import (
    AttentionDropout,
    AttentionScores,
    InputError,
    Transposed,
    aggregate_with_grad,
    attend_with_grad,
)
from headrace.ops._arrays import as_key
from headrace.ops.aggregate.autograd import Reduce, divided_by
from headrace.ops.aggregate.compiling import is_compiling, num_torch_threads
from headrace.ops.aggregate.differentiable_once import differentiable_once
from headrace.ops.aggregate.precision import as_narrow_as, in_single, widened
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.checks import check_tensor, is_as_made

if TYPE_CHECKING:
    from headrace.pipeline.data.block import Block


def aggregate(block: Any, x: Tensor, reduce: Reduce, weight: Tensor | None) -> Tensor:
    """Reduce the messages to each destination; see `Block.aggregate`."""
    check_tensor(x, "aggregate: x")
    _check_rows("aggregate", x=(x, num_src_of(block)), weight=(weight, block.num_edges))
    weight = None if weight is None else edges_without_padding(weight, block)
    if weight is None or reduce != "mean":
        return reduced(block, x, reduce, weight)
    x, weight = widened(x), in_single(weight)
    ends = destinations_of(block) if is_compiling() else block.edge_index[1]  # kept, where something can be
    sums = weight.new_zeros((num_dst_of(block), *weight.shape[1:])).index_add(0, ends, weight)
    return as_narrow_as(divided_by(reduced(block, in_single(x), "sum", weight), sums), x)


def num_src_of(block: Any) -> int:
    """Return the number of sources: the size of a tensor, where code is compiled for a block with marked sizes.

    For torch.compile an int of an object is a constant until it has changed; sizes can be dynamic from the start.
    """
    rows = getattr(block, "_marked_rows", None) if is_compiling() else None
    return int(block.num_src) if rows is None else len(rows)


def num_dst_of(block: Any) -> int:
    """Return the number of destinations, as `num_src_of`."""
    rows = getattr(block, "_marked_rows", None) if is_compiling() else None
    return int(block.num_dst) if rows is None else len(block.indptr) - 1


def is_trusted(edges: Any) -> bool:
    """Whether nobody has to look at the edges of a block, as they are those that headrace made."""
    return bool(getattr(edges, "_is_trusted", False)) if is_compiling() else is_as_made(edges)  # reads versions


def destinations_of(block: Any) -> Tensor:
    """Return the destination of each edge, of the dtype of `indices`."""
    rows = torch.arange(num_dst_of(block), dtype=block.indices.dtype, device=block.indices.device)
    return rows.repeat_interleave(block.indptr.diff(), output_size=block.num_edges)


def edges_without_padding(values: Tensor, block: Any) -> Tensor:
    """Return an array of edges with 0 for padding, so that neither its values nor their gradients can be NaN there."""
    real = getattr(block, "_real_sources", None)
    if real is None:
        return values
    return zero_where_not(real.index_select(0, block.indices), values)  # padding edges begin at padding


def zero_where_not(mask: Tensor, rows: Tensor) -> Tensor:
    """Return rows with 0 where a mask of rows is False; the gradient there is 0 too."""
    return torch.where(mask.view(-1, *(1 for _ in rows.shape[1:])), rows, 0)


def reduced(block: Block, x: Tensor, reduce: Reduce, weight: Tensor | None) -> Tensor:
    """Reduce messages by kernels; a mean divides by the number of edges, whatever their weights are."""
    _note_use(block)
    return aggregate_with_grad(
        block.indptr,
        block.indices,
        x,
        reduce=reduce,
        weight=weight,
        transpose=lambda: block.transposed,
        num_threads=num_torch_threads(),
        trusted=is_trusted(block),
    )


def attend(
    block: Any,
    x: Tensor,
    source_scores: Tensor,
    destination_scores: Tensor,
    edge_scores: Tensor | None,
    slope: float,
    dropout: float,
    key: int,
) -> Tensor:
    """Add up rows by the softmax of scores; see `Block.attend`."""
    for name, one in (("x", x), ("source_scores", source_scores), ("destination_scores", destination_scores)):
        check_tensor(one, f"attend: {name}")
    as_key(key, stage="attend")
    _note_use(block)
    _check_rows(
        "attend",
        x=(x, num_src_of(block)),
        source_scores=(source_scores, num_src_of(block)),
        destination_scores=(destination_scores, num_dst_of(block)),
        edge_scores=(edge_scores, block.num_edges),
    )
    edge_scores = None if edge_scores is None else edges_without_padding(edge_scores, block)
    drops = AttentionDropout.of(dropout, key, block.edge_ids)
    if drops is not None and block.edge_ids is None:
        raise InputError("attend: dropout goes by the ids of edges, and the block has none; sample with edge_ids=True")
    rows = x if x.ndim < 3 else x.reshape(*x.shape[:2], math.prod(x.shape[2:]))
    out = attend_with_grad(
        block.indptr,
        block.indices,
        rows,
        AttentionScores(source_scores, destination_scores, edge_scores, None, slope, drops),
        transpose=lambda: block.transposed,
        num_threads=num_torch_threads(),
        trusted=is_trusted(block),
    )
    return out.view(num_dst_of(block), *x.shape[1:])


def update_all(
    block: Any,
    message: Callable[..., Tensor],
    x: Tensor,
    reduce: Reduce,
    destination: Tensor | None,
    edge: Tensor | None,
) -> Tensor:
    """Reduce the messages of a function; see `Block.update_all`."""
    check_tensor(x, "update_all: x")
    _note_use(block)
    _check_rows(
        "update_all",
        x=(x, num_src_of(block)),
        destination=(destination, num_dst_of(block)),
        edge=(edge, block.num_edges),
    )
    edge = None if edge is None else edges_without_padding(edge, block)
    ends = None if destination is None else rows_of_destinations(block, destination)
    messages = message(rows_of_sources(block, x), ends, edge)
    if not isinstance(messages, Tensor) or messages.shape[:1] != block.indices.shape:
        got = describe(messages) if isinstance(messages, Tensor) else type(messages).__name__
        raise InputError(f"update_all: expected messages of [{block.num_edges}, ...], one for each edge, got {got}")
    return reduced_messages(block, messages, reduce)


def rows_of_sources(block: Any, x: Tensor) -> Tensor:
    """Return the row of the source of each edge, [num_edges, ...]."""

    def sums(gradient: Tensor) -> Tensor:
        back, threads = block.transposed, num_torch_threads()
        return aggregate_with_grad(
            back.indptr, back.positions, gradient, num_threads=threads, trusted=is_trusted(block)
        )

    return _rows_at(x, block.indices, sums)


def rows_of_destinations(block: Any, x: Tensor) -> Tensor:
    """Return the row of the destination of each edge, [num_edges, ...]."""
    return _rows_at(x, destinations_of(block), lambda gradient: reduced_messages(block, gradient, "sum"))


def _rows_at(x: Tensor, ids: Tensor, sums: Callable[[Tensor], Tensor]) -> Tensor:
    """Return rows, whose gradients kernels add up in the order of edges; torch would add one row after another."""
    if is_compiling() or not x.requires_grad:
        return x.index_select(0, ids)
    rows: Tensor = _RowsAt.apply(x, ids, sums)  # type: ignore[no-untyped-call]
    return rows


class _RowsAt(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ids: Tensor, sums: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.sums = sums
        return x.index_select(0, ids)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        return ctx.sums(gradient.contiguous()).to(gradient.dtype), None, None


def reduced_messages(block: Any, messages: Tensor, reduce: Reduce) -> Tensor:
    """Reduce messages, [num_edges, ...], to destinations, [num_dst, ...]: each edge is a source of its own."""

    def numbers() -> Tensor:
        return torch.arange(block.num_edges, dtype=block.indices.dtype, device=block.indices.device)

    def transposed() -> Transposed:
        starts = torch.arange(block.num_edges + 1, device=block.indices.device)
        return Transposed(starts, destinations_of(block), numbers())

    return aggregate_with_grad(
        block.indptr,
        numbers(),
        messages.contiguous(),
        reduce=reduce,
        transpose=transposed,
        num_threads=num_torch_threads(),
        trusted=is_trusted(block),
    )


def _note_use(block: Block) -> None:
    """Let the loader know that a model works on a batch that ranks made together."""
    if not is_compiling() and vars(block).get("_is_used") is False:
        vars(block)["_is_used"] = True


def _check_rows(method: str, **rows: tuple[Tensor | None, int]) -> None:
    """Refuse arrays that are longer than the block, too: kernels read what edges name, and no more."""
    for name, (one, expected) in rows.items():
        if one is not None and (not isinstance(one, Tensor) or one.ndim == 0 or len(one) != expected):
            got = describe(one) if isinstance(one, Tensor) else type(one).__name__
            raise InputError(f"{method}: expected {name} of {expected} rows, got {got}")
