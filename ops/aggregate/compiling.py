"""Whether torch.compile reads this code, or a graph repeats it, and the operations that compiled graphs take."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from types import ModuleType
from typing import Any, TypeVar

import torch

Method = TypeVar("Method", bound=Callable[..., Any])


def _never() -> bool:
    return False


#: Whether code is being compiled; torch before 2.4 has no operations to take, and compiles around ours.
is_compiling = torch.compiler.is_compiling if hasattr(torch.library, "register_autograd") else _never


#: Whether a step runs that a GPU may repeat without this code, with the same numbers (`hr.nn.CapturedStep`).
IS_CAPTURED: ContextVar[bool] = ContextVar("headrace_is_captured", default=False)


def operations() -> ModuleType:
    """Return the operations that are registered with torch; the first call registers them."""
    from headrace.ops.aggregate import registered

    return registered


def num_torch_threads() -> int | None:
    """Return the number of torch's threads; while code is compiled None, as operations ask for it when they run."""
    return None if is_compiling() else torch.get_num_threads()


def uncompiled(method: Method) -> Method:
    """Return a method that torch.compile calls as it is, and does not read; what is around it is compiled."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        # Importing the compiler takes seconds; who compiles has done so.
        run = torch.compiler.disable(method) if "torch._dynamo" in sys.modules else method  # type: ignore[no-untyped-call]
        return run(*args, **kwargs)

    return call  # type: ignore[return-value]
