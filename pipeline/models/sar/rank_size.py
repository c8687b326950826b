"""Numbers of nodes and edges that a rank has some of: sizes of its tensors, but not numbers to compute with."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from headrace.ops.errors import InputError
from headrace.pipeline.models.by_parts.row_rules import users_line


class RankSize:
    """How many nodes or edges a rank has, which may be a size, or be compared.

    It is no `int`: products with floating point would take the number out of it without a word. Torch takes it for a
    size, and for nothing else.

    Parameters
    ----------
    number
        The number.
    what
        What is counted.
    refusal
        Returns the error for a problem of the layer that computes with it.
    """

    def __init__(self, number: int, what: str, refusal: Callable[[str], InputError]) -> None:
        self._number, self._what, self._refusal = number, what, refusal

    def __index__(self) -> int:
        return self._number

    def __bool__(self) -> bool:
        return self._number > 0

    def __hash__(self) -> int:
        return hash(self._number)

    def __repr__(self) -> str:
        return str(self._number)

    def __format__(self, spec: str) -> str:
        return format(self._number, spec)

    def refused(self, name: str) -> InputError:
        """Return the error for an operation that computes with the number."""
        return self._refusal(f"computes with the number of {self._what} of one rank, in {name} {users_line()}")


def _of_numbers(name: str) -> Callable[..., Any]:
    method = getattr(int, name)

    def call(self: RankSize, *others: Any) -> Any:
        numbers = [operator.index(one) for one in others if isinstance(one, int | RankSize)]
        if len(numbers) < len(others):
            raise self.refused(name)
        return RankSize(method(self._number, *numbers), self._what, self._refusal)

    return call


def _compared(name: str) -> Callable[[RankSize, Any], Any]:
    method = getattr(int, name)

    def call(self: RankSize, other: Any) -> Any:
        return method(self._number, operator.index(other)) if isinstance(other, int | RankSize) else NotImplemented

    return call


def _refused(name: str) -> Callable[..., Any]:
    def call(self: RankSize, *_: Any) -> Any:
        raise self.refused(name)

    return call


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(RankSize, f"__{_name}__", _of_numbers(f"__{_name}__"))
    setattr(RankSize, f"__r{_name}__", _of_numbers(f"__r{_name}__"))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(RankSize, f"__{_name}__", _compared(f"__{_name}__"))
for _name in ("int", "float", "complex", "truediv", "rtruediv", "pow", "rpow", "neg", "round", "abs"):
    setattr(RankSize, f"__{_name}__", _refused(f"__{_name}__"))
