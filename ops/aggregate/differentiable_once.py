"""Backward passes that have no derivative of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch

from headrace.ops.errors import InputError

Gradients = TypeVar("Gradients")


def differentiable_once(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Return a backward pass that refuses ``create_graph=True``.

    Torch's ``once_differentiable`` refuses only where the gradient that comes in has one itself: elsewhere it takes the
    result for a constant, although it depends on the inputs of the forward pass.

    Raises
    ------
    InputError
        When the backward pass is called with ``create_graph=True``.
    """

    @wraps(backward)
    def run(*arguments: Any) -> Gradients:
        if torch.is_grad_enabled():  # in a backward pass, with create_graph=True alone
            raise InputError(
                "backward: expected create_graph=False through aggregations of headrace, got True; second derivatives "
                "are not supported: compute them with layers that write messages, such as PyG's"
            )
        return backward(*arguments)

    return run
