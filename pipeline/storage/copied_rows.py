"""Whether copies of rows are still what the rows are, past the writes that torch counts."""

from __future__ import annotations

from headrace.pipeline.data.shared_memory import ProcessLock
from headrace.pipeline.storage.feature_source import FeatureSource


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
