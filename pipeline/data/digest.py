"""Fingerprints of arrays: short strings that differ when the arrays differ."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.ops.borrowed import check_memory
from headrace.ops.text import utf8

if TYPE_CHECKING:
    from hashlib import _Hash

SAMPLED_ABOVE_BYTES = 4 << 20
"""Arrays larger than this are sampled by `sampled_digest` instead of hashed whole (4 MiB take about 3 ms)."""

SAMPLE_ROWS = 4096


def equal(left: Tensor | None, right: Tensor | None) -> bool:
    """Whether two tensors (or absences) are equal in dtype, shape and every value."""
    if left is None or right is None:
        return left is right
    return left is right or (left.dtype == right.dtype and torch.equal(left, right))


def exact_digest(arrays: Iterable[tuple[str, Tensor]]) -> str:
    """Hash names, dtypes, shapes and every byte of the tensors (any device); 32 hexadecimal digits of SHA-256."""
    state = hashlib.sha256()
    for name, tensor in arrays:
        _add_header(state, name, str(tensor.dtype), tuple(tensor.shape))
        state.update(_bytes_of(tensor))
    return state.hexdigest()[:32]


def sampled_digest(arrays: Iterable[tuple[str, Tensor | np.ndarray]]) -> str:
    """Hash names, dtypes and shapes, all bytes of small arrays, and evenly spaced rows of large ones.

    Large means above `SAMPLED_ABOVE_BYTES`; then `SAMPLE_ROWS` rows, first and last included, stand for the whole,
    so that a graph or a feature file larger than memory is fingerprinted in milliseconds. A change confined to
    other rows goes unnoticed: this tells data sets apart, it does not prove integrity.
    """
    state = hashlib.sha256()
    for name, array in arrays:
        if isinstance(array, Tensor) and array.layout == torch.strided and array.is_cpu:
            check_memory(array, name, "fingerprint")
        if array.ndim and _is_sampled(array.shape[0], _num_bytes(array)):
            sample = _rows_of(array, _sample_of(array.shape[0]))
        else:
            sample = array
        _add_header(state, name, str(array.dtype).removeprefix("torch."), tuple(array.shape))
        state.update(_bytes_of(sample))
    return state.hexdigest()[:32]


def content_mark(array: Tensor, whole_below: int) -> str:
    """Return a mark of an array's values that is another one where they are, made at the speed of memory.

    Rows of 8 KiB are weighted sums modulo 2**64, by odd random factors, so that a change of one word is always seen,
    and another one but for chances of 2**-60; the sums are hashed. Of arrays above `whole_below` bytes it is
    `sampled_digest`.
    """
    if array.layout == torch.strided and array.is_cpu:
        check_memory(array, "the array", "fingerprint")
    if _num_bytes(array) > whole_below:
        return sampled_digest([("values", array)])
    flat = np.frombuffer(_bytes_of(array), np.uint8)
    words = flat[: flat.size // (8 * _ROW_WORDS) * 8 * _ROW_WORDS].view(np.int64).reshape(-1, _ROW_WORDS)
    state = hashlib.sha256()
    _add_header(state, "values", str(array.dtype), tuple(array.shape))
    for start in range(0, len(words), _MOST_ROWS):
        state.update((words[start : start + _MOST_ROWS] @ _factors()).data)
    state.update(flat[words.size * 8 :].data)
    return state.hexdigest()[:32]


_ROW_WORDS = 1024
_MOST_ROWS = 1 << 14


@cache
def _factors() -> NDArray[np.int64]:
    """Return odd numbers without a pattern, int64[_ROW_WORDS]: SplitMix64."""
    numbers = np.arange(1, _ROW_WORDS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((numbers ^ (numbers >> np.uint64(31))) | np.uint64(1)).view(np.int64)


def rows_digest(dtype: torch.dtype, shape: tuple[int, ...], read: Callable[[Tensor], Tensor]) -> str:
    """Return what `sampled_digest` returns for an array named "rows", of which rows are read by ids."""
    num_rows = shape[0]
    sampled = _is_sampled(num_rows, math.prod(shape) * dtype.itemsize)
    sample = read(torch.from_numpy(_sample_of(num_rows)) if sampled else torch.arange(num_rows, device="cpu"))
    state = hashlib.sha256()
    _add_header(state, "rows", str(dtype).removeprefix("torch."), shape)
    state.update(_bytes_of(sample))
    return state.hexdigest()[:32]


def _is_sampled(num_rows: int, num_bytes: int) -> bool:
    return num_bytes > SAMPLED_ABOVE_BYTES and num_rows > SAMPLE_ROWS


def _sample_of(num_rows: int) -> NDArray[np.int64]:
    return np.linspace(0, num_rows - 1, SAMPLE_ROWS).astype(np.int64)


def _rows_of(array: Tensor | np.ndarray, rows: NDArray[np.int64]) -> Tensor | np.ndarray:
    if isinstance(array, Tensor):
        integers = _INTEGERS.get(array.element_size())
        if not array.is_cpu or array.layout != torch.strided or integers is None or array.is_conj() or array.is_neg():
            return array[torch.from_numpy(rows)]
        # Not by torch: its threads spin for a while behind so many rows, and keep a sampler from their cores.
        array = array.detach().view(integers).numpy()
    # Some at a time: each of a map brings pages into memory, which another thread may have to let go of meanwhile.
    return np.concatenate([array.take(rows[start : start + 256], axis=0) for start in range(0, len(rows), 256)])


_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _add_header(state: _Hash, name: str, dtype: str, shape: tuple[int, ...]) -> None:
    # The header frames the bytes that follow, so that no two different lists of arrays feed the same stream.
    state.update(utf8(f"{name}\0{dtype}\0{shape}\0"))


def _num_bytes(array: Tensor | np.ndarray) -> int:
    return array.numel() * array.element_size() if isinstance(array, Tensor) else array.nbytes


def flat_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor, uint8[num_bytes]: a view where they are in one piece, else a copy."""
    flat = tensor.contiguous().reshape(-1)
    if flat.stride(0) != 1:  # torch takes one element for contiguous, whatever its stride, and views no bytes of it
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8)


def _bytes_of(array: Tensor | np.ndarray) -> memoryview:
    if isinstance(array, Tensor):
        # Through uint8, because numpy knows neither bfloat16 nor the 8-bit floats.
        if array.numel() == 0:
            return memoryview(b"")  # no view of bytes: an empty array of NumPy may have a stride of 0
        array = flat_bytes(array.detach().cpu().resolve_conj().resolve_neg()).numpy()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
