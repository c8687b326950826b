"""Fields of text as numbers: what a column holds, told by its first rows, and values, with the row of a fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.pipeline.convert.table import Column

#: "int", "float", "bool", "text", or ("vector", length).
Kind = str | tuple[str, int]

_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")


def kind_of_values(values: Sequence[str]) -> Kind:
    """Return what the first fields of a column are; floating point if all are null."""
    there = [one for one in values if one]
    if not there or all(map(_is_float, there)):
        return "int" if there and all(map(_is_int, there)) else "float"
    if all(one in (*_TRUE, *_FALSE) for one in there):
        return "bool"
    lists = [one.split(",") for one in there]
    lengths = {len(one) for one in lists}
    if len(lengths) == 1 and lengths != {1} and all(_is_float(part) for one in lists for part in one):
        return ("vector", lengths.pop())
    return "text"


def column_of_kind(kind: Kind) -> Column:
    """Return the column of a kind.

    Raises
    ------
    InputError
        If there is no such kind.
    """
    if isinstance(kind, tuple) and kind[0] == "vector" and isinstance(kind[1], int) and kind[1] > 0:
        return Column(np.dtype(np.float64), (kind[1],))
    dtypes: dict[Any, Any] = {"int": np.int64, "float": np.float64, "bool": bool, "text": object}
    if kind not in dtypes:
        raise InputError(f"convert: expected a type of {list(dtypes)} or ('vector', length), got {kind!r}")
    return Column(np.dtype(dtypes[kind]))


def parsed(values: Any, kind: Kind, where: Callable[[int], str], name: str) -> NDArray[Any]:
    """Return fields as an array, masked where some are null.

    Parameters
    ----------
    values
        A list of texts, or an array of pyarrow.
    where
        Returns the place of a row, for errors.

    Raises
    ------
    InputError
        If a field is not of the kind.
    """
    if not isinstance(values, list):
        quick = _by_arrow(values, kind)
        if quick is not None:
            return quick
        values = [one or "" for one in values.to_pylist()]
    if kind == "text":
        return np.array([one or None for one in values], dtype=object)
    if isinstance(kind, tuple):
        return _vectors(values, kind[1], where, name)
    parsers: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": _as_bool}
    parse = parsers[kind]
    plain = np.zeros(len(values), column_of_kind(kind).dtype)
    null = np.zeros(len(values), bool)
    for row, one in enumerate(values):
        if not one:
            null[row] = True
            continue
        try:
            plain[row] = parse(one)
        except (ValueError, OverflowError):
            raise InputError(
                f"convert: {where(row)}: expected {_TEXTS[kind]} in {name!r}, got {one[:40]!r}; correct it, or pass "
                f"another type of the column"
            ) from None
    return np.ma.MaskedArray(plain, null) if null.any() else plain


_TEXTS = {"int": "an integer of 64 bits", "float": "a number", "bool": "true or false"}


def _by_arrow(values: Any, kind: Kind) -> NDArray[Any] | None:
    """Return integers and floating point as pyarrow converts them; None if a field is neither, or of other kinds."""
    import pyarrow as pa

    if kind not in ("int", "float"):
        return None
    try:
        numbers = values.cast(pa.int64() if kind == "int" else pa.float64())
    except pa.ArrowException:
        return None
    if numbers.null_count == 0:
        return np.asarray(numbers.to_numpy(zero_copy_only=False))
    mask = np.asarray(numbers.is_null().to_numpy(zero_copy_only=False))
    return np.ma.MaskedArray(numbers.fill_null(0).to_numpy(zero_copy_only=False), mask)


def _vectors(values: list[str], length: int, where: Callable[[int], str], name: str) -> NDArray[Any]:
    found = np.empty((len(values), length))
    for row, one in enumerate(values):
        parts = one.split(",")
        if len(parts) != length or not all(map(_is_float, parts)):
            raise InputError(
                f"convert: {where(row)}: expected a list of {length} numbers in {name!r}, got {one[:40]!r}; correct it"
            )
        found[row] = [float(part) for part in parts]
    return found


def _is_int(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii()


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def _as_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(text)
