"""Read rows of a file that may be larger than memory, many at a time."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.autograd.graph import increment_version

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_count, as_numpy, is_int
from headrace.ops.errors import InputError
from headrace.ops.features.gather import output_rows
from headrace.ops.text import in_utf8

if TYPE_CHECKING:
    from collections.abc import Sequence

ENGINES = ("io_uring", "threads")

#: What `gap_bytes` is until it is measured: a page.
DEFAULT_GAP = 4096

#: The longest range that is read at once; no gap is longer.
MOST_GAP = 256 << 10

#: To measure the gap so many rows are read one by one, and so many bytes in one piece.
_SINGLE_READS, _PIECE_BYTES = 128, 8 << 20


class ReadRows(NamedTuple):
    """Rows, and what reading them took: the reads of the file, and the bytes that these brought."""

    rows: torch.Tensor
    num_reads: int
    num_bytes: int


class DiskRows:
    """Rows that lie one behind the other in a file.

    Ids are sorted by offset; rows that are near each other, and repeated ones, are one read. Reads are done
    asynchronously, by io_uring or by threads that wait. Any number of threads may call `read` at once, and so may
    forked processes. The file stays open for as long as this object is there.

    Parameters
    ----------
    descriptor : int
        Of the file, which is opened again: flags, offset and advice of this descriptor stay as they are.
    name : str
        What to call it in errors.
    start : int
        Offset of the first row.
    shape : sequence of int
        Of all rows together, their number first.
    dtype : torch.dtype
        Of the rows.
    engine : "io_uring", "threads" or None
        None: io_uring where this process may use it, else threads.
    queue_depth : int
        Reads at a time, for each call.
    gap_bytes : int
        Rows that have at most so many bytes between them are read together.
    direct : bool
        Read past the page cache where the file system allows it; `direct` says whether it does.

    Raises
    ------
    InputError
        For arguments out of range, and for io_uring where there is none.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        name: str,
        start: int,
        shape: Sequence[int],
        dtype: torch.dtype,
        engine: str | None = None,
        queue_depth: int = 64,
        gap_bytes: int = DEFAULT_GAP,
        direct: bool = False,
    ) -> None:
        stage = "DiskRows"
        if engine is not None and not (isinstance(engine, str) and engine in ENGINES):
            message = f"{stage}: expected an engine, {' or '.join(map(repr, ENGINES))}, or None, got {engine!r}"
            raise InputError(message)
        if not is_int(queue_depth) or not 1 <= queue_depth <= 1024:
            message = f"{stage}: expected queue_depth to be an int of at least 1 and at most 1024, got {queue_depth!r}"
            raise InputError(message)
        if as_count(gap_bytes, "gap_bytes", stage=stage) >= 1 << 62:
            message = f"{stage}: expected gap_bytes to be below 2**62, got {gap_bytes}"
            raise InputError(message)
        self.engine = engine or ("io_uring" if _native.has_io_uring() else "threads")
        self._row_shape, self._dtype = tuple(shape[1:]), dtype
        row_bytes = math.prod(self._row_shape) * dtype.itemsize
        self._reader = _native.DiskReader(
            descriptor,
            in_utf8(name),
            start,
            shape[0],
            row_bytes,
            self.engine == "io_uring",
            queue_depth,
            gap_bytes,
            direct,
        )
        self.direct = self._reader.is_direct()
        self.gap_bytes = gap_bytes
        self._num_rows, self._row_bytes = shape[0], row_bytes

    def measure_gap(self) -> None:
        """Let `gap_bytes` be what is read in the time that one more read takes, from now on; reads a few MB."""
        far = self._num_rows // (_SINGLE_READS + 1)
        piece = torch.arange(max(min(_PIECE_BYTES // max(self._row_bytes, 1), self._num_rows), 1), device="cpu")
        self.read(piece[:1])  # the first read makes a ring, or threads
        single = self._seconds(far * torch.arange(1, _SINGLE_READS + 1, device="cpu")) / _SINGLE_READS
        byte = self._seconds(piece) / max(len(piece) * self._row_bytes, 1)
        self.gap_bytes = min(int(single / max(byte, 1e-12)), MOST_GAP)
        self._reader.set_gap_bytes(self.gap_bytes)

    def _seconds(self, ids: torch.Tensor) -> float:
        out = torch.empty((len(ids), *self._row_shape), dtype=self._dtype, device="cpu")
        started = time.perf_counter()
        self.read(ids, out=out)
        return time.perf_counter() - started

    def read(self, ids: Array, *, out: torch.Tensor | None = None, places: Array | None = None) -> ReadRows:
        """Return the rows of `ids`; arguments and result are those of `headrace.ops.gather_rows`.

        Raises
        ------
        InputError
            As of `gather_rows`, nothing being written then; and when a row cannot be read, the file ends before it, or
            it has been written to since it was opened. What `out` holds then is undefined, but no read goes on.
        """
        stage = "read_rows"
        rows = as_numpy(ids, "ids", stage=stage, dtypes=ID_DTYPES)
        targets = None if places is None else as_numpy(places, "places", stage=stage)
        if targets is not None and out is None:
            message = f"{stage}: places are those of rows of out; give out too"
            raise InputError(message)
        num_out = len(out) if targets is not None and isinstance(out, torch.Tensor) and out.ndim else rows.size
        given, out = out, output_rows(out, (num_out, *self._row_shape), self._dtype, stage)
        num_reads, num_bytes = self._reader.read(rows, out.data_ptr(), num_out, targets)
        if given is not None:
            increment_version(given)  # autograd has not seen the write
        return ReadRows(out, num_reads, num_bytes)
