"""Numbers that were computed from the number of rows, which ranks have others of: they may be sizes alone."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

#: Files of torch by which `len` of a tensor comes to what watches it.
_IN_BETWEEN = f"torch{os.sep}_tensor.py", f"torch{os.sep}overrides.py"


class Count(int):
    """A number of rows, or a whole number that was computed from it."""


class Share(float):
    """A fraction that was computed from a number of rows."""


def _counted(name: str) -> Callable[..., Any]:
    def method(self: Count, *others: Any) -> Any:
        out = getattr(int, name)(int(self), *others)
        if out is NotImplemented and isinstance(others[0], float):
            out = getattr(float, name)(float(self), *others)
        return Count(out) if type(out) is int else Share(out) if type(out) is float else out

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    for _method in (f"__{_name}__", f"__r{_name}__"):
        setattr(Count, _method, _counted(_method))


def usual_numbers(sizes: Iterable[int]) -> set[float]:
    """Return what is usually computed of numbers of rows: `len` and floating point make numbers of Python of them."""
    bases = {base for size in sizes for base in (size, math.sqrt(size), math.log(size))}
    return {*bases, *(1 / base for base in bases if base), *(size + more for size in sizes for more in (-1, 1))}


def is_asked_by_user() -> bool:
    """Whether the operation that is watched was called by other functions than those of torch, which ask often."""
    frame = sys._getframe(3)  # noqa: SLF001
    while frame.f_back and frame.f_code.co_filename.endswith(
        (f"torch{os.sep}_tensor.py", f"torch{os.sep}overrides.py")
    ):
        frame = frame.f_back
    return "/torch/" not in frame.f_code.co_filename.replace("\\", "/")
