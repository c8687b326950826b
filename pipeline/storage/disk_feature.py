"""Rows of a .npy file larger than memory, read as they are asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.ops.features.disk_rows import DEFAULT_GAP, DiskRows
from headrace.ops.forks import cached_property
from headrace.pipeline.data import CPU, DISK, Place, as_cpu_tensor, check_switches
from headrace.pipeline.data.digest import rows_digest
from headrace.pipeline.storage.array_file import open_rows
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.rows import Rows, check_to

#: Of which calls and files the best gap is measured: there 10 ms pay.
MANY_IDS, LARGE_BYTES = 4096, 64 << 20


class DiskFeature(FeatureSource):
    """Rows of a ``.npy`` file that may be larger than memory.

    A memory map of such a file waits for one row after the other, and a row that cannot be read ends the process with a
    signal. This class reads many rows at a time: it sorts ids by offset, joins rows that are near each other into one
    read, and runs `queue_depth` reads at once, by io_uring if the kernel allows it, otherwise by threads. A failure is
    an error that names the file and the row.

    It counts ``bytes_from_disk``, the bytes of the rows, ``disk_reads``, the reads of the file, and ``disk_bytes``, the
    bytes that these read. More disk bytes than row bytes: there were many bytes between rows. Fewer: rows were
    requested repeatedly.

    It keeps reading the file that had the name at construction, even if another file gets the name later. A file that
    was written to meanwhile is refused when the write is detected: write new rows to a new file. Forked processes
    continue to read. Unpickling opens the path again, which must be the same file or a copy with the same modification
    time.

    >>> import tempfile
    >>> import numpy as np
    >>> import torch
    >>> import headrace as hr
    >>> path = tempfile.mkdtemp() + "/x.npy"
    >>> np.save(path, np.arange(20, dtype=np.float32).reshape(10, 2))
    >>> x = hr.DiskFeature(path)
    >>> rows, counts = x.read(torch.tensor([7, 0, 7]))
    >>> rows.tolist(), counts
    ([[14.0, 15.0], [0.0, 1.0], [14.0, 15.0]], {'bytes_from_disk': 24, 'disk_reads': 1, 'disk_bytes': 64})
    >>> store = hr.FeatureStore(node={"x": x, "y": torch.zeros(10)})

    Parameters
    ----------
    path
        The file: an array in C order of any numeric dtype of torch, with at least one dimension.
    direct
        Bypass the page cache. This saves copies and memory if rows are hardly ever read again, or if a cache of rows is
        in front. File systems that do not allow it are read through the page cache; the attribute `direct` is the mode
        in use.
    queue_depth
        Reads at a time, for each call of `read`, at most 1024. Reads beyond those that the disk handles at once only
        wait.
    gap_bytes
        Rows with at most this many bytes between them are joined into one read. The best value is the number of bytes
        that takes as long to read as another read: None measures it, in the first call that reads many rows of a large
        file, and takes 4096 until then. The attribute `gap_bytes` is the value in use.
    engine
        ``"io_uring"``, ``"threads"``, or None for io_uring if this process may use it, otherwise threads. The attribute
        `engine` is the one in use.

    Raises
    ------
    InputError
        If there is no such file, it is not a regular file, its header is damaged, its length differs from its header,
        or it does not hold rows of numbers; for arguments out of range, and for io_uring if it is not available.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        direct: bool = False,
        queue_depth: int = 64,
        gap_bytes: int | None = None,
        engine: str | None = None,
    ) -> None:
        try:
            self._path = Path(path).absolute()
        except TypeError as cause:
            raise InputError(f"DiskFeature: expected the path of a .npy file, got {type(path).__name__}") from cause
        check_switches("DiskFeature", InputError, direct=direct)
        self._options = {"direct": direct, "queue_depth": queue_depth, "gap_bytes": gap_bytes, "engine": engine}
        with ExitStack() as stack:
            try:
                rows = stack.enter_context(open_rows(self._path))
            except InputError as cause:
                raise InputError(f"DiskFeature: {cause}") from cause
            self._dtype = as_cpu_tensor(np.broadcast_to(np.zeros((), rows.dtype), rows.shape), str(self._path)).dtype
            self._shape = rows.shape
            self._identity = _Identity.of(os.fstat(rows.file.fileno()))
            self._disk_rows: DiskRows | None = DiskRows(
                rows.file.fileno(),
                name=str(self._path),
                start=rows.start,
                shape=rows.shape,
                dtype=self._dtype,
                engine=engine,
                queue_depth=queue_depth,
                gap_bytes=DEFAULT_GAP if gap_bytes is None else gap_bytes,
                direct=bool(direct),
            )
        self._may_measure = gap_bytes is None and self.num_rows * self.row_bytes >= LARGE_BYTES
        #: How rows are read: by "io_uring" or by "threads".
        self.engine = self._disk_rows.engine
        #: Whether they are read past the page cache.
        self.direct = self._disk_rows.direct

    @property
    def path(self) -> Path:
        """The path of the file when it was opened."""
        return self._path

    @property
    def place(self) -> Place:
        """The place of the rows: the disk."""
        return DISK

    @property
    def dtype(self) -> torch_dtype:
        """Return the element type."""
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape, num_rows first."""
        return self._shape

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:  # noqa: ARG002 - disks have their own
        """Return the rows of `ids`, as [num_ids, ...]. Only `queue_depth` decides the number of reads at a time.

        Raises
        ------
        InputError
            If an id is negative or not below num_rows, a row cannot be read, the file was truncated or written to since
            it was opened, or the source was closed; and for a place other than CPU memory.
        """
        check_to(self, to)
        rows, num_reads, num_bytes = self._opened_for(ids).read(ids)
        return Rows(rows, {"bytes_from_disk": rows.nbytes, "disk_reads": num_reads, "disk_bytes": num_bytes})

    def read_into(
        self,
        ids: Tensor,
        out: Tensor,
        *,
        places: Tensor | None = None,
        num_threads: int = 1,  # noqa: ARG002
    ) -> Mapping[str, int]:
        """Write the rows of `ids` to the rows `places` of `out`; see `FeatureSource`.

        Raises
        ------
        InputError
            As of `read`, for an `out` of another shape or dtype, and for places that it does not have.
        """
        _, num_reads, num_bytes = self._opened_for(ids).read(ids, out=out, places=places)
        return {"bytes_from_disk": len(ids) * self.row_bytes, "disk_reads": num_reads, "disk_bytes": num_bytes}

    def content_digest(self) -> str:
        """Return a fingerprint of the rows: that of an array in memory that holds them. Large files are sampled."""
        return self._content_digest

    @cached_property
    def _content_digest(self) -> str:
        return rows_digest(self._dtype, self._shape, lambda ids: self._opened().read(ids).rows)

    def content_mark(self) -> None:
        """Refuse a file that was written to since it was opened, as a read does; what is left needs no mark.

        Raises
        ------
        InputError
            If the file was written to, or the source was closed.
        """
        self._opened().read(torch.zeros(min(self.num_rows, 1), dtype=torch.int64, device="cpu"))

    def close(self) -> None:
        """Close the file after the reads that are running. A source without users is closed automatically."""
        self._disk_rows = None

    def _opened_for(self, ids: Tensor) -> DiskRows:
        """Return the file, with a measured gap where that is worth the time."""
        rows = self._opened()
        if self._may_measure and isinstance(ids, Tensor) and ids.numel() >= MANY_IDS:
            self._may_measure = False
            rows.measure_gap()
        return rows

    @property
    def gap_bytes(self) -> int:
        """The bytes between rows up to which they are one read."""
        return self._opened().gap_bytes

    def _opened(self) -> DiskRows:
        if self._disk_rows is None:
            raise InputError(f"DiskFeature: {self._path} was closed; open it once more by hr.DiskFeature(path)")
        return self._disk_rows

    def check_identity(self, expected: _Identity) -> None:
        """Refuse another file of the same name.

        Raises
        ------
        InputError
            If the file is not the expected one.
        """
        if self._identity != expected:
            raise InputError(
                f"DiskFeature: expected {self._path} as it was when this was pickled ({expected.num_bytes} bytes), got "
                f"another file ({self._identity.num_bytes} bytes) or another version of it; make the source anew"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (str(self._path), self._options, self._identity, self._disk_rows is None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DiskFeature):
            return NotImplemented
        mine, others = (self._path, self._identity, self._shape), (other._path, other._identity, other._shape)
        return mine == others

    def __hash__(self) -> int:
        return hash(self._path)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self._shape))
        direct = ", direct" if self.direct else ""
        return f"{str(self._dtype).removeprefix('torch.')}[{shape}] on disk ({self.engine}{direct})"


class _Identity(NamedTuple):
    """What tells a file from another of its name; a copy that keeps its time of change will do."""

    num_bytes: int
    changed_at: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Identity:
        return cls(status.st_size, status.st_mtime_ns)


def _reopen(path: str, options: dict[str, Any], identity: _Identity, closed: bool) -> DiskFeature:
    feature = DiskFeature(path, **options)
    feature.check_identity(identity)
    if closed:
        feature.close()
    return feature
