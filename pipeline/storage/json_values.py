"""Values that users keep in JSON: read back equal, tuples as lists, or refused with their place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headrace.ops.errors import InputError
from headrace.pipeline.data.checks import MOST_LEVELS
from headrace.pipeline.storage.json_fields import as_utf8
from headrace.pipeline.storage.opened_files import MOST_DIGITS, MOST_JSON_BYTES

#: Characters of all texts, and other values: more make a file that is not read.
_MOST_CHARACTERS = MOST_JSON_BYTES // 4


def as_json(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a copy of plain dictionaries, lists, texts and numbers, which JSON gives back as they are.

    Raises
    ------
    InputError
        For what JSON lacks or changes: keys that are no texts, arrays, numbers of NumPy, nan and infinity,
        integers of more than 40 digits, texts that are no Unicode, and what is nested deeply or contains itself. `name`
        says what the values are.
    """
    return _Copy(name).of_mapping(values, name, MOST_LEVELS)


class _Copy:
    """A copy in the making."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._num_characters = 0

    def _count(self, num: int) -> None:
        self._num_characters += num
        if self._num_characters > _MOST_CHARACTERS:
            raise self._refused(
                self._name, f"more than {_MOST_CHARACTERS:,} characters", "keep that in a file beside it"
            )

    def of_mapping(self, values: Mapping[Any, Any], place: str, levels: int) -> dict[str, Any]:
        found = {}
        for key, value in values.items():
            if not isinstance(key, str):
                raise self._refused(place, f"the key {key!r}", f"name it by a text, such as {str(key)!r}")
            found[self._of_text(key, place)] = self._of(value, f"{place}[{str.__str__(key)!r}]", levels)
        return found

    def _of(self, value: Any, place: str, levels: int) -> Any:
        self._count(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._of_text(value, place)
        if isinstance(value, int):
            if abs(value) >= 10 ** (MOST_DIGITS - 1):
                raise self._refused(place, f"an integer of more than {MOST_DIGITS - 1} digits", "keep it as a text")
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise self._refused(place, repr(float(value)), "leave it out, or keep it as a text or None")
            return float(value)
        if not isinstance(value, dict | list | tuple):
            remedies: dict[type, str] = {bytes: "pass its .decode()", set: "pass a sorted list"}
            number = "pass its .item()" if getattr(value, "shape", None) == () else "pass its .tolist()"
            remedy = remedies.get(type(value)) or (
                number if hasattr(value, "tolist") else "keep texts and numbers alone"
            )
            raise self._refused(place, f"a {type(value).__name__}", remedy)
        if not levels:
            raise self._refused(self._name, f"more than {MOST_LEVELS} levels", "flatten it, if it does not hold itself")
        if isinstance(value, dict):
            return self.of_mapping(value, place, levels - 1)
        return [self._of(one, f"{place}[{at}]", levels - 1) for at, one in enumerate(value)]

    def _of_text(self, text: str, place: str) -> str:
        self._count(len(text))
        as_utf8(text, f"texts of {place}")
        return str.__str__(text)

    def _refused(self, place: str, came: str, remedy: str) -> InputError:
        at = "" if place == self._name else f" at {place[:200].removeprefix(self._name.rpartition(': ')[0] + ': ')}"
        function, colon, argument = self._name.rpartition(": ")
        return InputError(
            f"{function}{colon}expected {argument} to be JSON, of texts, numbers, lists and dictionaries, got "
            f"{came}{at}; {remedy}"
        )
