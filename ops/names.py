"""Names that are loaded when they are asked for the first time, and what is said of names that do not exist."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType


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


def later(
    package: str,
    modules: Mapping[str, str],
    submodules: Mapping[str, str],
    advice: Callable[[str], str | None] | None = None,
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are loaded at their first use.

    Parameters
    ----------
    package
        Its full name.
    modules
        For each name the module that has it.
    submodules
        For each name that is a module itself that module.
    advice
        Says what to write in place of a name that does not exist, or None; by default the nearest name.
    """
    names = {*modules, *submodules}

    def value_of(name: str) -> object:
        if name in modules:
            value = getattr(load(modules[name]), name)
        elif name in submodules:
            value = load(submodules[name])
        else:
            raise no_attribute(f"module {package!r}", name, names, advice)
        setattr(sys.modules[package], name, value)  # so that it is asked for here once
        return value

    def shown() -> list[str]:
        # What is public, and what Python itself looks for.
        values = vars(sys.modules[package])
        return sorted({*values["__all__"], *(name for name in values if name.startswith("__"))})

    return value_of, shown


def no_attribute(
    what: str, name: str, known: Iterable[str], advice: Callable[[str], str | None] | None = None
) -> AttributeError:
    """Return the error for a name that does not exist, with the name that was probably meant.

    Python and its libraries ask for private names to learn whether they exist, so those cost nothing.
    """
    if name.startswith("_"):
        return AttributeError(f"{what} has no attribute {name!r}")
    said = advice(name) if advice is not None else None
    return AttributeError(f"{what} has no attribute {name!r}; {said or nearest(name, known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return what to do about a name that does not exist: the nearest one that does, or where all are listed."""
    import difflib

    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"did you mean {by_lower[close[0]]}?" if close else "dir() lists those that there are"
