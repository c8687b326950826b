"""Which tensors with gradients a function has used beside its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError


def number_before() -> int:
    """Return a number below those of all nodes of autograd that this thread makes from now on."""
    with torch.enable_grad():
        probe = torch.zeros((), requires_grad=True, device="cpu") * 1
    assert probe.grad_fn is not None  # it was made with gradients on
    number: int = probe.grad_fn._sequence_nr()  # noqa: SLF001 - no public function returns it
    return number


def captured_leaves(
    result: Tensor, inputs: Iterable[Tensor | None], known: Sequence[Tensor], began: int
) -> list[Tensor]:
    """Return the leaves, parameters for example, that a result depends on beside inputs and what is known.

    Parameters
    ----------
    result
        What a function returned, with its graph.
    inputs
        The leaves that were its arguments.
    known
        Tensors that it is known to use: the search stops there.
    began
        What `number_before` returned before the function was called.

    Raises
    ------
    InputError
        If it depends on a tensor that was computed before, and is not known: its gradient would be lost.
    """
    ends = {(one.grad_fn, one.output_nr) for one in known if one.grad_fn is not None}
    skipped = {id(one) for one in (*inputs, *known)}
    found: dict[int, Tensor] = {}
    if result.is_leaf and result.requires_grad and id(result) not in skipped:
        return [result]
    ahead: list[Any] = [(result.grad_fn, result.output_nr)]
    seen: set[Any] = set()
    while ahead:
        node, number = ahead.pop()
        if node is None or (node, number) in ends or node in seen:
            continue
        variable = getattr(node, "variable", None)
        if variable is not None:  # where gradients of a leaf add up
            if id(variable) not in skipped:
                found[id(variable)] = variable
            continue
        if node._sequence_nr() <= began:  # noqa: SLF001
            raise InputError(
                f"update_all: the message uses a tensor that was computed outside of it, by {node.name()}, and its "
                "gradient would be lost; pass it in: rows as destination= or edge=, all else in parameters=[...]"
            )
        seen.add(node)
        ahead.extend(node.next_functions)
    return list(found.values())


def check_independent(used: Sequence[Tensor]) -> None:
    """Refuse tensors of which one was computed from another.

    The gradient of the other one would have a part that comes through the first, and this part comes once more where
    the gradient of the first goes on to what it was computed from.

    Raises
    ------
    InputError
        With what it was computed by.
    """
    if len(used) < 2:
        return
    leaves = {id(one) for one in used if one.is_leaf}
    ends = {(one.grad_fn, one.output_nr) for one in used if one.grad_fn is not None}
    seen: set[Any] = set()
    for one in used:
        ahead: list[Any] = [*one.grad_fn.next_functions] if one.grad_fn is not None else []
        while ahead:
            node, number = ahead.pop()
            if node is None:
                continue
            if (node, number) in ends or id(getattr(node, "variable", None)) in leaves:
                raise InputError(
                    "update_all: expected parameters that do not depend on each other, got one that was computed, by "
                    f"{one.grad_fn and one.grad_fn.name()}, from another one that the message uses or parameters= "
                    "names; compute it inside of the message and do not name it, or do not use and name the other one"
                )
            if node not in seen:
                seen.add(node)
                ahead.extend(node.next_functions)
