"""Messages by functions of one's own: computed shard by shard, and once more in the backward direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from headrace.ops import Extremes, InputError, spmm, spmm_extreme
from headrace.ops.aggregate.differentiable_once import differentiable_once
from headrace.ops.aggregate.precision import widened
from headrace.pipeline.models.by_parts.captured import captured_leaves, check_independent, number_before
from headrace.pipeline.models.by_parts.drawing import drawing
from headrace.pipeline.models.by_parts.parts import Tables
from headrace.pipeline.models.by_parts.update_all import Message
from headrace.pipeline.models.sar.rounds import Rounds, described
from headrace.pipeline.models.sar.shard import Shard


@dataclass(frozen=True, eq=False)
class Update:
    """One aggregation of messages.

    Parameters
    ----------
    message
        The function.
    reduce
        How messages are reduced.
    divisors: int64[num_dst]
        What means are divided by.
    rounds
        The shards.
    casting
        Lets autocast do what it did when messages were asked for: backward they are computed behind it.
    states
        The state of torch's generators before the message of each shard, by its owner.
    """

    message: Message
    reduce: Literal["sum", "mean", "max", "min"]
    divisors: Tensor
    rounds: Rounds
    casting: Callable[[], AbstractContextManager[Any]]
    states: dict[int, list[Tensor]] = field(default_factory=dict)

    def call(self, shard: Shard, rows: Tensor, destination: Tensor | None, edge: Tensor | None) -> Tensor:
        """Return the messages of a shard; `edge` has the rows of its edges alone."""
        at_edges = None if destination is None else destination.index_select(0, shard.destinations)
        with self.casting():
            out = self.message(rows.index_select(0, shard.indices), at_edges, edge)
            out = widened(out)
        if not isinstance(out, Tensor) or out.shape[:1] != shard.indices.shape:
            came = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise InputError(f"update_all: expected messages of [{len(shard.indices)}, ...], one per edge, got {came}")
        return out

    def find_parameters(
        self, x: Tensor, destination: Tensor | None, edge: Tensor | None, declared: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the tensors with gradients that the function uses: those declared, and leaves that a call shows.

        Raises
        ------
        InputError
            If one was computed outside of the function without being declared, or from another one.
        """
        shard = _first_edge(self.rounds.own)
        edge = None if edge is None else edge.index_select(0, shard.positions)
        leaves = _leaves(x, destination, edge)
        began = number_before()
        with torch.enable_grad(), drawing({}, 0, restore=True):
            out = self.call(shard, *leaves)
        used = [*declared, *captured_leaves(out, leaves, declared, began)]
        check_independent(used)
        return used

    def divided(self, values: Tensor) -> Tensor:
        """Return sums, or their gradients, divided for means."""
        if self.reduce != "mean":
            return values
        return values / self.divisors.to(values.dtype).view(-1, *(1 for _ in values.shape[1:]))


class UpdateAll(torch.autograd.Function):
    """The reduced messages of all shards."""

    @staticmethod
    def forward(
        ctx: Any, update: Update, x: Tensor, destination: Tensor | None, edge: Tensor | None, *parameters: Tensor
    ) -> Tensor:
        """Compute and reduce the messages of one shard after the other, without a graph."""
        state: list[Extremes | Tensor] = []

        def visit(shard: Shard, rows: Tables) -> None:
            at_edges = None if edge is None else edge.index_select(0, shard.positions)
            with torch.no_grad(), drawing(update.states, shard.owner):
                messages = update.call(shard, rows[0], destination, at_edges)
            _reduce(update, shard, messages.contiguous(), state)

        ctx.what = described(
            f"messages, reduced to the {update.reduce}",
            ("x", "destination", "edge", f"{sum(ctx.needs_input_grad[4:])} parameters"),
            (*ctx.needs_input_grad[1:4], any(ctx.needs_input_grad[4:])),
        )
        kept = update.rounds.forward((x,), visit, ctx.what, keep=any(ctx.needs_input_grad))
        out, winners = state[0] if isinstance(state[0], Extremes) else (state[0], None)
        ctx.update, ctx.num_parameters = update, len(parameters)
        ctx.save_for_backward(x, destination, edge, winners, *parameters, *kept)
        return update.divided(out)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the messages anew, with a graph that lives as long as one shard."""
        update, (x, destination, edge, winners, *rest) = ctx.update, ctx.saved_tensors
        parameters, kept = rest[: ctx.num_parameters], tuple(rest[ctx.num_parameters :])
        gradient = update.divided(gradients[0])
        inputs = (x, destination, edge, *parameters)
        totals = [
            torch.zeros_like(one) if needed else None
            for one, needed in zip(inputs, ctx.needs_input_grad[1:], strict=True)
        ]

        def visit(shard: Shard, rows: Tables | None, into: Tables | None) -> None:
            assert rows is not None  # they were asked for
            at_edges = None if edge is None else edge.index_select(0, shard.positions)
            leaves = _leaves(rows[0], destination, at_edges)
            began = number_before()
            with torch.enable_grad(), drawing(update.states, shard.owner):
                messages = update.call(shard, *leaves)
            if captured_leaves(messages, leaves, parameters, began):
                raise InputError(
                    "update_all: the message used a parameter that its first call had not, and the gradient of this "
                    "would be lost; name all that it may use: parameters=module.parameters()"
                )
            if not messages.requires_grad:
                return
            by_message = gradient.index_select(0, shard.destinations)
            if winners is not None:
                places = shard.positions.view(-1, *(1 for _ in winners.shape[1:]))
                by_message = by_message.where(winners.index_select(0, shard.destinations) == places, 0)
            ends = (None if into is None else into[0], *totals[1:])
            asked = [number for number, total in enumerate(ends) if total is not None]
            sources = (*leaves, *parameters)
            found = torch.autograd.grad(messages, [sources[number] for number in asked], by_message, allow_unused=True)
            for number, part in zip(asked, found, strict=True):
                total = ends[number]
                if part is None or total is None:
                    continue
                if number == EDGE:
                    total.index_copy_(0, shard.positions.long(), part)
                else:
                    total += part

        sums = None if totals[0] is None else (totals[0],)
        update.rounds.backward((x,), visit, sums, kept, ctx.what)
        return None, *totals


#: The place of rows of edges among the inputs.
EDGE = 2


def _leaves(
    rows: Tensor, destination: Tensor | None, edge: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the inputs cut off from what they were computed by."""

    def leaf(one: Tensor) -> Tensor:
        return one.detach().requires_grad_(one.is_floating_point())

    return leaf(rows), None if destination is None else leaf(destination), None if edge is None else leaf(edge)


def _reduce(update: Update, shard: Shard, messages: Tensor, state: list[Extremes | Tensor]) -> None:
    """Add the messages of a shard to what there is."""
    shape = update.rounds.num_dst, *messages.shape[1:]
    indices = torch.arange(len(messages), dtype=shard.indices.dtype, device=messages.device)
    threads = torch.get_num_threads()
    if update.reduce in ("sum", "mean"):
        if not state:
            state.append(messages.new_zeros(shape))
        assert isinstance(state[0], Tensor)
        spmm(shard.indptr, indices, messages, out=state[0], num_threads=threads)
        return
    largest = update.reduce == "max"
    if not state:
        values = messages.new_full(shape, -torch.inf if largest else torch.inf)
        state.append(Extremes(values, messages.new_full(shape, -1, dtype=torch.int64)))
    assert isinstance(state[0], Extremes)
    spmm_extreme(
        shard.indptr,
        indices,
        messages,
        largest=largest,
        positions=shard.positions,
        state=state[0],
        last=shard is update.rounds.last,
        num_threads=threads,
    )


def _first_edge(shard: Shard) -> Shard:
    """Return the first edge of a shard by itself, or none."""
    number = min(1, len(shard.indices))
    arrays = shard.indptr.clamp(max=number), shard.indices[:number], shard.positions[:number]
    return Shard(shard.owner, shard.num_sources, *arrays)
