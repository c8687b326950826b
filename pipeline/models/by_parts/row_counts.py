"""Numbers that were computed from the number of rows, which ranks have others of: they may be sizes alone."""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from numbers import Real
from types import FrameType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from headrace.pipeline.models.by_parts.row_places import Place
from headrace.pipeline.models.by_parts.users_frames import OURS, TORCH, users_frames

#: Numbers of rows that are too usual to know them by their value.
_FEW = 16

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


def is_number(value: object) -> bool:
    """Whether something is a real number of Python or NumPy."""
    return isinstance(value, Real) and not isinstance(value, bool)


class RowNumbers:
    """The number of rows where a module knows it, and numbers that it may have computed of it.

    Parameters
    ----------
    module
        The module.

    Attributes
    ----------
    elsewhere
        What the module has from elsewhere.
    is_sure
        Whether counts are known by their values: a number of few rows may be any number.
    """

    def __init__(self, module: nn.Module) -> None:
        self.elsewhere = Elsewhere(module)
        self.is_sure = True
        self._is_suspicious = False
        self._few: set[int] = set()
        self._counts: set[float] = set()
        self._widths = {size for one in (*module.parameters(), *module.buffers()) for size in one.shape}

    def suspect(self, counts: Iterable[int]) -> None:
        """Take any number, but small ones, for one of rows unless it is known from elsewhere; `counts` are some."""
        self._is_suspicious = True
        self._few = {one for one in counts if one < _FEW}

    def ask(self, value: Tensor, place: Place | None) -> None:
        """Note that a function of a user knows the sizes of a tensor, with rows at a place if it has some."""
        self._widths |= {size for dim, size in enumerate(value.shape) if place is None or dim != place.dim}
        if place is None or not _is_asked_by_user():
            return
        if place.number > _FEW:
            self._counts |= _usual_numbers({value.shape[place.dim], place.number})
        else:
            self.is_sure = False

    def size(self, name: str, value: Tensor, place: Place | None, out: Any) -> Any:
        """Return sizes of a tensor, `out`, those of rows as counts."""
        self.ask(value, place)
        if place is None:
            return out
        if name in ("numel", "nelement"):
            return Count(out)
        size = value.shape[place.dim]
        if isinstance(out, int):  # of one dimension; len() makes a number of Python of it in any case
            return Count(out) if out == size else out
        return torch.Size(Count(one) if dim == place.dim else one for dim, one in enumerate(out))

    def count_in(self, values: Any, defaults: Iterable[Any] = ()) -> str:
        """Return the number among arguments that depends on how many rows there are, in words; "" if none does."""
        for one in tree_leaves(values):
            if isinstance(one, Count | Share):
                return "the number of rows"
            if not is_number(one) or one in defaults:  # of the operation
                continue
            is_count, is_small = float(one) in self._counts, float(one).is_integer() and abs(one) < _FEW
            if not (is_count or self._counts or self._is_suspicious):
                continue
            # A constant may be a count by chance, as 0.2 is one over the root of 25 rows: another batch tells.
            has = self.elsewhere
            is_known = has.is_constant(one) if is_count else has.has_number(one, self._widths)
            if is_known or (self._is_suspicious and is_small):
                self.is_sure &= not is_count and one not in self._few
            else:
                return "the number of rows" if is_count else f"{one:.6g}, which may depend on the number of rows"
        return ""


def _usual_numbers(sizes: Iterable[int]) -> set[float]:
    """Return the numbers that are usually computed of numbers of rows."""
    bases = {base for size in sizes for base in (size, math.sqrt(size), math.log(size))}
    return {*bases, *(1 / base for base in bases if base), *(size + more for size in sizes for more in (-1, 1))}


class Elsewhere:
    """Numbers and tensors that a module computes with and that come neither from rows nor from how many there are.

    `len`, `int` and products with floating point make plain numbers of Python of counts, and operations that cannot be
    seen plain tensors of rows. So these count for nothing else unless they are known: attributes as they were before
    the call, constants and defaults of the functions that run, what these have from modules and closures; sizes of
    other dimensions; and roots, reciprocals, products and quotients of such numbers.

    Parameters
    ----------
    module
        The module.
    """

    def __init__(self, module: nn.Module) -> None:
        self._attributes = [leaf for one in module.modules() for leaf in _leaves(vars(one), 3)]

    def has_tensor(self, tensor: Tensor) -> bool:
        """Whether a tensor, or one that it is a view of, was there before."""
        memory = tensor.untyped_storage().data_ptr()
        return any(
            isinstance(one, Tensor) and one.layout == torch.strided and one.untyped_storage().data_ptr() == memory
            for leaves in (self._attributes, *map(_leaves_of, users_frames()))
            for one in leaves
        )

    def is_constant(self, number: Any) -> bool:
        """Whether a number is one of the attributes, or of the constants of the functions that run."""
        leaves = (self._attributes, *map(_leaves_of, users_frames()))
        return any(is_number(one) and float(one) == float(number) for some in leaves for one in some)

    def has_number(self, number: Any, sizes: Iterable[int]) -> bool:
        """Whether a number is a known one; `sizes` are those of dimensions that are not of rows."""
        number = abs(float(number))
        if number in (0.0, 1.0, 2.0, math.inf) or math.isnan(number):
            return True
        known = {abs(float(one)) for one in (*self._attributes, *sizes) if is_number(one)} - {0.0}
        constants = {abs(float(one)) for frame in users_frames() for one in _leaves_of(frame) if is_number(one)} - {0.0}
        pairs = {one for a, b in product(known, repeat=2) for one in (a * b, a / b)}
        of_one = {one for base in known | constants | pairs for one in _functions(base)}
        return any(math.isclose(number, abs(one), rel_tol=1e-12) for one in known | constants | pairs | of_one)


def _functions(base: float) -> tuple[float, ...]:
    root = math.sqrt(base)
    return 1 / base, 1 - base, root, 1 / root, math.log(base), base * base


def _leaves(value: Any, depth: int) -> Iterator[Any]:
    """Yield numbers and tensors in something, and in the containers and objects that it holds."""
    if isinstance(value, Tensor) or is_number(value):
        yield value
    elif isinstance(value, str | type) or not depth:
        return
    elif isinstance(value, nn.Module):
        yield from itertools.chain(value.parameters(), value.buffers())
    elif isinstance(value, Mapping | tuple | list | set | frozenset):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(one, depth - 1)
    elif isinstance(value, FunctionType):
        yield from _leaves((value.__defaults__, value.__kwdefaults__), 3)
    else:
        yield from _leaves(getattr(value, "__dict__", {}), depth - 1)


def _leaves_of(frame: FrameType) -> Iterator[Any]:
    """Yield numbers and tensors in the code of a function, and that it has from elsewhere than its caller."""
    code = frame.f_code
    running = {name for one in users_frames() for name in one.f_code.co_cellvars}
    names = [name for name in code.co_freevars if name not in running]
    owner = frame.f_locals.get(code.co_varnames[0]) if code.co_varnames else None
    function = getattr(type(owner), code.co_name, None)
    yield from _leaves(
        (code.co_consts, frame.f_globals.get(code.co_name), getattr(function, "__wrapped__", function)), 3
    )
    yield from _leaves([frame.f_globals.get(name) for name in code.co_names], 3)
    yield from _leaves([frame.f_locals.get(name) for name in names], 3)


def _is_asked_by_user() -> bool:
    """Whether the operation that is watched was called by other functions than those of torch, which ask often."""
    frame = sys._getframe(1)  # noqa: SLF001
    while frame.f_back and (
        frame.f_code.co_filename.startswith(OURS) or frame.f_code.co_filename.endswith(_IN_BETWEEN)
    ):
        frame = frame.f_back
    return not frame.f_code.co_filename.startswith(TORCH)


def tensors_within(value: Any) -> list[Tensor]:
    """Return the tensors in something, and in the containers and objects that it holds."""
    return [one for one in _leaves(value, 5) if isinstance(one, Tensor)]
