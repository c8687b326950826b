"""Channels of users' classes: what their methods return is checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import Tensor

from headrace.ops.errors import InputError, PlanError
from headrace.pipeline.data.arrays import describe, whole_number

_Method = Callable[..., Any]


def check_methods(cls: type) -> None:
    """Let methods of a class of channels, those that it defines itself, check what they return."""
    for name, checked in (("_all_to_all", _exchanging), ("_all_reduce_sum", _summing), ("channel", _further)):
        if name in vars(cls):
            setattr(cls, name, checked(vars(cls)[name]))


def check_ranks(comm: Any, caller: str) -> None:
    """Refuse a channel without a number among the ranks.

    Raises
    ------
    InputError
        Naming the function that it was passed to.
    """
    for name in ("rank", "world_size"):
        if not hasattr(comm, name):
            raise InputError(
                f"{caller}: expected {type(comm).__name__} to have its {name}, got none; call super().__init__(rank, "
                "world_size)"
            )
    num_ranks = whole_number(comm.world_size, f"{caller}: comm.world_size", 1, InputError)
    whole_number(comm.rank, f"{caller}: comm.rank", 0, InputError, num_ranks - 1)


def _exchanging(method: _Method) -> _Method:
    @wraps(method)
    def all_to_all(
        comm: Any,
        sent: Tensor,
        received: Tensor,
        send_counts: list[int],
        receive_counts: list[int],
        meanwhile: Callable[[], None],
    ) -> None:
        num_calls = 0

        def counted() -> None:
            nonlocal num_calls
            num_calls += 1
            meanwhile()

        method(comm, sent, received, send_counts, receive_counts, counted)
        if num_calls != 1:
            raise PlanError(
                f"expected {type(comm).__name__}._all_to_all to call meanwhile once, by which rows of this rank are "
                f"read, got {num_calls} calls; call meanwhile()"
            )

    return all_to_all


def _summing(method: _Method) -> _Method:
    @wraps(method)
    def all_reduce_sum(comm: Any, values: Tensor) -> Tensor:
        summed = method(comm, values)
        if (
            not isinstance(summed, Tensor)
            or summed.shape != values.shape
            or summed.dtype != values.dtype
            or summed.device != values.device
        ):
            raise PlanError(
                f"expected {type(comm).__name__}._all_reduce_sum to return the sum over ranks as {describe(values)}, "
                f"got {describe(summed)}; return a tensor like the one that it is given"
            )
        return summed

    return all_reduce_sum


def _further(method: _Method) -> _Method:
    @wraps(method)
    def channel(comm: Any) -> Any:
        another = method(comm)
        ranks = [getattr(one, "rank", None) for one in (comm, another)]
        sizes = [getattr(one, "world_size", None) for one in (comm, another)]
        if not hasattr(another, "all_to_all") or ranks[0] != ranks[1] or sizes[0] != sizes[1]:
            raise PlanError(
                f"expected {type(comm).__name__}.channel to return another hr.Comm of rank {ranks[0]} of {sizes[0]}, "
                f"got {type(another).__name__} of rank {ranks[1]} of {sizes[1]}; return a channel of the same ranks"
            )
        return another

    return channel
