"""Arguments of layers: numbers and switches with which a layer computes something."""

from __future__ import annotations

import math
from typing import Any

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import as_number, whole_number

#: More have no matrix that memory could hold.
MOST_COLUMNS = (1 << 31) - 1


def columns(layer: str, name: str, value: Any) -> int:
    """Return a number of columns or heads as an int; there is at least one.

    Raises
    ------
    InputError
        For other values, among them PyG's -1 (a number that the first call finds) and its pairs.
    """
    if isinstance(value, tuple | list):
        raise InputError(
            f"{layer}: expected {name} to be one integer of at least 1, got {value!r}; rows of both ends of a block "
            "have the same columns"
        )
    return whole_number(value, f"{layer}: {name}", 1, InputError, MOST_COLUMNS)


def finite(layer: str, name: str, value: Any) -> int | float:
    """Return a finite number as an int or a float.

    Raises
    ------
    InputError
        For other values.
    """
    number = as_number(value)
    if number is None or not math.isfinite(number):
        raise InputError(f"{layer}: expected {name} to be a finite number, got {value!r}")
    return number
