"""Names that are loaded when they are asked for the first time, and what is said of names that do not exist."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import NoReturn, TypeVar

from headrace.ops.errors import InputError
from headrace.ops.text import printable

K = TypeVar("K")
T = TypeVar("T")


def load(module: str) -> ModuleType:
    """Import a module of headrace, without a collection of garbage meanwhile.

    What is imported stays. Its objects would bring about a full collection, which visits all of torch's: 70 ms, for
    nothing, several times the import itself. Who has switched collection off finds it off.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if collects:
            gc.enable()


def names_of(
    package: str, public: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that has the names of another module.

    Parameters
    ----------
    package
        Its full name.
    public
        The module with the names, in ``__all__``, imported when one is asked for. It may have ``instead_of``, which
        returns what to write in place of a name that does not exist, or None.
    modules
        Modules that are names of the package as well, with their full names; each is imported when it is asked for.
    """

    def value_of(name: str) -> object:
        if name in modules:
            return load(modules[name])
        if name.startswith("_") and name != "__all__":
            raise no_attribute(f"module {package!r}", name, list)
        module = load(public)
        values = {one: getattr(module, one) for one in ("__all__", *module.__all__)}
        vars(sys.modules[package]).update(values)
        if name not in values:
            advice = getattr(module, "instead_of", None)
            raise no_attribute(f"module {package!r}", name, lambda: [*module.__all__, *modules], advice)
        return values[name]

    def shown() -> list[str]:
        # What is public, and what Python itself looks for.
        dunder = [name for name in vars(sys.modules[package]) if name.startswith("__")]
        return sorted({*load(public).__all__, *modules, *dunder})

    return value_of, shown


def refusal(
    package: str, known: Iterable[str], advice: Callable[[str], str | None] | None = None
) -> Callable[[str], NoReturn]:
    """Return ``__getattr__`` of a package that has its names already: it refuses others; see `no_attribute`."""

    def refuse(name: str) -> NoReturn:
        raise no_attribute(f"module {package!r}", name, lambda: known, advice)

    return refuse


class UnknownNameError(AttributeError):
    """A name that does not exist. What to write in its place is looked up when the message is read.

    Python and its libraries ask for names to learn whether they exist: that costs nothing.
    """

    def __init__(self, message: str, advice: Callable[[], str]) -> None:
        super().__init__(message)
        self._advice = advice

    def __str__(self) -> str:
        return printable(f"{self.args[0]}; {self._advice()}")

    def __reduce__(self) -> tuple[type[AttributeError], tuple[str]]:
        return AttributeError, (str(self),)


def no_attribute(
    what: str, name: str, known: Callable[[], Iterable[str]], advice: Callable[[str], str | None] | None = None
) -> AttributeError:
    """Return the error for a name that does not exist, with the name that was probably meant.

    Parameters
    ----------
    what
        What was asked for it.
    name
        The name.
    known
        Returns the names that there are.
    advice
        Says what to write in place of a name, or None; by default the nearest name.
    """
    message = f"{what} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(message)
    return UnknownNameError(message, lambda: (advice(name) if advice is not None else None) or nearest(name, known()))


def no_attribute_of(
    value: object, what: str, name: str, advice: Callable[[str], str | None] | None = None
) -> AttributeError:
    """Return `no_attribute` for a value, which has the public names that `dir` lists."""
    return no_attribute(what, name, lambda: [one for one in dir(value) if not one.startswith("_")], advice)


class UnknownKeyError(InputError, KeyError):
    """A key that a mapping does not have, with the nearest one that it has, or with what fills an empty mapping."""

    def __init__(self, what: str, key: object, known: Iterable[object], filled_by: str = "") -> None:
        super().__init__(what, key, list(known), filled_by)

    def __str__(self) -> str:
        what, key, known, filled_by = self.args
        if filled_by and not known:
            return printable(f"{what}: expected a key, got {key!r} where there is none yet; {filled_by}")
        close = close_name(str(key), map(str, known))
        advice = f"; did you mean {close!r}?" if close else ""
        return printable(f"{what}: expected one of {', '.join(map(repr, known)) or 'none'}, got {key!r}{advice}")


class Named(dict[K, T]):
    """A dictionary that names its keys, and the nearest one, where it does not have one: all that users get are such.

    Parameters
    ----------
    what
        What errors call it.
    values
        What it holds.
    filled_by
        What to do where it is empty.
    """

    def __init__(self, what: str, values: Mapping[K, T], filled_by: str = "") -> None:
        super().__init__(values)
        self._what = what
        self._filled_by = filled_by

    def __missing__(self, key: K) -> T:
        raise UnknownKeyError(self._what, key, self, self._filled_by)

    def __reduce__(self) -> tuple[type[Named[K, T]], tuple[str, dict[K, T], str]]:
        return type(self), (self._what, dict(self), self._filled_by)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return what to do about a name that does not exist: the nearest one that does, or where all are listed."""
    known = list(known)
    # Of many names one is always a little like it ("batch", "watched"): a distant one must contain it.
    close = close_name(name, known, 0.75) or close_name(name, [one for one in known if name.lower() in one.lower()])
    return f"did you mean {close}?" if close else "dir() lists those that there are"


def close_name(name: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Return the known name that is nearest to one that does not exist; None where all are less similar than `least`.

    Similarity goes from 0 to 1, by `difflib`.
    """
    import difflib

    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=least)
    return by_lower[close[0]] if close else None
