"""Aggregation over edges, as layers call it, loops at destinations, and checks of input and arguments."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from headrace.ops import InputError, Transposed, transpose_csc
from headrace.ops.aggregate.autograd import Reduce
from headrace.ops.aggregate.compiling import is_compiling
from headrace.ops.aggregate.differentiable_once import differentiable_once
from headrace.ops.aggregate.precision import autocast_of, dtype_of_sums, widened
from headrace.ops.forks import cached_property
from headrace.ops.gpu import device_of
from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.data import Block, as_number, describe, whole_number
from headrace.pipeline.data.block_messages import (
    destinations_of,
    is_trusted,
    num_dst_of,
    num_src_of,
    reduced,
    zero_where_not,
)
from headrace.pipeline.models.bound_block import BoundBlock
from headrace.pipeline.models.message_graph import MessageGraph

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
    if not isinstance(x, Tensor) or x.shape != (num_src_of(block), in_channels):
        if isinstance(x, Tensor) and (x.ndim, in_channels) == (1, 1) and len(x) == num_src_of(block):
            raise InputError(
                f"{layer}: expected x of [{block.num_src}, 1], got {describe(x)}, one number for each source; pass "
                "x[:, None]"
            )
        raise InputError(
            f"{layer}: expected x of [{block.num_src}, {in_channels}], a row for each source of the block, got "
            f"{describe(x) if isinstance(x, Tensor) else type(x).__name__}; call it as conv(x, block). Blocks come "
            "input side first: blocks[0] takes batch.x"
        )


def check_dtype(layer: str, x: Tensor, linear: nn.Module) -> None:
    """Check that rows have the dtype of the matrix that multiplies them, or that autocast brings the two together.

    Other modules, and those with hooks, may convert rows themselves.

    Raises
    ------
    InputError
        With what makes rows of that dtype.
    """
    if type(linear) is not nn.Linear or x.dtype == linear.weight.dtype or not is_matrix(linear):
        return
    weights = linear.weight.dtype
    if {x.dtype, weights} <= _CAST and autocast_of(x.device.type) is not None:
        return
    advice = "x.float()" if weights == torch.float32 else f"x.to({weights})"
    if x.is_floating_point():
        advice += f", or fetch it so, fetch_feature(..., dtype={weights})"
    if {x.dtype, weights} <= _CAST:
        advice += f", or call the model under torch.autocast({x.device.type!r})"
    raise InputError(
        f"{layer}: expected x of {str(weights).removeprefix('torch.')}, as the layer's weights are, got {describe(x)}; "
        f"pass {advice}"
    )


#: What autocast converts; rows of float64 it leaves.
_CAST = frozenset((torch.float16, torch.bfloat16, torch.float32))


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


def is_compiled(block: Edges) -> TypeIs[Block]:
    """Whether torch.compile reads this code for a block that no other rank has a part in."""
    return is_compiling() and isinstance(block, Block)


def has_fixed_sizes(block: Block) -> bool:
    """Whether no size may depend on values: of code that is compiled, and on a GPU, for which the host would wait."""
    return is_compiled(block) or device_of(block.indices) is not None


def without_padding(x: Tensor, block: Edges) -> Tensor:
    """Return rows of sources, or of destinations, with 0 for padding, so that a gradient of 0 times theirs is 0.

    No real destination reads padding: what multiplies parameters by rows of destinations needs these alone.
    """
    mask = getattr(block, "_real_sources", None) if is_block(block) else None
    if mask is None:
        return x
    return zero_where_not(mask[: len(x)], x)  # destinations are the first sources


def ends_without_padding(x: Tensor, block: Edges) -> Tensor:
    """Return rows of destinations likewise, of a relation between two types, too, where they are no sources."""
    mask = getattr(block, "_real_destinations", None) if is_block(block) else None
    return x if mask is None else zero_where_not(mask, x)


def own_rows(x: Tensor, block: Edges) -> Tensor:
    """Return the rows of destinations."""
    return x[: num_dst_of(block)]


def with_own_rows(x: Tensor, block: Edges) -> tuple[Tensor, Tensor]:
    """Return rows to aggregate, and those of destinations, whose gradient is added to that of the aggregation in place.

    Torch would write the gradient of a slice into as many zeros as `x` has, and add the two into a third tensor.
    """
    if x.requires_grad and isinstance(block, Block) and not is_compiling():
        return _WithOwnRows.apply(x, num_dst_of(block))  # type: ignore[no-untyped-call,no-any-return]
    return x, own_rows(x, block)


class _WithOwnRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, num_dst: int) -> tuple[Tensor, Tensor]:
        ctx.num_dst = num_dst
        return x.view_as(x), x[:num_dst]

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        by_all, by_own = gradients  # nothing but the aggregation takes all rows: it has just made this tensor
        by_all[: ctx.num_dst] += by_own
        return by_all, None


def sum_of_products(linear: nn.Module, rows: Tensor, other: nn.Module, others: Tensor) -> Tensor:
    """Return ``linear(rows) + other(others)``; the second product is added to the first as it is made."""
    out: Tensor = linear(rows)
    are_plain = not is_compiling() and _is_unseen(linear)
    if are_plain and _is_unseen(other) and other.bias is None and out.dtype == others.dtype == other.weight.dtype:
        return out.addmm_(others, other.weight.t())
    return out + cast("Tensor", other(others))  # autocast brings dtypes together


#: Where modules, and torch for all of them, keep the functions that see their inputs and outputs.
_HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"


def _is_unseen(module: nn.Module) -> TypeIs[nn.Linear]:
    """Whether a module multiplies by a matrix, and nobody sees its output, which changes in place."""
    return is_matrix(module) and not any(getattr(nn.modules.module, f"_global{name}", None) for name in _HOOKS)


def is_matrix(module: nn.Module) -> TypeIs[nn.Linear]:
    """Whether a module returns the product with its matrix, which no hook of its own and no other `forward` changes."""
    if type(module) is not nn.Linear or is_compiling():  # older torch does not compile the rest
        return type(module) is nn.Linear
    # Libraries replace `forward` on single modules.
    return not any(getattr(module, name, None) for name in _HOOKS) and "forward" not in vars(module)


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


def aggregate(block: Edges, x: Tensor, reduce: Reduce, weight: Tensor | None = None) -> Tensor:
    """Reduce the messages to each destination; gradients go back over the transposed edges."""
    x = widened(x)
    if weight is not None:
        weight = weight.to(dtype_of_sums(x))
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


@dataclass(frozen=True, eq=False)
class Looped:
    """The edges of a block without those from a node to itself, and behind those of each destination one to itself.

    Attributes
    ----------
    indptr : int64[num_dst + 1]
    indices : int32 or int64[num_looped]
    origin : int64[num_looped]
        The edge of the block that it was; num_edges + i for the one from destination i to itself.
    num_src : int
    kept_indptr : int64[num_dst + 1]
        Rows of the edges without the new ones.
    kept : int64[num_kept]
        Those edges in the block.
    is_kept : bool[num_edges], optional
        Where edges from a node to itself have stayed, those that do not count: False.
    """

    indptr: Tensor
    indices: Tensor
    origin: Tensor
    num_src: int
    kept_indptr: Tensor
    kept: Tensor
    is_kept: Tensor | None = None
    _is_trusted: bool = False

    @cached_property
    def transposed(self) -> Transposed:
        """The same by source, made once."""
        edges, threads = (self.indptr, self.indices), torch.get_num_threads()
        return transpose_csc(*edges, self.num_src, num_threads=threads, trusted=self._is_trusted)

    @property
    def names(self) -> Tensor | None:
        """The ids of edges for dropout, int64[num_looped]: their positions among those that count; None: all count."""
        if self.is_kept is None:
            return None
        counts = torch.cat([self.is_kept, self.is_kept.new_ones(len(self.indptr) - 1)])[self.origin]
        return counts.cumsum(0) - 1


_LOOPED: weakref.WeakKeyDictionary[Block, Looped] = weakref.WeakKeyDictionary()


def with_self_loops(block: Block) -> Looped:
    """Return the edges of a block with one from each destination to itself; made once for a block."""
    if is_compiled(block):
        return _looped_in_place(block)
    found = _LOOPED.get(block)
    if found is None:
        found = _LOOPED[block] = _looped_in_place(block) if has_fixed_sizes(block) else _looped(block)
    return found


def _looped(block: Block) -> Looped:
    device = block.indices.device
    destinations = destinations_of(block)
    kept = block.indices != destinations
    counts = starts_of(kept)
    kept_indptr = counts[block.indptr]
    number = torch.arange(block.num_dst + 1, device=device)
    indptr = kept_indptr + number
    num_looped = int(indptr[-1])
    # Kept edges move by as many places as there are destinations before theirs.
    edges = kept.nonzero()[:, 0]
    places = counts[edges] + destinations[edges]
    indices = torch.empty(num_looped, dtype=block.indices.dtype, device=device)
    origin = torch.empty(num_looped, dtype=torch.int64, device=device)
    indices[places], origin[places] = block.indices[edges], edges
    last = indptr[1:] - 1
    indices[last], origin[last] = number[:-1].to(indices.dtype), block.num_edges + number[:-1]
    return Looped(indptr, indices, origin, block.num_src, kept_indptr, edges, None, is_trusted(block))


def _looped_in_place(block: Block) -> Looped:
    """Return as many edges as the block has and as destinations, so that no size depends on values."""
    device, num_dst, num_edges = block.indices.device, num_dst_of(block), block.num_edges
    destinations = destinations_of(block)
    number = torch.arange(num_dst + 1, device=device)
    edges = torch.arange(num_edges, device=device)
    indptr = block.indptr + number
    places = torch.cat([edges + destinations, indptr[1:] - 1])
    indices = torch.cat([block.indices, number[:-1].to(block.indices.dtype)])
    origin = torch.arange(num_edges + num_dst, device=device)
    indices, origin = (torch.zeros_like(one).index_copy(0, places, one) for one in (indices, origin))
    is_kept = block.indices != destinations
    return Looped(indptr, indices, origin, num_src_of(block), block.indptr, edges, is_kept, is_trusted(block))
