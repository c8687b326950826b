"""Arguments of torch's DataLoader: refused by name, where torch and PyG fail with errors of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import as_cpu_tensor, as_number, expected, whole_number
from headrace.pipeline.data.integers import as_int64

_SWITCHES = ("shuffle", "drop_last", "pin_memory", "persistent_workers", "in_order")

#: What a batch sampler decides, with the defaults of torch.
_DECIDED: dict[str, Any] = {"batch_size": 1, "shuffle": False, "sampler": None, "drop_last": False}

#: What only workers have, with the defaults of torch.
_OF_WORKERS: dict[str, Any] = {"prefetch_factor": None, "persistent_workers": False, "multiprocessing_context": None}


def checked_arguments(loader: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of torch's DataLoader, numbers and switches as Python has them.

    Raises
    ------
    InputError
        For one that is of another kind or out of range, and for those that exclude each other.
    """
    checked = dict(arguments)
    for name, least in (("batch_size", 1), ("num_workers", 0), ("prefetch_factor", 1)):
        value = checked.get(name)
        if name in checked and (value is not None or name == "num_workers"):
            checked[name] = as_length(value, f"{loader}: {name}", least)
    for name in _SWITCHES:
        if name in checked and (checked[name] is not None or name == "drop_last"):
            checked[name] = as_switch(checked[name], f"{loader}: {name}")
    if "timeout" in checked:
        timeout = as_number(checked["timeout"])
        if timeout is None or not timeout >= 0:
            raise InputError(f"{loader}: expected timeout to be a number of at least 0, got {checked['timeout']!r}")
    _check_objects(loader, checked)
    _check_together(loader, checked)
    return checked


def as_length(value: Any, name: str, least: int) -> int:
    """Return a number that Python takes as a length."""
    number = whole_number(value, name, least, InputError)
    if number > sys.maxsize:
        raise InputError(f"{expected(name)} to be at most {sys.maxsize}, got {number}")
    return number


def as_switch(value: Any, name: str) -> bool:
    """Return True or False, also of NumPy's and of 0 and 1."""
    if isinstance(value, bool | np.bool_ | int) and value in (0, 1):
        return bool(value)
    raise InputError(f"{expected(name)} to be True or False, got {value!r}")


def check_called(loader: str, **functions: Any) -> None:
    """Refuse functions that cannot be called; None is none."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise InputError(f"{loader}: expected {name} to be a function, got {function!r}; pass one, or None")


def check_path(loader: str, **paths: Any) -> None:
    """Refuse names of files and folders that are neither text nor a path; None is none."""
    for name, path in paths.items():
        if path is not None and not isinstance(path, str | os.PathLike):
            raise InputError(f"{loader}: expected {name} to be a path, got {path!r}; pass text or a pathlib.Path")


def _check_objects(loader: str, arguments: Mapping[str, Any]) -> None:
    generator = arguments.get("generator")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise InputError(f"{loader}: expected generator to be a torch.Generator, got {generator!r}; seed= is a number")
    for name in ("sampler", "batch_sampler"):
        sampler = arguments.get(name)
        if sampler is not None and (isinstance(sampler, str | Mapping) or not hasattr(sampler, "__iter__")):
            raise InputError(
                f"{loader}: expected {name} to yield positions of items, got {sampler!r}; pass a sampler of torch or a "
                "list"
            )
    check_called(loader, worker_init_fn=arguments.get("worker_init_fn"))


def _check_together(loader: str, arguments: Mapping[str, Any]) -> None:
    def differing(defaults: Mapping[str, Any]) -> list[str]:
        names = [name for name in defaults if arguments.get(name) is not None]
        return [name for name in names if arguments[name] is not defaults[name] and arguments[name] != defaults[name]]

    if arguments.get("batch_sampler") is not None and (both := differing(_DECIDED)):
        raise InputError(
            f"{loader}: expected batch_sampler or {both[0]}, got both; the batch sampler names the items of each batch"
        )
    if arguments.get("sampler") is not None and arguments.get("shuffle"):
        raise InputError(f"{loader}: expected sampler or shuffle, got both; the sampler decides the order")
    if not arguments.get("num_workers") and (of_workers := differing(_OF_WORKERS)):
        raise InputError(
            f"{loader}: expected num_workers of at least 1 beside {of_workers[0]}, got 0; pass num_workers=1, or leave "
            f"{of_workers[0]} out"
        )


def as_positions(named: Any, loader: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the positions that a sampler names for a batch.

    Raises
    ------
    InputError
        If they are no integers.
    """
    what = f"{loader}: positions of items that the sampler names"
    positions = as_cpu_tensor(named, what)
    return as_int64(positions if positions.numel() else positions.long(), what).reshape(-1).numpy()
