"""Columns of pyarrow as arrays of NumPy, with nulls as masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.table import Column

#: Floating types of pyarrow by their names there. Its `to_pandas_dtype` needs pandas in some versions.
_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


def needed_library(name: str, what: str) -> None:
    """Refuse a missing library.

    Raises
    ------
    InputError
        With what to install.
    """
    if find_spec(name) is None:
        raise InputError(f"convert: {what} takes {name}, which is not installed; pip install 'headrace[convert]'")


def column_of(kind: Any, first_row: Callable[[], Any]) -> Column | None:
    """Return what a column of a type of pyarrow holds; None for types that are neither numbers nor texts.

    Parameters
    ----------
    first_row
        Returns the first row of the column, for the length of lists.
    """
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if _is_text(kind):
        return Column(np.dtype(object))
    if types.is_decimal(kind):
        return Column(np.dtype(np.float64 if kind.scale > 0 else np.int64))
    if types.is_null(kind):
        return Column(np.dtype(np.float64))
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        inner = column_of(kind.value_type, list)
        if inner is None or inner.is_text or inner.shape:
            return None
        length = kind.list_size if types.is_fixed_size_list(kind) else len(first_row() or [])
        return Column(inner.dtype, (length,))
    if types.is_timestamp(kind) or types.is_date64(kind) or types.is_duration(kind):
        return Column(np.dtype(np.int64), unit="ms" if types.is_date64(kind) else kind.unit)
    if types.is_date32(kind):
        return Column(np.dtype(np.int32), unit="days")
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return Column(np.dtype(_FLOATS.get(str(kind), str(kind))))
    return None


def as_numpy(values: Any, column: Column, where: Callable[[int], str], name: str) -> NDArray[Any]:
    """Return rows of a column: a masked array if some are null.

    Parameters
    ----------
    where
        Returns the place of a row of these, for errors.
    name
        Of the column.

    Raises
    ------
    InputError
        If a vector is null, has a null, or has another length than the others.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if column.is_text:
        return np.array(texts_of(values, where, name).to_pylist(), dtype=object)
    if column.shape:
        return _vectors(values, column, where, name)
    if pa.types.is_decimal(values.type):
        # By texts, which are read as the nearest number.
        values = _cast(values.cast(pa.string()), pa.from_numpy_dtype(column.dtype), where, name)
    if pa.types.is_null(values.type):
        values = values.cast(pa.float64())
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    if values.null_count == 0:
        return np.asarray(values.to_numpy(zero_copy_only=False)).astype(column.dtype, copy=False)
    mask = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    zero = pa.scalar(False if column.dtype == bool else 0, values.type)
    plain = np.asarray(values.fill_null(zero).to_numpy(zero_copy_only=False)).astype(column.dtype, copy=False)
    return np.ma.MaskedArray(plain, mask)


def texts_of(values: Any, where: Callable[[int], str], name: str) -> Any:
    """Return a column of texts as an array of pyarrow; `as_numpy` has the parameters.

    Raises
    ------
    InputError
        If bytes are no text in UTF-8.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values if pa.types.is_large_string(values.type) else _cast(values, pa.large_string(), where, name)


def common_type(kinds: Sequence[Any]) -> Any:
    """Return the type that has all values of some types of pyarrow; None if there is none."""
    import pyarrow as pa

    plain = [one.value_type if pa.types.is_dictionary(one) else one for one in kinds]
    if all(one == plain[0] for one in plain):
        return kinds[0]
    if all(pa.types.is_null(one) or _is_text(one) for one in plain):
        return pa.large_string()
    try:
        schemas = [pa.schema([("a", one)]) for one in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field("a").type
    except pa.ArrowException:
        return None


def as_type(values: Any, kind: Any, where: Callable[[int], str], name: str) -> Any:
    """Return a column of a part of a table in the type of all parts; `as_numpy` has the parameters."""
    import pyarrow as pa

    if values.type == kind or pa.types.is_dictionary(kind):
        return values
    return _cast(values.dictionary_decode() if pa.types.is_dictionary(values.type) else values, kind, where, name)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    views = [getattr(types, one) for one in ("is_string_view", "is_binary_view") if hasattr(types, one)]
    tests = [types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_fixed_size_binary]
    return any(test(kind) for test in (*tests, *views))


def _cast(values: Any, kind: Any, where: Callable[[int], str], name: str) -> Any:
    """Cast a column, which changes no value.

    Raises
    ------
    InputError
        If one does not fit, with its row.
    """
    import pyarrow as pa

    try:
        return values.cast(kind)
    except pa.ArrowException:
        row = next(row for row in range(len(values)) if not _can_cast(values.slice(row, 1), kind))
        what = "a text in UTF-8" if _is_text(kind) else f"a number that {kind} has"
        raise InputError(
            f"convert: {where(row)}: expected {what} in {name!r}, got {str(values[row])[:60]}; convert the column"
        ) from None


def _can_cast(values: Any, kind: Any) -> bool:
    import pyarrow as pa

    try:
        values.cast(kind)
    except pa.ArrowException:
        return False
    return True


def _vectors(values: Any, column: Column, where: Callable[[int], str], name: str) -> NDArray[Any]:
    (length,) = column.shape
    if length == 0 and len(values):
        raise InputError(
            f"convert: {where(0)}: expected a vector of numbers in {name!r}, got one of none; leave the column out"
        )
    lengths = np.asarray(values.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False))
    odd = np.flatnonzero(lengths != length)
    if len(odd):
        came = "null" if lengths[odd[0]] < 0 else f"one of {lengths[odd[0]]}"
        raise InputError(f"convert: {where(int(odd[0]))}: expected a vector of {length} in {name!r}, got {came}")
    flat = values.flatten()
    if flat.null_count:
        row = int(np.asarray(flat.is_null().to_numpy(zero_copy_only=False)).argmax()) // length
        raise InputError(f"convert: {where(row)}: expected numbers in the vector of {name!r}, got null")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).astype(column.dtype, copy=False).reshape(len(values), length)
