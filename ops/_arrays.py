"""Array arguments of the public functions: accepted kinds, and the way into and out of the compiled kernels."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from headrace.ops.borrowed import check_memory
from headrace.ops.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from headrace.ops import _native

Array: TypeAlias = "torch.Tensor | NDArray[Any]"

ID_DTYPES = ("int32", "int64")
_NAMES = {torch.int32: "int32", torch.int64: "int64"}  # asked for in every call
_MASK64 = (1 << 64) - 1
MAX_THREADS = 1 << 12  # more than any machine has cores; a slip of the keyboard must not start a million threads


def as_numpy(
    value: Array,
    name: str,
    *,
    stage: str,
    dtypes: Sequence[str] = ("int64",),
    contiguous: bool = True,
) -> NDArray[Any]:
    """View a one-dimensional CPU tensor or array as NumPy, or refuse it.

    Parameters
    ----------
    value
        The argument. A non-contiguous one is copied when `contiguous` is asked for, else its memory is shared.
    name, stage
        What the argument is called, and by which function: both appear in the error.
    dtypes
        Accepted dtypes.
    contiguous
        Whether the kernel needs contiguous memory.

    Raises
    ------
    InputError
        For another type, device, number of dimensions or dtype.
    """
    if isinstance(value, torch.Tensor):
        if not value.is_cpu:
            raise InputError(f"{_expected(name, stage, dtypes)}, got a tensor on {value.device}; pass {name}.cpu()")
        kind = _NAMES.get(value.dtype) or str(value.dtype).removeprefix("torch.")
    elif isinstance(value, np.ndarray):
        kind = value.dtype.name if value.dtype.isnative else f"byte-swapped {value.dtype.name}"
    else:
        message = f"{_expected(name, stage, dtypes)}, got {type(value).__name__}; pass torch.as_tensor({name})"
        raise InputError(message)
    if kind not in dtypes:
        message = (
            f"{_expected(name, stage, dtypes)}, got {kind}{list(value.shape)}; convert it, for example with "
            f".to(torch.{dtypes[-1]})"
        )
        raise InputError(message)
    if value.ndim != 1:
        raise InputError(f"{_expected(name, stage, dtypes)}, got {kind}{list(value.shape)}")
    # By force: also where a gradient is asked for, and what a lazily negated view stands for.
    array: NDArray[Any] = value.numpy(force=True) if isinstance(value, torch.Tensor) else value
    # Kernels step by whole elements; records of structured arrays and of files may have other strides and addresses.
    # NumPy calls one element contiguous whatever its stride, torch does not.
    stride, item = array.strides[0], array.itemsize
    in_place = array.flags.aligned and (stride == item if contiguous else stride % item == 0)
    return array if in_place else np.array(array, order="C")


def _expected(name: str, stage: str, dtypes: Sequence[str]) -> str:
    return f"{stage}: expected {name} to be a 1-d CPU tensor or NumPy array of {' or '.join(dtypes)}"


def is_int(value: object) -> bool:
    """Whether a value is an integer, of Python or NumPy, and no bool."""
    return type(value) is int or (isinstance(value, (int, np.integer)) and not isinstance(value, bool))


def as_key(key: int, *, stage: str) -> int:
    """Check that a stream key is an integer of 64 bits."""
    if not (type(key) is int or is_int(key)) or not 0 <= key <= _MASK64:
        message = f"{stage}: expected key to be an int in [0, 2**64), as stream_key returns it, got {key!r}"
        raise InputError(message)
    return int(key)


def as_num_threads(num_threads: int | None, *, stage: str) -> int:
    """Check a thread count; None stands for the cores this process may run on."""
    if num_threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not (type(num_threads) is int or is_int(num_threads)) or not 1 <= num_threads <= MAX_THREADS:
        message = (
            f"{stage}: expected num_threads to be an int of at least 1 and at most {MAX_THREADS}, got {num_threads!r}"
        )
        raise InputError(message)
    return int(num_threads)


def as_count(value: int, name: str, *, stage: str) -> int:
    """Check that a number of things is an int of at least 0."""
    if not (type(value) is int or is_int(value)) or not 0 <= value < 1 << 63:
        below = " and below 2**63" if is_int(value) and value > 0 else ""
        message = f"{stage}: expected {name} to be an int of at least 0{below}, got {value!r}"
        raise InputError(message)
    return int(value)


def graph_arrays(indptr: Array, indices: Array, stage: str) -> tuple[_native.Int64Array, _native.IdArray]:
    """Check the dtypes, lengths and ends of a CSC graph, in O(1): rows and ids are checked where they are read."""
    starts = as_numpy(indptr, "indptr", stage=stage)
    sources = as_numpy(indices, "indices", stage=stage, dtypes=ID_DTYPES)
    for name, array in (("indptr", indptr), ("indices", indices)):
        if isinstance(array, torch.Tensor):
            check_memory(array, name, stage)
    if starts.size == 0:
        message = f"{stage}: expected indptr to have num_nodes + 1 entries, got none"
        raise InputError(message)
    if starts[0] != 0 or starts[-1] != sources.size:
        message = (
            f"{stage}: expected indptr to run from 0 to len(indices) = {sources.size}, "
            f"got {starts[0]} to {starts[-1]}; run check_csc on the graph"
        )
        raise InputError(message)
    return starts, sources


def edge_array(array: Array, name: str, num_edges: int, stage: str, dtypes: Sequence[str] = ("int64",)) -> NDArray[Any]:
    """Check dtype and length of integers of edges, such as their ids or times."""
    values = as_numpy(array, name, stage=stage, dtypes=dtypes)
    if isinstance(array, torch.Tensor):
        check_memory(array, name, stage)
    if values.size != num_edges:
        message = f"{stage}: expected {name} to have one entry per edge ({num_edges}), got {values.size}"
        raise InputError(message)
    return values


def weight_array(weights: Array, num_edges: int, stage: str) -> _native.WeightArray:
    """Check dtype and length of edge weights."""
    values = as_numpy(weights, "weights", stage=stage, dtypes=("float32", "float64"))
    if isinstance(weights, torch.Tensor):
        check_memory(weights, "weights", stage)
    if values.size != num_edges:
        message = f"{stage}: expected weights to have one entry per edge ({num_edges}), got {values.size}"
        raise InputError(message)
    return values


def is_packed(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    """Whether an array is contiguous memory in C order; strides are counted as `item` is, that of one element."""
    expected = item
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size not in (0, 1) and stride != expected:
            return False
        expected *= max(size, 1)
    return True
