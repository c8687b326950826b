"""The gradients of a function of messages over edges that come by parts: each part is computed anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from headrace.ops.aggregate.differentiable_once import differentiable_once
from headrace.ops.errors import InputError
from headrace.pipeline.models.by_parts.captured import captured_leaves, number_before
from headrace.pipeline.models.by_parts.parts import GradientOf, Inputs, Part, Passes, Tables, add_to
from headrace.pipeline.models.by_parts.statistics import Share, Statistic


class Call(Protocol):
    """What is needed of a call of a function of messages; `headrace.pipeline.models.by_parts.staged.Staged` is one."""

    tables: Tables
    targets: Tables
    passes: Passes
    name: str
    levels: list[list[Statistic]]
    inputs: tuple[int, ...]
    rows_of_last: list[Tensor]
    result: Tensor

    def known(self, below: int | None = None) -> list[Tensor]:
        """Return the reductions of the levels below one, or of all."""

    def what(self, level: int) -> str:
        """Say what rows come for."""

    def run_last(self, aliases: dict[int, Tensor], known: Sequence[Tensor]) -> tuple[list[Share], Tensor | None]:
        """Run the function for one edge that counts for nothing."""

    def run(
        self, part: Part, inputs: Inputs, aliases: dict[int, Tensor], most: int
    ) -> tuple[list[Share], Tensor | None]:
        """Run the function for the edges of a part, until a number of further reductions are there."""


class Backward(torch.autograd.Function):
    """The result of a call that was computed without a graph."""

    @staticmethod
    def forward(ctx: Any, call: Call, *inputs: Tensor) -> Tensor:
        """Return the result."""
        out = call.result
        del call.result
        ctx.call = call
        ctx.save_for_backward(*inputs)
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Compute each part anew, from the last level to the first."""
        return (None, *_Gradients(ctx.call, ctx.saved_tensors).of(gradients[0]))


class _Gradients:
    """The gradients of one call, as they add up.

    Parameters
    ----------
    call
        The call.
    inputs
        The tensors that gradients are for.
    """

    def __init__(self, call: Call, inputs: Sequence[Tensor]) -> None:
        self._call, self._inputs = call, inputs
        self._totals: list[Tensor | None] = [None] * len(inputs)
        self._aliases = [one.detach().requires_grad_() for one in inputs]
        self._by_id = dict(zip(call.inputs, self._aliases, strict=True))
        self._known = [one.detach().requires_grad_() if one.is_floating_point() else one for one in call.known()]
        self._of_known: list[Tensor | None] = [None] * len(self._known)
        self._rows = call.rows_of_last
        places = {number: place for place, number in enumerate(call.inputs)}
        self._tables, self._targets = ([places.get(id(one)) for one in of] for of in (call.tables, call.targets))

    def of(self, gradient: Tensor) -> list[Tensor]:
        """Return the gradients of all inputs."""
        call = self._call
        began = number_before()
        with torch.enable_grad():
            _, out = call.run_last(self._by_id, self._known)
        assert out is not None  # it was in the forward direction
        self._check_known([out], self._known, began)
        if out.requires_grad:
            add_to(self._of_known, self._pull([out], [gradient], self._known))
        del out
        call.passes.begin_backward(*([place is not None for place in of] for of in (self._tables, self._targets)))
        for number in reversed(range(len(call.levels))):
            self._level(number)
        for places, gradients in zip((self._tables, self._targets), call.passes.end_backward(), strict=True):
            for place, total in zip(places, gradients, strict=False):
                if place is not None and total is not None:
                    before = self._totals[place]
                    self._totals[place] = total if before is None else before + total
        # Zeros, where this rank has no edge that a tensor is used for.
        return [
            torch.zeros_like(one) if total is None else total
            for one, total in zip(self._inputs, self._totals, strict=True)
        ]

    def _level(self, number: int) -> None:
        call, level = self._call, self._call.levels[number]
        first = sum(len(one) for one in call.levels[:number])
        known, gradients = self._known[:first], self._of_known[first : first + len(level)]
        began = number_before()
        with torch.enable_grad():  # the same is asked on all ranks, whatever edges they have
            shares, _ = call.run_last(self._by_id, known)
        self._check_known([one.source for one in shares], known, began)
        asked = [
            place
            for place, (share, one) in enumerate(zip(shares, gradients, strict=True))
            if one is not None and share.source.requires_grad
        ]
        if not asked:
            return
        expected = self._expect([shares[place].source for place in asked], known)
        del shares

        def visit(part: Part, inputs: Inputs, gradient_of: GradientOf) -> list[list[Tensor | None]]:
            leaves = Inputs(
                _leaves(inputs.sources, self._tables),
                _leaves(inputs.destinations, self._targets),
                [one.detach().requires_grad_(one.is_floating_point()) for one in inputs.known],
            )
            with torch.enable_grad():
                shares, _ = call.run(part, leaves, self._by_id, len(level))
            of_shares = [
                (shares[place].value, gradient_of(place, shares[place]))
                for place in asked
                if shares[place].value.requires_grad
            ]
            del shares
            if not of_shares:
                return [[None] * len(one) for one in leaves]
            values, by_values = zip(*of_shares, strict=True)
            found = iter(self._pull(values, by_values, [one for of in leaves for one in of]))
            return [[next(found) for _ in of] for of in leaves]

        add_to(
            self._of_known,
            call.passes.backward(
                self._known[:first],
                level,
                [one if place in asked else None for place, one in enumerate(gradients)],
                expected,
                visit,
                call.what(number),
            ),
        )

    def _check_known(self, values: Sequence[Tensor], known: Sequence[Tensor], began: int) -> None:
        """Refuse a tensor with gradients that was used where it is not seen, in a function of autograd of its own."""
        for value in values:
            if value.requires_grad and captured_leaves(value, [*self._aliases, *known, *self._rows], (), began):
                raise InputError(
                    f"{self._call.name}: expected parameters in operations of torch, got one in a function that torch "
                    "does not show, such as an autograd.Function of your own: its gradient would be lost"
                )

    def _expect(self, messages: Sequence[Tensor], known: Sequence[Tensor]) -> list[int]:
        """Return the reductions that messages depend on: they have gradients also where this rank has no edges."""
        ends = [(place, one) for place, one in enumerate(known) if one.requires_grad]
        nothing = [torch.zeros_like(one) for one in messages]
        found = torch.autograd.grad(messages, [one for _, one in ends], nothing, allow_unused=True) if ends else ()
        expected = [(place, one) for (place, one), part in zip(ends, found, strict=True) if part is not None]
        for place, one in expected:
            if self._of_known[place] is None:
                self._of_known[place] = torch.zeros_like(one)
        return [place for place, _ in expected]

    def _pull(
        self, values: Sequence[Tensor], gradients: Sequence[Tensor], leaves: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """Return gradients of values for some leaves, and add those for what else the function uses."""
        asked = [one for one in (*self._aliases, *leaves) if one.requires_grad]
        found = torch.autograd.grad(values, asked, gradients, allow_unused=True)
        parts = {id(one): part for one, part in zip(asked, found, strict=True)}
        add_to(self._totals, [parts.get(id(one)) for one in self._aliases])
        return [parts.get(id(one)) for one in leaves]


def _leaves(rows: Sequence[Tensor], places: Sequence[int | None]) -> list[Tensor]:
    """Return rows cut off from others; with gradients where tables have a place among the inputs."""
    return [one.detach().requires_grad_(place is not None) for one, place in zip(rows, places, strict=False)]
