"""What fields of text are: integers, floating point, true and false, lists of numbers, or texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.table import LARGEST_WHOLE, Column

#: "int", "float", "bool", "text", or ("vector", length); of ids also "id", integers in their canonical form alone. Of
#: fields such as 3,99, which may be a number or a list, "unclear".
Kind = str | tuple[str, int]

_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")

_NAN = ("nan", "NaN", "NAN")

#: A number as people write it with a comma or a space in it, which may be a list as well.
_UNCLEAR = re.compile(r"\s*[+-]?(\d+|\d{1,3}([., ]\d{3})+)([.,]\d+)?([eE][+-]?\d+)?\s*")

_BRACKETS = {"[": "]", "(": ")"}

_TEXTS = {
    "int": "an integer of 64 bits",
    "float": "a number",
    "bool": "true or false",
    "id": "an integer of 64 bits, as all ids before and written without zeros in front,",
}
_OF_IDS = ': of ids that are texts, pass --text-ids, or in TOML types = {{ {} = "text" }}'


def kind_of_values(values: Sequence[str]) -> Kind:
    """Return what the first fields of a column are; floating point if all are null."""
    there = [one for one in values if one]
    if not there or all(map(_is_float, there)):
        whole = [one for one in there if one not in _NAN]
        are_whole = bool(whole) and all(map(_is_int, whole))
        # Beside NaN, integers are floating point as long as that has them all: else NaN is null.
        return "int" if are_whole and (len(whole) == len(there) or _are_long(whole)) else "float"
    if all(one in (*_TRUE, *_FALSE) for one in there):
        return "bool"
    lists = list(map(_parts, there))
    lengths = {len(one) for one in lists}
    are_lists = lengths != {1} or all(one.strip()[:1] in _BRACKETS for one in there)
    if len(lengths) == 1 and are_lists and all(_is_float(part) for one in lists for part in one):
        return "unclear" if all(map(_UNCLEAR.fullmatch, there)) else ("vector", lengths.pop())
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
    if kind == "unclear":
        return Column(np.dtype(object))
    if kind == "id":
        return Column(np.dtype(np.int64))
    if kind not in dtypes:
        raise InputError(f"convert: expected a type of {list(dtypes)} or ('vector', length), got {kind!r}")
    return Column(np.dtype(dtypes[kind]))


def parsed(values: Any, kind: Kind, where: Callable[[int], str], name: str) -> NDArray[Any]:
    """Return fields, an array of texts of pyarrow, as an array, masked where some are null.

    Parameters
    ----------
    where
        Returns the place of a row, for errors.

    Raises
    ------
    InputError
        If a field is not of the kind.
    """
    quick = _by_arrow(values, kind)
    if quick is not None:
        return quick
    texts = [one or "" for one in values.to_pylist()]
    if kind in ("text", "unclear"):
        return np.array(values.to_pylist(), dtype=object)
    if isinstance(kind, tuple):
        return _vectors(texts, kind[1], where, name)
    parsers: dict[str, Callable[[str], Any]] = {"int": _as_int, "id": _as_id, "float": _as_float, "bool": _as_bool}
    parse = parsers[kind]
    plain = np.zeros(len(texts), column_of_kind(kind).dtype)
    null = np.zeros(len(texts), bool)
    for row, one in enumerate(texts):
        if not one or (kind == "int" and one in _NAN):
            null[row] = True
            continue
        try:
            plain[row] = parse(one)
        except (ValueError, OverflowError):
            raise InputError(
                f"convert: {where(row)}: expected {_TEXTS[kind]} in {name!r}, got {one[:40]!r}; correct it, or pass "
                f"another type of the column{_OF_IDS.format(name) if kind == 'id' else ''}"
            ) from None
    return np.ma.MaskedArray(plain, null) if null.any() else plain


def is_canonical(text: str) -> bool:
    """Whether a text is what Python writes for its integer, of 64 bits."""
    return _is_int(text) and len(text) <= 20 and str(int(text)) == text and -(1 << 63) <= int(text) < 1 << 63


def _by_arrow(values: Any, kind: Kind) -> NDArray[Any] | None:
    """Return integers and floating point as pyarrow converts them; None if a field is neither, or of other kinds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind not in ("int", "id", "float"):
        return None
    try:
        numbers = values.cast(pa.float64() if kind == "float" else pa.int64())
    except pa.ArrowException:
        return None
    # Of integers pyarrow reads other forms, too, such as 0x1F.
    if kind != "float" and pc.all(pc.equal(numbers.cast(values.type), values)).as_py() is False:
        return None
    plain = np.asarray(numbers.fill_null(0).to_numpy(zero_copy_only=False))
    if kind == "float" and bool((np.abs(plain) > LARGEST_WHOLE).any()):  # perhaps an integer that is rounded
        return None
    if numbers.null_count == 0:
        return plain
    return np.ma.MaskedArray(plain, np.asarray(numbers.is_null().to_numpy(zero_copy_only=False)))


def _vectors(values: list[str], length: int, where: Callable[[int], str], name: str) -> NDArray[Any]:
    found = np.empty((len(values), length))
    for row, one in enumerate(values):
        parts = _parts(one)
        if len(parts) != length or not all(map(_is_float, parts)):
            raise InputError(
                f"convert: {where(row)}: expected a list of {length} numbers in {name!r}, got {one[:40]!r}; correct it"
            )
        found[row] = [float(part) for part in parts]
    return found


def _parts(text: str) -> list[str]:
    """Return the parts of a list, which may be in brackets: between semicolons, or commas, or else spaces."""
    inside = text.strip()
    if inside and _BRACKETS.get(inside[0]) == inside[-1]:
        inside = inside[1:-1].strip()
    for between in ";,":
        if between in inside:
            return [part.strip() for part in inside.removesuffix(between).split(between)]
    return inside.split() or [""]


def num_parts(text: str) -> int:
    """Return how many numbers a list has."""
    return len(_parts(text))


def _is_int(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii()


def _are_long(texts: Sequence[str]) -> bool:
    return any(abs(int(one)) > LARGEST_WHOLE for one in texts)


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def _as_int(text: str) -> int:
    if not _is_int(text):  # int takes spaces and underscores, too
        raise ValueError(text)
    return int(text)


def _as_id(text: str) -> int:
    if not is_canonical(text):
        raise ValueError(text)
    return int(text)


def _as_float(text: str) -> float:
    if not _is_float(text):
        raise ValueError(text)
    number = float(text)
    if _is_int(text) and int(number) != int(text):  # a rounded id or time is another one
        raise ValueError(text)
    if np.isinf(number) and any(one.isdigit() for one in text):
        raise OverflowError(text)
    return number


def _as_bool(text: str) -> bool:
    if text not in (*_TRUE, *_FALSE):
        raise ValueError(text)
    return text in _TRUE
