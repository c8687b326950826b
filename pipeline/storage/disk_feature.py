"""Rows of a .npy file larger than memory, read as they are asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import FeatureError, InputError
from headrace.ops.features.disk_rows import DiskRows
from headrace.pipeline.data.arrays import as_cpu_tensor
from headrace.pipeline.data.checks import check_switches
from headrace.pipeline.data.digest import rows_digest
from headrace.pipeline.data.place import CPU, DISK, Place
from headrace.pipeline.storage.array_file import open_rows
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.rows import Rows, check_to


class DiskFeature(FeatureSource):
    """Rows of a ``.npy`` file that may be larger than memory.

    A memory map of such a file waits for one row after the other, and is ended by a signal where a row cannot be read.
    This reads many rows at a time: ids are sorted by offset, rows that are near each other are one read, and
    `queue_depth` reads are going on at once, by io_uring where the kernel allows it and else by threads. Whatever goes
    wrong is an error that names the file and the row.

    Counts are ``bytes_from_disk``, of the rows that were asked for, and what that took: ``disk_reads`` of the file, and
    the ``disk_bytes`` that these brought. With more bytes than rows have, much was between them; with fewer, rows were
    asked for repeatedly.

    The file is the one that had the name when this was made, even if another takes its name later. One that is written
    to meanwhile is refused, when that is noticed: put new rows into a new file. Forked processes read on; where it is
    unpickled the path is opened anew, and must lead to the same file or a copy with its time of change.

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
        Of the file: an array in C order of any numeric dtype that torch has, with at least one dimension.
    direct
        Read past the page cache. That saves copying, and memory for others, where rows are hardly ever read again, or
        where a cache of rows stands in front. File systems that do not allow it are read through the page cache: the
        attribute `direct` says what is done.
    queue_depth
        Reads at a time, for each call of `read`, at most 1024. More than the disk does at once only wait there.
    gap_bytes
        Rows that have at most so many bytes between them are read together: as many as take about as long to read as
        another read takes.
    engine
        ``"io_uring"``, ``"threads"``, or None for the first where this process may use it and else the second. The
        attribute `engine` says which it is.

    Raises
    ------
    FeatureError
        If there is no such file, it is no regular one, its header is damaged, it has not the length that its header
        says, or holds something else than rows of numbers; for arguments out of range, and for io_uring where there is
        none.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        direct: bool = False,
        queue_depth: int = 64,
        gap_bytes: int = 4096,
        engine: str | None = None,
    ) -> None:
        try:
            self._path = Path(path).absolute()
        except TypeError as cause:
            raise FeatureError(f"DiskFeature: expected the path of a .npy file, got {type(path).__name__}") from cause
        check_switches("DiskFeature", FeatureError, direct=direct)
        self._options = {"direct": direct, "queue_depth": queue_depth, "gap_bytes": gap_bytes, "engine": engine}
        try:
            with open_rows(self._path) as rows:
                self._dtype = as_cpu_tensor(
                    np.broadcast_to(np.zeros((), rows.dtype), rows.shape), str(self._path), FeatureError
                ).dtype
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
                    gap_bytes=gap_bytes,
                    direct=bool(direct),
                )
        except FeatureError:
            raise
        except InputError as cause:
            raise FeatureError(f"DiskFeature: {cause}") from cause
        #: How rows are read: by "io_uring" or by "threads".
        self.engine = self._disk_rows.engine
        #: Whether they are read past the page cache.
        self.direct = self._disk_rows.direct

    @property
    def path(self) -> Path:
        """Where the file was when it was opened."""
        return self._path

    @property
    def place(self) -> Place:
        """Where the rows are: on disk."""
        return DISK

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return self._shape[0]

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one row."""
        return int(np.prod(self._shape[1:], dtype=np.int64)) * self._dtype.itemsize if self.num_rows else 0

    @property
    def dtype(self) -> torch_dtype:
        """Return the element type."""
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape, num_rows first."""
        return self._shape

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:  # noqa: ARG002 - disks have their own
        """Return the rows of `ids`, as [num_ids, ...]. How many are read at once is up to `queue_depth` alone.

        Raises
        ------
        FeatureError
            If an id is negative or not below num_rows, a row cannot be read, the file was truncated or written to since
            it was opened, or this was closed; and for another place than CPU memory.
        """
        check_to(self, to)
        rows, num_reads, num_bytes = self._opened().read(ids)
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
        FeatureError
            As of `read`, for an `out` of another shape or dtype, and for places that it does not have.
        """
        _, num_reads, num_bytes = self._opened().read(ids, out=out, places=places)
        return {"bytes_from_disk": len(ids) * self.row_bytes, "disk_reads": num_reads, "disk_bytes": num_bytes}

    def content_digest(self) -> str:
        """Return a fingerprint of the rows: that of an array in memory that holds them. Large files are sampled."""
        return self._content_digest

    @cached_property
    def _content_digest(self) -> str:
        return rows_digest(self._dtype, self._shape, lambda ids: self._opened().read(ids).rows)

    def close(self) -> None:
        """Close the file once the reads that are going on are over. What nobody uses any more is closed by itself."""
        self._disk_rows = None

    def _opened(self) -> DiskRows:
        if self._disk_rows is None:
            raise FeatureError(f"DiskFeature: {self._path} was closed; open it once more by hr.DiskFeature(path)")
        return self._disk_rows

    def check_identity(self, expected: _Identity) -> None:
        """Refuse to stand for another file of the same name.

        Raises
        ------
        FeatureError
            If the file is another than the expected one.
        """
        if self._identity != expected:
            raise FeatureError(
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
