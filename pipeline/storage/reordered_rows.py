"""Features of a graph whose nodes are renumbered, read where they are."""

from __future__ import annotations

from torch import Tensor

from headrace.ops.errors import FeatureError
from headrace.ops.features.gather import gather_rows
from headrace.pipeline.data.arrays import as_ids
from headrace.pipeline.data.digest import sampled_digest
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.storage.features import ExpectingSource, FeatureSource
from headrace.pipeline.storage.over_source import OverSource
from headrace.pipeline.storage.rows import Rows, updater


class ReorderedRows(OverSource):
    """A feature source whose row i is row ``order[i]`` of another one: no copy of features larger than memory.

    It is where the other one is, and tells it of reads to come if that gains by it: passes do for the rows what they
    would do without the order.

    Parameters
    ----------
    source
        The rows by their old ids.
    order: int64[num_rows]
        The old id of each row.

    Raises
    ------
    FeatureError
        If the order has another length.
    """

    def __init__(self, source: FeatureSource, order: Tensor) -> None:
        if len(order) != source.num_rows:
            raise FeatureError(f"ReorderedRows: expected an order of {source.num_rows} rows, got {len(order)} ids")
        self._source = source
        self._order = order
        self._expecting = source if isinstance(source, ExpectingSource) else None

    @property
    def place(self) -> Place:
        """Where the rows are."""
        return getattr(self._source, "place", CPU)

    @property
    def foresight(self) -> int:
        """Rows of reads to come that the source wants to know of."""
        return 0 if self._expecting is None else self._expecting.foresight

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return the rows of `ids`, [num_ids, ...], where the source can read them to."""
        return self._source.read(gather_rows(self._order, ids), num_threads=num_threads, to=to)

    def update(self, ids: Tensor, rows: Tensor) -> None:
        """Change rows in the source: those of `ids`, int32[n] or int64[n], each once, to `rows`, [n, ...].

        Raises
        ------
        FeatureError
            If an id has no row, the source has no `update`, and as that does.
        """
        updater(self, self._source)(gather_rows(self._order, as_ids(ids, "ids", FeatureError)), rows)

    def expect(self, ids: Tensor) -> None:
        """Tell the source of a read to come; see `ExpectingSource`."""
        if self._expecting is not None:
            self._expecting.expect(gather_rows(self._order, ids))

    def expect_nothing(self) -> None:
        """Let the source forget the reads to come."""
        if self._expecting is not None:
            self._expecting.expect_nothing()

    def content_digest(self) -> str:
        """Return a fingerprint of the rows and of their order."""
        return f"{self._source.content_digest()} in order {sampled_digest([('order', self._order)])}"
