"""Feature sources over arrays in memory, and over files that are mapped: processes map these anew, and copy nothing."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from headrace.ops import InputError, gather_rows
from headrace.ops.forks import cached_property
from headrace.ops.gpu import device_of
from headrace.pipeline.data.arrays import as_cpu_tensor, as_ids, refuse_gradient, version_reader
from headrace.pipeline.data.digest import equal, sampled_digest
from headrace.pipeline.data.place import CPU, DISK, Place
from headrace.pipeline.data.seen import STRUCTURE_BELOW_BYTES
from headrace.pipeline.data.shared_memory import Readers
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.rows import Rows, check_to

if TYPE_CHECKING:
    from headrace.pipeline.storage.decoding import Decoding


class MappedFile(NamedTuple):
    """Where the elements of an array stand in a file, one after the other.

    Parameters
    ----------
    path
        Of the file.
    offset
        The byte at which the array begins.
    shape, dtype
        Of the array.
    mode
        "r" for reading alone, "r+" for writing, too.
    """

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str
    mode: str

    def open(self) -> NDArray[Any]:
        """Map the file in this process."""
        mode: Any = self.mode
        return np.memmap(self.path, self.dtype, mode, self.offset, self.shape)

    def last_change(self) -> tuple[int, int] | None:
        """Return the bytes and the time of the last change of the file in nanoseconds; None if it has gone."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns


def mapped_file(array: object) -> MappedFile | None:
    """Return where an array is in a file; None if it is no memory map, a private one, or in pieces."""
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or array.size == 0:
        return None
    whole: Any = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    # Views of a map say the offset of the map, so it is counted from there.
    if not isinstance(whole, np.memmap) or not isinstance(whole.base, mmap.mmap) or whole.filename is None:
        return None
    if whole.mode not in ("r", "r+", "w+"):
        return None  # what is written to a private map is in no file
    offset = whole.offset + array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    mode = "r+" if array.flags.writeable else "r"
    return MappedFile(str(whole.filename), offset, array.shape, array.dtype.str, mode)


class ArraySource(FeatureSource):
    """Rows of a tensor in CPU memory or of a NumPy array, memory-mapped files included.

    Parameters
    ----------
    array: [num_rows, ...]
        Kept by reference, never copied or cast: strided tensors are read in place, memory maps stay on disk until rows
        are read. `FeatureStore` says what may be written to it when.
    name
        What to call it in errors.
    digest
        Its fingerprint, if that is known already.
    place
        Where it is: by default on disk for a NumPy memory map, in CPU memory for anything else.

    Raises
    ------
    InputError
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
        refuse_gradient(array, name, "batch.e_id" if name.startswith("edge") else "batch.n_id")
        # A tensor view of a memory map shares its pages, so nothing is read here.
        tensor = as_cpu_tensor(array, name)
        if tensor.ndim == 0:
            raise InputError(f"expected {name} to have one row per id, got a single number; pass an array")
        self._tensor = tensor
        self._given = array if isinstance(array, Tensor) else tensor
        self._name = name
        self._is_writable = _is_writable(array)
        self._digest = digest
        self._place = place or (DISK if _is_memory_map(array) else CPU)
        self._readers = Readers()
        self._file = mapped_file(array)
        self._counter = f"bytes_from_{self._place.kind}"
        # What the contract reads of `rows_in_place`, known for good: small batches feel each call.
        self.__dict__.update(
            shape=tuple(tensor.shape), dtype=tensor.dtype, num_rows=tensor.shape[0], row_bytes=tensor[:1].nbytes
        )

    @property
    def place(self) -> Place:
        """Where the rows are."""
        return self._place

    @property
    def tensor(self) -> Tensor:
        """The array, as it was given."""
        return self._tensor

    @property
    def rows_in_place(self) -> Tensor:
        """The array."""
        return self._tensor

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return a copy of the rows of `ids`, as [num_ids, ...] of the same dtype.

        Raises
        ------
        InputError
            If an id is negative or not below num_rows, or for a place that it does not read to.
        """
        if to is not CPU and not (self.reads_to(to) and device_of(ids) is not None):
            check_to(self, to)
        if to is not CPU and to != CPU:
            return self.read_in_place(ids, to)
        self._readers.enter()
        try:
            if self._given.data_ptr() != self._tensor.data_ptr():
                raise self._replaced()
            rows = gather_rows(self._tensor, ids, num_threads=num_threads)
        finally:
            self._readers.leave()
        return Rows(rows, {self._counter: rows.nbytes})

    def read_decoded(self, ids: Tensor, decoding: Decoding, *, num_threads: int = 1) -> Rows:
        """Return rows that are decoded in the pass that gathers them; see `FeatureSource`."""
        self._readers.enter()
        try:
            if self._given.data_ptr() != self._tensor.data_ptr():
                raise self._replaced()
            rows = decoding(self._tensor, ids=ids, num_threads=num_threads)
        finally:
            self._readers.leave()
        return Rows(rows, {self._counter: len(ids) * self.row_bytes})

    def read_in_place(self, ids: Tensor, to: Place) -> Rows:
        """Return rows that a GPU reads; see `FeatureSource.read_in_place`."""
        self._readers.enter()
        try:
            return super().read_in_place(ids, to)
        finally:
            self._readers.leave()

    def read_into(
        self, ids: Tensor, out: Tensor, *, places: Tensor | None = None, num_threads: int = 1
    ) -> Mapping[str, int]:
        """Write the rows of `ids` to the rows `places` of `out`; see `FeatureSource`.

        Raises
        ------
        InputError
            As of `read`, for an `out` of another shape or dtype, and for places that it does not have.
        """
        self._readers.enter()
        try:
            if self._given.data_ptr() != self._tensor.data_ptr():
                raise self._replaced()
            gather_rows(self._tensor, ids, out=out, places=places, num_threads=num_threads)
        finally:
            self._readers.leave()
        return {self._counter: ids.shape[0] * self.row_bytes}

    def check_copies(self) -> None:
        """Refuse a tensor that has other memory by now.

        Raises
        ------
        InputError
            If so.
        """
        if self._given.data_ptr() != self._tensor.data_ptr():
            raise self._replaced()

    def _replaced(self) -> InputError:
        return InputError(
            f"expected {self._name} to stay where it was when the store was made, got a tensor with other memory, by "
            "tensor.set_ or tensor.data = ...; write into it, tensor.copy_(...), or make the store anew"
        )

    def update(self, ids: Tensor, rows: Tensor) -> None:
        """Change the rows of `ids`, each once, in the array itself; a fingerprint that was taken is taken anew.

        Raises
        ------
        InputError
            If an id has no row or comes twice, `rows` are of another shape or dtype, or the array cannot be written.
        """
        if not self._is_writable or 0 in self._tensor.stride():
            raise InputError(
                "ArraySource.update: expected an array that can be written, got one that is read-only or repeats its "
                'memory; open memory maps with mode="r+"'
            )
        places = as_ids(ids, "ids").to(torch.int64)
        expected = (len(places), *self.shape[1:])
        if not isinstance(rows, Tensor) or rows.dtype != self.dtype or tuple(rows.shape) != expected:
            what = f"{rows.dtype}{list(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            raise InputError(f"ArraySource.update: expected rows {self.dtype}{list(expected)}, got {what}")
        if len(places) and (int(places.min()) < 0 or int(places.max()) >= self.num_rows):
            raise InputError(
                f"ArraySource.update: expected ids in [0, {self.num_rows}), got {int(places.min())} to "
                f"{int(places.max())}"
            )
        if len(torch.unique(places)) < len(places):
            raise InputError("ArraySource.update: expected each id once, got some of them twice; keep the last")
        self._tensor.detach()[places] = rows.detach()
        self._digest = None
        self.__dict__.pop("_content_digest", None)

    def version_reader(self) -> Callable[[], int] | None:
        """Return what returns `version`, faster; None where torch does not count."""
        return version_reader(self._tensor)

    def share_memory(self) -> None:
        """Move the array to memory that processes share, where it is not: the tensor that was given moves, too.

        Reads in other threads end first. Of a NumPy array the source has a copy from then on: what is written to the
        array afterwards is not read. A file that is mapped stays where it is; processes map it again.
        """
        if self._file is None and not self._tensor.is_shared():  # type: ignore[no-untyped-call]
            with self._readers.moving():
                self._tensor.share_memory_()  # type: ignore[no-untyped-call]

    def content_mark(self) -> str | None:
        """Return a string that differs when the rows were written; see `FeatureSource`.

        Of a mapped file that is compared by a sample, the size and the time of the last change are compared, too.
        """
        mark = super().content_mark()
        if self._file is None or self._tensor.nbytes <= STRUCTURE_BELOW_BYTES:
            return mark
        return f"{mark} {self._file.last_change()}"

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

    def __reduce__(self) -> Any:
        kept = ("_digest", "_place", "_is_writable", "_counter")
        return ArraySource, (self._tensor,), {name: getattr(self, name) for name in kept}

    def sent(self) -> Any:
        """Return what `torch.multiprocessing` pickles: memory that is shared, or the file that is mapped."""
        if self._file is not None:
            return _mapped, (self._file, self._digest)
        self.share_memory()
        return self.__reduce__()

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{str(self.dtype).removeprefix('torch.')}[{shape}]"


def _mapped(file: MappedFile, digest: str | None) -> ArraySource:
    return ArraySource(file.open(), digest=digest)


ForkingPickler.register(ArraySource, ArraySource.sent)


def _is_writable(array: object) -> bool:
    return not isinstance(array, np.ndarray) or bool(array.flags.writeable)


def _is_memory_map(array: object) -> bool:
    """Whether an array is one of NumPy's memory maps, or a view of one."""
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return isinstance(array, np.memmap)
