"""Locks of Python, and values that are computed once, which a forked process can go on with."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class ProcessLock:
    """A lock that is open in a forked process, whoever holds it in the parent: that thread may have stayed there.

    Parameters
    ----------
    make : callable
        Makes the lock of a process: ``threading.Lock`` or ``threading.RLock``.
    """

    def __init__(self, make: Callable[[], Any] = threading.Lock) -> None:
        self._make = make
        self._of_process: dict[int, Any] = {}

    def held(self) -> Any:
        """Return the lock of this process, for ``with``."""
        # In one step, as two threads may come first at once.
        lock = self._of_process.get(os.getpid())
        return self._of_process.setdefault(os.getpid(), self._make()) if lock is None else lock


class cached_property(Generic[Value]):  # noqa: N801 - it stands where that of functools would
    """A property that is computed once for each object, without a lock, as functools has it from Python 3.12 on.

    Before, all objects of a class share a lock for as long as one of them computes, and a forked process keeps waiting
    for it. Two threads that ask at once may both compute; all get the value that is there first.

    Parameters
    ----------
    compute : callable
        Returns the value of an object.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.func = compute
        self.__doc__ = compute.__doc__
        self._name = compute.__name__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> cached_property[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> cached_property[Value] | Value:
        """Return the value, from now on an attribute of the object."""
        if instance is None:
            return self
        value = self.func(instance)
        kept: Value = instance.__dict__.setdefault(self._name, value)
        return kept
