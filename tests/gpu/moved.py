"""The shared tests of operations on a GPU: their arguments are moved there, and what comes of them back."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import torch

from headrace import ops


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
        there = [_to(one, "cuda") for one in arguments]
        return _to(function(*there, **{name: _to(one, "cuda") for name, one in named.items()}), "cpu")

    return call


def _moved_class(made: Any) -> Any:
    methods = {name: _moved(value) for name, value in vars(made).items() if inspect.isfunction(value)}
    return type(made.__name__, (made,), methods)


def _to(value: Any, device: str) -> Any:
    if isinstance(value, np.ndarray) and device != "cpu":
        return torch.from_numpy(value).to(device)
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_to(one, device) for one in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_to(one, device) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        tensors = {name: one for name, one in fields.items() if isinstance(one, torch.Tensor)}
        moved: Any = {name: one.to(device) for name, one in tensors.items()}
        return dataclasses.replace(value, **moved) if moved else value
    return value
