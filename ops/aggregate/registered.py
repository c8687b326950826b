"""Aggregations as operations of torch: ``torch.compile`` takes each into its graph as one node, there and back.

They run the same kernels as `aggregate_with_grad` and `attend_with_grad`, which take them while they are compiled.
Eager calls do without: the dispatcher of torch would cost more than a small aggregation. Registering takes
milliseconds, so this file is loaded by the first compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headrace.ops.aggregate.attention import Attended, attend, attend_backward_destinations, attend_backward_sources
from headrace.ops.aggregate.attention_scores import AttentionDropout, AttentionScores
from headrace.ops.aggregate.differentiable_once import differentiable_once
from headrace.ops.aggregate.edges import heads_of
from headrace.ops.aggregate.extreme import spmm_extreme, spmm_winners
from headrace.ops.aggregate.spmm import sddmm, spmm
from headrace.ops.aggregate.transpose import transpose_csc
from headrace.ops.aggregate.way_back import Options
from headrace.ops.errors import InputError

#: Any: torch has no types for it.
LIBRARY: Any = torch.library.Library("headrace", "DEF")  # type: ignore[no-untyped-call]

#: As operations have them: edges by row, and by source with the position of each.
_EDGES = "Tensor indptr, Tensor indices"
_BACK = f"{_EDGES}, Tensor positions"
_ATTENTION = (
    "Tensor x, Tensor source, Tensor destination, Tensor? edge, Tensor? weight, float slope, float dropout, "
    "Tensor? key, Tensor? edge_ids"
)
_STATE = "Tensor out, Tensor largest, Tensor sums, Tensor gradient"


#: Rows may have any strides: inductor then makes no copy of what it has computed itself.
_TAGS = [getattr(torch.Tag, name) for name in ("pt2_compliant_tag", "flexible_layout") if hasattr(torch.Tag, name)]


def _registered(schema: str, fake: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that registers a function, and `fake`, which makes outputs of the same shapes."""

    def register(run: Callable[..., Any]) -> Any:
        name = schema.partition("(")[0]
        LIBRARY.define(schema, tags=_TAGS)
        LIBRARY.impl(name, run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"headrace::{name}", fake, lib=LIBRARY)
        for device in ("cpu", "cuda") if hasattr(torch.library, "register_autocast") else ():
            torch.library.register_autocast(f"headrace::{name}", device, torch.float32, lib=LIBRARY)
        return getattr(torch.ops.headrace, name)

    return register


def _has_gradient(operation: Any, save: Callable[..., None], back: Callable[..., Any]) -> None:
    torch.library.register_autograd(f"headrace::{operation.__name__}", back, setup_context=save, lib=LIBRARY)


def _on(*, trusted: bool) -> Options:
    return {"num_threads": torch.get_num_threads(), "trusted": trusted}


def _check_rows(indptr: Tensor, num_rows: int) -> None:
    if len(indptr) != num_rows + 1:
        raise InputError(f"headrace: expected indptr of {num_rows + 1} entries, one more than rows, got {len(indptr)}")


@_registered(
    f"transpose({_EDGES}, SymInt num_src) -> (Tensor, Tensor, Tensor)",
    lambda indptr, indices, num_src: (
        indptr.new_empty(num_src + 1),
        torch.empty_like(indices),
        torch.empty_like(indices),
    ),
)
def transpose(indptr: Tensor, indices: Tensor, num_src: int) -> tuple[Tensor, ...]:
    """Return `transpose_csc`, whose ids have the dtype of the given ones."""
    starts, *ids = transpose_csc(indptr, indices, num_src, **_on(trusted=True))
    return (starts, *(one.to(indices.dtype) for one in ids))


@_registered(
    f"sum({_EDGES}, Tensor x, Tensor? weight, Tensor? divisors, SymInt num_rows, bool trusted) -> Tensor",
    lambda indptr, indices, x, weight, divisors, num_rows, trusted: x.new_empty((num_rows, *x.shape[1:])),
)
def summed(
    indptr: Tensor,
    indices: Tensor,
    x: Tensor,
    weight: Tensor | None,
    divisors: Tensor | None,
    num_rows: int,
    trusted: bool,
) -> Tensor:
    """Return `spmm`."""
    _check_rows(indptr, num_rows)
    return spmm(indptr, indices, x, weight=weight, divisors=divisors, **_on(trusted=trusted))


@_registered(
    f"sum_back({_BACK}, Tensor gradient, Tensor? weight, SymInt num_rows) -> Tensor",
    lambda indptr, indices, positions, gradient, weight, num_rows: gradient.new_empty((num_rows, *gradient.shape[1:])),
)
def sum_back(
    indptr: Tensor, indices: Tensor, positions: Tensor, gradient: Tensor, weight: Tensor | None, num_rows: int
) -> Tensor:
    """Return the gradient of the rows that `summed` has read."""
    places = None if weight is None else positions
    return spmm(indptr, indices, gradient, weight=weight, positions=places, **_on(trusted=True))


@_registered(
    f"edge_products({_EDGES}, Tensor a, Tensor b, Tensor? winners, SymInt? heads) -> Tensor",
    lambda indptr, indices, a, b, winners, heads: a.new_empty(
        (indices.shape[0],) if heads is None else (indices.shape[0], heads)
    ),
)
def edge_products(
    indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor, winners: Tensor | None, heads: int | None
) -> Tensor:
    """Return `sddmm`: the gradient of weights."""
    return sddmm(indptr, indices, a, b, heads=heads, winners=winners, **_on(trusted=True))


@_registered(
    f"extreme({_EDGES}, Tensor x, Tensor? weight, bool largest, SymInt num_rows, bool trusted) -> (Tensor, Tensor)",
    lambda indptr, indices, x, weight, largest, num_rows, trusted: (
        x.new_empty((num_rows, *x.shape[1:])),
        x.new_empty((num_rows, *x.shape[1:]), dtype=torch.int64),
    ),
)
def extreme(
    indptr: Tensor, indices: Tensor, x: Tensor, weight: Tensor | None, largest: bool, num_rows: int, trusted: bool
) -> tuple[Tensor, ...]:
    """Return `spmm_extreme`."""
    _check_rows(indptr, num_rows)
    return tuple(spmm_extreme(indptr, indices, x, weight=weight, largest=largest, **_on(trusted=trusted)))


@_registered(
    f"extreme_back({_BACK}, Tensor gradient, Tensor winners, Tensor? weight, SymInt num_rows) -> Tensor",
    lambda indptr, indices, positions, gradient, winners, weight, num_rows: gradient.new_empty(
        (num_rows, *gradient.shape[1:])
    ),
)
def extreme_back(
    indptr: Tensor,
    indices: Tensor,
    positions: Tensor,
    gradient: Tensor,
    winners: Tensor,
    weight: Tensor | None,
    num_rows: int,
) -> Tensor:
    """Return the gradient of the rows that `extreme` has read."""
    return spmm_winners(indptr, indices, gradient, winners, weight=weight, positions=positions, **_on(trusted=True))


def _scores(
    source: Tensor,
    destination: Tensor,
    edge: Tensor | None,
    weight: Tensor | None,
    slope: float,
    dropout: float,
    key: Tensor | None,
    edge_ids: Tensor | None,
) -> AttentionScores:
    drops = None if key is None else AttentionDropout.of(dropout, int(key) % 2**64, edge_ids)
    return AttentionScores(source, destination, edge, weight, slope, drops)


@_registered(
    f"attend({_EDGES}, {_ATTENTION}, bool trusted) -> (Tensor, Tensor, Tensor)",
    lambda indptr, indices, x, source, destination, *rest: (
        x.new_empty((destination.shape[0], *x.shape[1:])),
        torch.empty_like(destination, memory_format=torch.contiguous_format),
        torch.empty_like(destination, memory_format=torch.contiguous_format),
    ),
)
def attended(indptr: Tensor, indices: Tensor, x: Tensor, *scores: Any) -> tuple[Tensor, ...]:
    """Return `attend`."""
    _check_rows(indptr, len(scores[1]))
    *given, trusted = scores
    return tuple(attend(indptr, indices, x, _scores(*given), **_on(trusted=trusted)))


@_registered(
    f"attend_back_sources({_BACK}, {_ATTENTION}, {_STATE}) -> (Tensor, Tensor)",
    lambda indptr, indices, positions, x, source, *rest: (
        torch.empty_like(source, memory_format=torch.contiguous_format),
        torch.empty_like(x, memory_format=torch.contiguous_format),
    ),
)
def attend_back_sources(
    indptr: Tensor, indices: Tensor, positions: Tensor, x: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    """Return `attend_backward_sources`."""
    *scores, out, largest, sums, gradient = rest
    state = Attended(out, largest, sums)
    return attend_backward_sources(
        indptr, indices, x, _scores(*scores), state, gradient, positions=positions, **_on(trusted=True)
    )


@_registered(
    f"attend_back_destinations({_EDGES}, {_ATTENTION}, {_STATE}) -> (Tensor, Tensor)",
    lambda indptr, indices, x, source, destination, edge, *rest: (
        torch.empty_like(destination, memory_format=torch.contiguous_format),
        x.new_empty(0) if edge is None else torch.empty_like(edge, memory_format=torch.contiguous_format),
    ),
)
def attend_back_destinations(indptr: Tensor, indices: Tensor, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """Return `attend_backward_destinations`, with an empty tensor for no edge scores."""
    *scores, out, largest, sums, gradient = rest
    state = Attended(out, largest, sums)
    by_destination, by_edge = attend_backward_destinations(
        indptr, indices, x, _scores(*scores), state, gradient, **_on(trusted=True)
    )
    return by_destination, x.new_empty(0) if by_edge is None else by_edge


def _save_sum(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    indptr, indices, x, weight, divisors, *_ = inputs
    needs_x = weight is not None and ctx.needs_input_grad[3]
    ctx.num_src = x.shape[0]
    ctx.save_for_backward(x if needs_x else None, weight, indptr, indices, divisors)


@differentiable_once
def _sum_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, indptr, indices, divisors = ctx.saved_tensors
    if divisors is not None:
        gradient = gradient / divisors.view(-1, *(1 for _ in gradient.shape[1:]))
    by_x = by_weight = None
    if ctx.needs_input_grad[2]:
        by_x = sum_back(*transpose(indptr, indices, ctx.num_src), gradient, weight, ctx.num_src)
    if weight is not None and ctx.needs_input_grad[3]:
        by_weight = edge_products(indptr, indices, gradient, x, None, heads_of(weight))
    return None, None, by_x, by_weight, None, None, None


def _save_extreme(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    indptr, indices, x, weight, *_ = inputs
    needs_x = weight is not None and ctx.needs_input_grad[3]
    ctx.num_src = x.shape[0]
    ctx.save_for_backward(x if needs_x else None, weight, indptr, indices, output[1])


@differentiable_once
def _extreme_backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    x, weight, indptr, indices, winners = ctx.saved_tensors
    by_x = by_weight = None
    if ctx.needs_input_grad[2]:
        by_x = extreme_back(*transpose(indptr, indices, ctx.num_src), gradient, winners, weight, ctx.num_src)
    if weight is not None and ctx.needs_input_grad[3]:
        by_weight = edge_products(indptr, indices, gradient, x, winners, heads_of(weight))
    return None, None, by_x, by_weight, None, None, None


def _save_attend(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    indptr, indices, x, source, destination, edge, weight, slope, dropout, key, edge_ids, _ = inputs
    ctx.save_for_backward(indptr, indices, x, source, destination, edge, weight, key, edge_ids, *output)
    ctx.slope, ctx.dropout = slope, dropout


@differentiable_once
def _attend_backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    indptr, indices, x, source, destination, edge, weight, key, edge_ids, *state = ctx.saved_tensors
    given = x, source, destination, edge, weight, ctx.slope, ctx.dropout, key, edge_ids, *state, gradient
    by_x = by_source = by_destination = by_edge = None
    if any(ctx.needs_input_grad[2:4]):
        by_source, by_x = attend_back_sources(*transpose(indptr, indices, x.shape[0]), *given)
    if any(ctx.needs_input_grad[4:6]):
        by_destination, by_edge = attend_back_destinations(indptr, indices, *given)
        by_edge = None if edge is None else by_edge
    return None, None, by_x, by_source, by_destination, by_edge, None, None, None, None, None, None


_has_gradient(summed, _save_sum, _sum_backward)
_has_gradient(extreme, _save_extreme, _extreme_backward)
_has_gradient(attended, _save_attend, _attend_backward)


def attended_by(
    indptr: Tensor,
    indices: Tensor,
    x: Tensor,
    scores: AttentionScores,
    dropout: float = 0.0,
    key: Tensor | None = None,
    edge_ids: Tensor | None = None,
    *,
    trusted: bool,
) -> Tensor:
    """Return the sums of rows by attention; `key` is the key of dropout, of which there is none without it."""
    given = scores.source, scores.destination, scores.edge, scores.weight, float(scores.slope)
    out: Tensor = attended(indptr, indices, x, *given, float(dropout), key, edge_ids, trusted)[0]
    return out
