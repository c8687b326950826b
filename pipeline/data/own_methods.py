"""Functions that users write and headrace calls: whether they take what they are called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import cache
from types import FunctionType
from typing import Any

from headrace.ops.errors import HeadraceError
from headrace.pipeline.data.arrays import expected

_BY_NAME = inspect.Parameter.KEYWORD_ONLY
_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_ABSENT = object()


def check_takes(function: Any, name: str, error: type[HeadraceError], *by_position: str, by_name: str = "") -> None:
    """Refuse what is no function of some arguments.

    Parameters
    ----------
    function
        What a user wrote.
    name
        How errors call it; ``"stage: argument"`` puts the stage first.
    error
        The class of the error.
    by_position, by_name
        The arguments that it is called with; names are separated by spaces.

    Raises
    ------
    error
        With what it takes.
    """
    names = by_name.split()
    wanted = ", ".join([*by_position, *["*"][: len(names)], *names])
    if not callable(function):
        raise error(f"{expected(name)} to be a function of ({wanted}), got {type(function).__name__}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of functions in C, which need not tell
        return
    try:
        signature.bind(*by_position, **dict.fromkeys(names))
    except TypeError as cause:
        raise error(
            f"{expected(name)} to take ({wanted}), got a function of {signature}, {_misfit(str(cause))}; give it "
            "these parameters"
        ) from cause


def _misfit(cause: str) -> str:
    """Say what Python says of a call that does not fit, of the function."""
    name = cause.rpartition("'")[0].rpartition("'")[2]
    if cause.startswith("too many"):
        return "which takes fewer"
    if cause.startswith("multiple"):
        return f"which has {name!r} in another place"
    return f"which {'needs' if cause.startswith('missing') else 'has no'} {name!r}"


def check_methods(
    value: object, base: type, name: str, error: type[HeadraceError], *, free: Collection[str] = ()
) -> None:
    """Refuse an object with a method that does not take what the method of this name in a base class takes.

    Parameters
    ----------
    value
        An object of a user's class, which need not be a subclass; methods that it lacks are not asked for.
    base
        The class of headrace.
    name
        How errors call the object.
    error
        The class of the error.
    free
        Methods that are not compared, and parameters that need not be there.

    Raises
    ------
    error
        Naming the method.
    """
    for method, (like, by_position, by_name) in _methods_of(base).items():
        if getattr(type(value), method, None) is like or method in free:
            continue
        own = getattr(value, method, _ABSENT)
        if own is _ABSENT:
            continue
        if not callable(own):
            parameters = ", ".join(["self", *by_position])
            raise error(
                f"{expected(f'{name}.{method}')} to be a method, got {type(own).__name__}; write def "
                f"{method}({parameters})"
            )
        names = " ".join(one for one in by_name if one not in free)
        check_takes(own, f"{name}.{method}", error, *by_position, by_name=names)


@cache
def _methods_of(base: type) -> dict[str, tuple[Callable[..., Any], list[str], list[str]]]:
    """Return the methods that subclasses write, with the names of their parameters: by position, and by name alone."""
    abstract = getattr(base, "__abstractmethods__", frozenset[str]())
    methods: dict[str, tuple[Callable[..., Any], list[str], list[str]]] = {}
    for name in dir(base):
        like = inspect.getattr_static(base, name)
        if not isinstance(like, FunctionType) or (name.startswith("_") and name not in abstract):
            continue
        parameters = [one for one in inspect.signature(like).parameters.values() if one.kind not in _ANY][1:]
        by_name = [one.name for one in parameters if one.kind is _BY_NAME]
        methods[name] = like, [one.name for one in parameters if one.kind is not _BY_NAME], by_name
    return methods
