"""The shared tests of operations on a GPU: their arguments are moved there, and what comes of them back."""

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

DEVICE = "cuda"


@contextmanager
def moved_to_gpu(module: ModuleType) -> Iterator[None]:
    """Let the operations that a test module has imported run on the current GPU."""
    found = {
        name: value
        for name, value in vars(module).items()
        if getattr(ops, name, None) is value and (inspect.isfunction(value) or value in _CLASSES)
    }
    for name, value in found.items():
        setattr(module, name, _moved_class(value) if value in _CLASSES else _moved(value))
    try:
        yield
    finally:
        for name, value in found.items():
            setattr(module, name, value)


_CLASSES = (ops.BlockSampler, ops.Compactor, ops.SetIndex)


def _moved(function: Any) -> Any:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        there = _There()
        found = function(*map(there.copy, arguments), **{name: there.copy(one) for name, one in named.items()})
        there.write_back()
        return there.taken_back(found)

    return call


def _moved_class(made: Any) -> Any:
    methods = {name: _moved(value) for name, value in vars(made).items() if inspect.isfunction(value)}
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
