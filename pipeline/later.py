"""What modules of other wings define for classes below them, loaded at the first use.

A stage adds its verb to plans when its module is loaded, and what runs plans adds `loader`. A process needs few of
them, and the import of all takes longer than that of the rest of headrace. This module imports little, so that a table
can be filled before plans are there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.ops.names import load

#: For each verb the module of its stage.
VERBS: dict[str, str] = {}

#: The modules of sources.
SOURCES: list[str] = []

#: For each other method the module that adds it.
METHODS: dict[str, str] = {}

#: For each function that methods of values call, the module that defines it.
FUNCTIONS: dict[str, str] = {}


def later(name: str) -> Callable[..., Any]:
    """Return a function of a wing above."""
    function: Callable[..., Any] = getattr(load(FUNCTIONS[name]), name)
    return function


class LaterMethod:
    """Replaces a method in a class until its first look-up, which loads the module that defines the method."""

    def __init__(self, holder: type, name: str, module: str) -> None:
        self.holder = holder
        self.name = name
        self.module = module

    def __get__(self, instance: Any, owner: type) -> Any:
        load(self.module)
        if vars(self.holder)[self.name] is self:
            raise AttributeError(f"{self.module} is being imported and has not added {self.name!r} yet")
        return getattr(owner if instance is None else instance, self.name)


def add_methods(holder: type) -> None:
    """Add all methods of the tables to a class."""
    for name, module in {**VERBS, **METHODS}.items():
        setattr(holder, name, LaterMethod(holder, name, module))
