"""Names of dtypes and types in JSON, and fields of it that are taken as they are meant, or not at all."""

from __future__ import annotations

from typing import Any

import torch
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.pipeline.data import TypeName, TypeOffsets, whole_number
from headrace.pipeline.data.narrow_dtypes import are_numbers
from headrace.pipeline.storage.array_file import stored_dtype

#: Nodes, edges and rows that an int64 can count.
MOST = (1 << 63) - 1


def dtype_of(name: str) -> torch_dtype:
    """Return the dtype that torch calls by a name.

    Raises
    ------
    ValueError
        If this torch has none.
    """
    dtype = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(dtype, torch_dtype):
        raise ValueError(f"torch {torch.__version__} has no dtype {name!r}")  # noqa: TRY004 - of a file, not of a caller
    try:
        is_kept = are_numbers(dtype) and stored_dtype(dtype) is not None
    except (KeyError, RuntimeError, TypeError):
        is_kept = False
    if not is_kept:
        raise ValueError(f"arrays of {name} are not kept in files")
    return dtype


def name_of(dtype: torch_dtype) -> str:
    """Return the name by which torch calls a dtype."""
    return str(dtype).removeprefix("torch.")


def read_quantization(value: Any) -> dict[str, Any] | None:
    """Return the scale and the zero point of codes; None of rows that are values.

    Raises
    ------
    InputError
        If JSON gave something else.
    """
    if value is not None and (not isinstance(value, dict) or set(value) != {"scale", "zero_point"}):
        raise InputError(f"expected quantization to be null, or a scale and a zero_point, got {str(value)[:80]}")
    return value


def count_of(value: Any, name: str) -> int:
    """Return an integer from 0 to what an int64 can count.

    Raises
    ------
    InputError
        If JSON gave something else.
    """
    return whole_number(value, name, 0, InputError, MOST)


#: Names of types and how many ids each has, in order.
Counts = tuple[tuple[TypeName, int], ...]


def counts_of(types: TypeOffsets | None) -> Counts | None:
    """Return the names and counts of types."""
    return None if types is None else tuple(zip(types.names, types.offsets.diff().tolist(), strict=True))


def offsets_of(counts: Counts | None) -> TypeOffsets | None:
    """Return the types of names and counts."""
    return None if counts is None else TypeOffsets.from_counts(dict(counts))


def as_utf8(text: str, what: str) -> bytes:
    """Return a text as files have it.

    Raises
    ------
    InputError
        If it has surrogates, halves of characters, which no file can keep. `what` says what it is.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as cause:
        raise InputError(f"expected {what} to be Unicode, got {text[:80]!r}; replace its surrogates") from cause
