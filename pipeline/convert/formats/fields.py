"""Fields of descriptions that others wrote, taken with the kind that they must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from headrace.ops.errors import InputError
from headrace.ops.names import close_name

T = TypeVar("T")


class Fields:
    """A mapping of a file, whose fields are asked for by name and kind.

    Parameters
    ----------
    value
        What the file holds there.
    what
        What errors call it.
    known
        The fields that there may be; None for any.

    Raises
    ------
    InputError
        If it is no mapping, or has a field that is not known, with the nearest one.
    """

    def __init__(self, value: Any, what: str, known: Sequence[str] | None = None) -> None:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise InputError(f"convert: {what}: expected fields with names, got {str(value)[:60]!r}")
        self.value, self.what = value, what
        for name in value if known is not None else ():
            if name not in (known or ()):
                close = close_name(name, known or ())
                advice = f"did you mean {close}?" if close else "leave it out"
                raise InputError(f"convert: {what}: expected {', '.join(known or ())}, got {name!r}; {advice}")

    def check_spelling(self, known: Sequence[str]) -> Fields:
        """Refuse fields that may be typing errors of known ones that are missing, and return all; others may be there.

        Raises
        ------
        InputError
            With the nearest known one.
        """
        missing = [name for name in known if name not in self.value]
        for name in self.value:
            close = None if name in known else close_name(name, missing)
            if close:
                raise InputError(
                    f"convert: {self.what}: expected {', '.join(known)}, got {name!r}; did you mean {close}?"
                )
        return self

    def take(self, name: str, kind: type[T], default: T | None = None) -> T:
        """Return a field of a kind; without it the default, or an error if there is none."""
        found = self.value.get(name)
        if found is None and default is not None:
            return default
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            raise InputError(
                f"convert: {self.what}: expected {name} to be {kind.__name__}, got {str(found)[:60]!r}; correct it"
            )
        return found

    def maybe(self, name: str, kind: type[T]) -> T | None:
        """Return a field of a kind, or None if it is not there."""
        return None if self.value.get(name) is None else self.take(name, kind)

    def each(self, name: str, known: Sequence[str] | None = None) -> list[Fields]:
        """Return the fields of each entry of a list, which may be missing."""
        return [
            Fields(one, f"{self.what}, {name}[{place}]", known) for place, one in enumerate(self.take(name, list, []))
        ]

    def texts(self, name: str) -> list[str]:
        """Return a text, or a list of texts, as a list; an empty one without the field."""
        found = self.value.get(name)
        texts = [] if found is None else [found] if isinstance(found, str) else found
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise InputError(f"convert: {self.what}: expected {name} to be a text or a list, got {str(found)[:60]!r}")
        return texts
