"""Modes that see indices of tensors, which torch before 2.5 does not show them."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, handle_torch_function
from typing_extensions import Self

from headrace.ops.forks import ProcessLock

_ARE_SHOWN = tuple(int(one) for one in torch.__version__.split(".")[:2]) >= (2, 5)
_PLAIN = Tensor.__getitem__
_LOCK = ProcessLock()


class SeeingIndices(TorchFunctionMode):
    """A mode that sees ``rows[index]`` with any torch."""

    #: Modes that run, in all threads.
    number = 0

    def __enter__(self) -> Self:
        if not _ARE_SHOWN:
            with _LOCK.held():
                SeeingIndices.number += 1
                setattr(Tensor, "__getitem__", _getitem)  # noqa: B010 - mypy takes it for a method
        return super().__enter__()  # type: ignore[no-untyped-call, no-any-return] # torch has no types for it

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        if not _ARE_SHOWN:
            with _LOCK.held():
                SeeingIndices.number -= 1
                if not SeeingIndices.number:
                    del Tensor.__getitem__


@wraps(_PLAIN)
def _getitem(self: Tensor, index: Any) -> Any:
    is_plain = type(self) in (Tensor, torch.nn.Parameter)  # those of other types are shown
    if is_plain and _get_current_function_mode_stack():  # type: ignore[no-untyped-call]
        return handle_torch_function(_getitem, (self,), self, index)
    return _PLAIN(self, index)
