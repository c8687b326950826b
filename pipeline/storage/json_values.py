"""Values that users keep in JSON: taken where what is read again is equal, else refused with their place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headrace.ops.errors import InputError
from headrace.pipeline.storage.opened_files import MOST_DIGITS

#: Lists and objects within each other. Python reads some hundred, fewer where its stack is deep already.
MOST_NESTED = 100

#: Values in all: each takes some bytes of a file that may have 64 MiB.
MOST_VALUES = 4_000_000


def as_json(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a copy of plain dictionaries, lists, texts and numbers, which JSON gives back as they are.

    Raises
    ------
    InputError
        For what JSON lacks or changes: keys that are no texts, tuples, arrays, numbers of NumPy, nan and infinity,
        integers of more than 40 digits, texts that are no Unicode, and what is nested deeply or contains itself. `name`
        says what the values are.
    """
    found = _Copy(name).of_mapping(values, name, MOST_NESTED)
    return found


class _Copy:
    """A copy in the making."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._num_values = 0

    def of_mapping(self, values: Mapping[Any, Any], place: str, levels: int) -> dict[str, Any]:
        found = {}
        for key, value in values.items():
            if not isinstance(key, str):
                raise self._refused(place, f"the key {key!r}", f"name it by a text, such as {str(key)!r}")
            found[self._of_text(key, place)] = self._of(value, f"{place}[{str.__str__(key)!r}]", levels)
        return found

    def _of(self, value: Any, place: str, levels: int) -> Any:
        self._num_values += 1
        if self._num_values > MOST_VALUES:
            raise self._refused(place, f"more than {MOST_VALUES:,} values", "keep that in a file beside it")
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
        if not isinstance(value, dict | list):
            remedies = {tuple: "pass a list", bytes: "pass its .decode()", set: "pass a sorted list"}
            number = "pass its .item()" if getattr(value, "shape", None) == () else "pass its .tolist()"
            remedy = remedies.get(type(value)) or (
                number if hasattr(value, "tolist") else "keep texts and numbers alone"
            )
            raise self._refused(place, f"a {type(value).__name__}", remedy)
        if not levels:
            raise self._refused(self._name, f"more than {MOST_NESTED} levels", "flatten it, if it does not hold itself")
        if isinstance(value, dict):
            return self.of_mapping(value, place, levels - 1)
        return [self._of(one, f"{place}[{at}]", levels - 1) for at, one in enumerate(value)]

    def _of_text(self, text: str, place: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self._refused(place, f"the text {text!r}, which is no Unicode", "replace its surrogates") from None
        return str.__str__(text)

    def _refused(self, place: str, came: str, remedy: str) -> InputError:
        at = "" if place == self._name else f" at {place[:200].removeprefix(self._name.rpartition(': ')[0] + ': ')}"
        function, colon, argument = self._name.rpartition(": ")
        return InputError(
            f"{function}{colon}expected {argument} to be JSON, of texts, numbers, lists and dictionaries, got {came}{at}; "
            f"{remedy}"
        )
