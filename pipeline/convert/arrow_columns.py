"""Columns of pyarrow as arrays of NumPy, with nulls as masks."""

from __future__ import annotations

from collections.abc import Callable
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
    if types.is_string(kind) or types.is_large_string(kind):
        return Column(np.dtype(object))
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
        return np.array(values.to_pylist(), dtype=object)
    if column.shape:
        return _vectors(values, column, where, name)
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    if values.null_count == 0:
        return np.asarray(values.to_numpy(zero_copy_only=False)).astype(column.dtype, copy=False)
    mask = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    zero = pa.scalar(False if column.dtype == bool else 0, values.type)
    plain = np.asarray(values.fill_null(zero).to_numpy(zero_copy_only=False)).astype(column.dtype, copy=False)
    return np.ma.MaskedArray(plain, mask)


def texts_of(values: Any) -> Any:
    """Return a column of texts as an array of pyarrow without a dictionary."""
    import pyarrow as pa

    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _vectors(values: Any, column: Column, where: Callable[[int], str], name: str) -> NDArray[Any]:
    (length,) = column.shape
    lengths = np.asarray(values.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False))
    odd = np.flatnonzero(lengths != length)
    if len(odd):
        came = "null" if lengths[odd[0]] < 0 else f"one of {lengths[odd[0]]}"
        raise InputError(f"convert: {where(int(odd[0]))}: expected a vector of {length} in {name!r}, got {came}")
    flat = values.flatten()
    if flat.null_count:
        row = int(np.asarray(flat.is_null().to_numpy(zero_copy_only=False)).argmax()) // length
        raise InputError(f"convert: {where(row)}: expected numbers in the vector of {name!r}, got null")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).astype(column.dtype, copy=False).reshape(-1, length)
