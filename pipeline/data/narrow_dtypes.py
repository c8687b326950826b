"""Dtypes of torch that NumPy lacks, such as bfloat16, as NumPy arrays and in their files: records with one field.

The field has the name of the dtype, and its integers have the bits: ``[("bfloat16", "<u2")]``. So an array says by
itself what it holds, and nobody takes it for integers.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import dtype as torch_dtype

_NUMBERS = re.compile(r"bool|u?int(8|16|32|64)|b?float(16|32|64)|float8_\w+|complex(32|64|128)")

#: By name, as old versions of torch do not have them.
_SIGNED = {"torch.uint16": torch.int16, "torch.uint32": torch.int32, "torch.uint64": torch.int64}


@cache
def are_numbers(dtype: torch_dtype) -> bool:
    """Whether each element is a number of its own: not of codes with a scale aside, of packed or meaningless bits."""
    return _NUMBERS.fullmatch(_name(dtype)) is not None


def numpy_dtype(dtype: torch_dtype) -> np.dtype[Any]:
    """Return the dtype of NumPy's arrays of a dtype of torch: its own, or a record of one field."""
    try:
        return bits_dtype(dtype)
    except TypeError:
        return np.dtype([(_name(dtype), f"<u{dtype.itemsize}")])


def bits_dtype(dtype: torch_dtype) -> np.dtype[Any]:
    """Return NumPy's own dtype.

    Raises
    ------
    TypeError
        If it has none.
    """
    return torch.empty(0, dtype=dtype, device="cpu").numpy().dtype


def of_numpy(dtype: np.dtype[Any]) -> torch_dtype | None:
    """Return the dtype of torch that arrays hold whose own one NumPy lacks; None for others.

    Those of the package ``ml_dtypes`` have the names of torch, too.
    """
    fields = dtype.names or ()
    name = fields[0] if len(fields) == 1 else dtype.name if dtype.kind == "V" and not fields else ""
    found = getattr(torch, name, None)
    if (
        not isinstance(found, torch_dtype)
        or not are_numbers(found)
        or found.itemsize != dtype.itemsize
        or dtype.subdtype is not None
    ):
        return None
    bits = dtype[0] if fields else np.dtype(f"<u{dtype.itemsize}")
    is_same = bits == np.dtype(f"<u{dtype.itemsize}")
    return found if is_same and numpy_dtype(found).names is not None else None


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether arrays hold numbers that a tensor can have."""
    return dtype.kind in "biufc" or of_numpy(dtype) is not None


def as_bits(values: NDArray[Any], dtype: torch_dtype) -> Tensor:
    """Return an array of records as what it holds; it shares memory."""
    return torch.from_numpy(values.view(np.dtype(f"<i{dtype.itemsize}"))).view(dtype)


def put_rows(into: Tensor, places: Tensor, rows: Tensor) -> None:
    """Write rows to places of a tensor, of unsigned integers wider than a byte too, to which torch cannot."""
    signed = _SIGNED.get(str(into.dtype))
    if signed is None:
        into[places] = rows
    else:
        into.view(signed)[places] = rows.view(signed)


def _name(dtype: torch_dtype) -> str:
    return str(dtype).removeprefix("torch.")
