"""The shared tests of operations on a GPU: their arguments are moved there, and what comes of them back.

Calls with arrays that no GPU takes (with negative strides, for reading alone, of strings) stay on the CPU, and so do
those of objects that such a call has made.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import torch

from headrace import ops

#: Without a GPU, where `bench/gpu.sh` is tried, copies are in memory of the CPU.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def moved_to_gpu(module: ModuleType) -> Iterator[None]:
    """Let the operations that a test module has imported run on the current GPU."""
    found = {
        name: value
        for name, value in vars(module).items()
        if getattr(ops, name, None) is value and (inspect.isfunction(value) or value in _CLASSES)
    }
    staying = list[Any]()  # objects on the CPU
    for name, value in found.items():
        setattr(module, name, _moved_class(value, staying) if value in _CLASSES else _moved(value, staying))
    try:
        yield
    finally:
        for name, value in found.items():
            setattr(module, name, value)


_CLASSES = (ops.BlockSampler, ops.Compactor, ops.SetIndex)


def _moved(function: Any, staying: list[Any]) -> Any:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        of_one_that_stays = any(one is arguments[0] for one in staying) if arguments else False
        if of_one_that_stays or not all(map(_can_move, [*arguments, *named.values()])):
            if arguments and isinstance(arguments[0], _CLASSES) and not of_one_that_stays:
                staying.append(arguments[0])
            return function(*arguments, **named)
        there = _There()
        found = function(*map(there.copy, arguments), **{name: there.copy(one) for name, one in named.items()})
        there.write_back()
        return there.taken_back(found)

    return call


def _can_move(value: Any) -> bool:
    """Whether a GPU can have a copy of an array; of a sequence, of all in it."""
    if isinstance(value, (list, tuple)):
        return all(map(_can_move, value))
    if not isinstance(value, np.ndarray):
        return True
    is_plain = value.dtype.kind in "biufc" and value.dtype.isnative
    return is_plain and value.flags.writeable and all(stride >= 0 for stride in value.strides)


def _moved_class(made: Any, staying: list[Any]) -> Any:
    methods = {name: _moved(value, staying) for name, value in vars(made).items() if inspect.isfunction(value)}
    return type(made.__name__, (made,), methods)


class _There:
    """Copies of arguments on the GPU, of which some are written."""

    def __init__(self) -> None:
        self._copies: list[tuple[torch.Tensor, torch.Tensor, int]] = []

    def copy(self, value: Any) -> Any:
        """Return a copy for the GPU."""
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value).to(DEVICE)
        return _mapped(self._copy, value)

    def write_back(self) -> None:
        """Let arguments hold what was written to their copies."""
        with torch.no_grad():
            for here, there, version in self._copies:
                if there._version != version:
                    here.copy_(there)

    def taken_back(self, value: Any) -> Any:
        """Return a result on the CPU; an argument that is returned is the argument."""
        arguments = {id(there): here for here, there, _ in self._copies}
        return _mapped(lambda one: arguments.get(id(one), one.cpu()), value)

    def _copy(self, here: torch.Tensor) -> torch.Tensor:
        if not here.is_cpu:
            return here  # as it is to be refused
        for one, there, _ in self._copies:
            if one is here:  # given twice, as what is read and what is written
                return there
        there = here.to(DEVICE, copy=True)
        self._copies.append((here, there, there._version))
        return there


def _mapped(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """Apply a function to the tensors of a value, as deep as they are in tuples, lists and dataclasses."""
    inner = functools.partial(_mapped, function)
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(inner, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(inner, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        moved = {name: inner(one) for name, one in fields.items()}
        changed: Any = {name: one for name, one in moved.items() if one is not fields[name]}
        return dataclasses.replace(value, **changed) if changed else value
    return value
