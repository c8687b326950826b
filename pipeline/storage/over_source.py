"""What feature sources over another one have of that one."""

from __future__ import annotations

from collections.abc import Callable

from torch import dtype as torch_dtype

from headrace.pipeline.storage.feature_source import FeatureSource, given_of


class OverSource(FeatureSource):
    """Base of sources that keep or find rows of another one, `_source`, which has as many rows of the same shape."""

    _source: FeatureSource

    @property
    def source(self) -> FeatureSource:
        """The source of all rows."""
        return given_of(self._source)

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return self._source.num_rows

    @property
    def version(self) -> int | None:
        """The number of writes to rows, as counted by the source."""
        return self._source.version

    def version_reader(self) -> Callable[[], int | None] | None:
        """Return a faster function for `version`; None if writes are not counted."""
        return self._source.version_reader()

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
