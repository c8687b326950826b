"""Feature sources over another one: what they have of it, and whether copies of its rows are still true."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.forks import ProcessLock
from headrace.pipeline.storage.feature_source import FeatureSource, given_of

if TYPE_CHECKING:
    from headrace.pipeline.storage.decoding import Quantization


class OverSource(FeatureSource):
    """Base of sources that keep or find rows of another one, `_source`, which has as many rows of the same shape."""

    _source: FeatureSource

    @property
    def source(self) -> FeatureSource:
        """The source of all rows."""
        return given_of(self._source)

    def _take_name(self, what: str) -> None:
        self._source._take_name(what)  # noqa: SLF001 - of the same class

    def _check_declared(self) -> None:
        self._source._check_declared()  # noqa: SLF001 - of the same class

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return self._source.num_rows

    @property
    def quantization(self) -> Quantization | None:
        """The scale of the rows of the source, if they are codes."""
        return self._source.quantization

    @property
    def version(self) -> int | None:
        """The number of writes to rows, as counted by the source."""
        return self._source.version

    def version_reader(self) -> Callable[[], int | None] | None:
        """Return a faster function for `version`; None if writes are not counted."""
        return self._source.version_reader()

    def reading_order(self, ids: Tensor) -> Tensor:
        """Return the order in which the source reads rows."""
        return self._source.reading_order(ids)

    def content_mark(self) -> str | None:
        """Return the mark of the source."""
        return self._source.content_mark()

    def check_copies(self) -> None:
        """Let the source drop or refuse its copies."""
        self._source.check_copies()

    def share_memory(self) -> None:
        """Move the source to shared memory, if it supports that; copies of its rows stay in this process."""
        self._source.share_memory()

    def content_digest(self) -> str:
        """Return the fingerprint of the source."""
        return self._source.content_digest()

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one row."""
        return self._source.row_bytes

    @property
    def dtype(self) -> torch_dtype:
        """Return the element type."""
        return self._source.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of all rows together, num_rows first."""
        return self._source.shape


class CopiedRows:
    """The mark of a source when copies of its rows were made first, and since they were all dropped.

    Parameters
    ----------
    source
        The source of the rows.
    """

    def __init__(self, source: FeatureSource) -> None:
        self._source = source
        self._lock = ProcessLock()
        self.is_marked = False  # read without the lock by each read
        self._mark: str | None = None

    def mark(self) -> None:
        """Take the mark, unless that is done; called before the first row is copied."""
        with self._lock.held():
            if not self.is_marked:
                self._mark = self._source.content_mark()
                self.is_marked = True

    def were_written(self) -> bool:
        """Whether the rows are others than at the mark, which is taken anew then; the caller drops all copies.

        Before the first copy nothing is compared.
        """
        with self._lock.held():
            if not self.is_marked:
                return False
            before, self._mark = self._mark, self._source.content_mark()
            return self._mark != before
