"""Rows of an array, in memory or in a mapped file, as a feature source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import FeatureError
from headrace.ops.features.gather import gather_rows
from headrace.pipeline.data.arrays import as_cpu_tensor
from headrace.pipeline.data.digest import equal, sampled_digest
from headrace.pipeline.data.place import CPU, DISK, Place
from headrace.pipeline.storage.rows import Rows, check_to


class ArraySource:
    """Rows of a tensor in CPU memory or of a NumPy array, memory-mapped files included.

    Parameters
    ----------
    array: [num_rows, ...]
        Kept by reference, never copied or cast: strided tensors are read in place, memory maps stay on disk until rows
        are read. Do not change it while a loader runs.
    name
        What to call it in errors.
    digest
        Its fingerprint, if that is known already.
    place
        Where it is: by default on disk for a NumPy memory map, in CPU memory for anything else.

    Raises
    ------
    FeatureError
        If the array has no rows dimension, is not numeric, or is a tensor outside CPU memory.
    """

    def __init__(
        self,
        array: ArrayLike | Tensor,
        name: str = "feature",
        *,
        digest: str | None = None,
        place: Place | None = None,
    ) -> None:
        # A tensor view of a memory map shares its pages, so nothing is read here.
        tensor = as_cpu_tensor(array, name, FeatureError)
        if tensor.ndim == 0:
            raise FeatureError(f"expected {name} to have one row per id, got a single number; pass an array")
        self._tensor = tensor
        self._digest = digest
        self._place = place or (DISK if _is_memory_map(array) else CPU)
        self._counter = f"bytes_from_{self._place.kind}"

    @property
    def place(self) -> Place:
        """Where the rows are."""
        return self._place

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return int(self._tensor.shape[0])

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one row."""
        return self._tensor[:1].numel() * self._tensor.element_size() if self.num_rows else 0

    @property
    def dtype(self) -> torch_dtype:
        """Return the element type."""
        return self._tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape, num_rows first."""
        return tuple(self._tensor.shape)

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return a copy of the rows of `ids`, as [num_ids, ...] of the same dtype.

        Raises
        ------
        FeatureError
            If an id is negative or not below num_rows, or for another place than CPU memory.
        """
        if to is not CPU:
            check_to(self, to)
        rows = gather_rows(self._tensor, ids, num_threads=num_threads)
        return Rows(rows, {self._counter: rows.nbytes})

    def read_into(
        self, ids: Tensor, out: Tensor, *, places: Tensor | None = None, num_threads: int = 1
    ) -> Mapping[str, int]:
        """Write the rows of `ids` to the rows `places` of `out`; see `PlacingSource`.

        Raises
        ------
        FeatureError
            As of `read`, for an `out` of another shape or dtype, and for places that it does not have.
        """
        gather_rows(self._tensor, ids, out=out, places=places, num_threads=num_threads)
        return {self._counter: len(ids) * self.row_bytes}

    def content_digest(self) -> str:
        """Return a fingerprint of the rows; large arrays are sampled (`headrace.pipeline.data.digest`)."""
        return self._content_digest

    @cached_property
    def _content_digest(self) -> str:
        return sampled_digest([("rows", self._tensor)]) if self._digest is None else self._digest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArraySource):
            return NotImplemented
        return equal(self._tensor, other._tensor)

    def __hash__(self) -> int:
        return hash(self.shape)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{str(self.dtype).removeprefix('torch.')}[{shape}]"


def _is_memory_map(array: object) -> bool:
    """Whether an array is one of NumPy's memory maps, or a view of one."""
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return isinstance(array, np.memmap)
