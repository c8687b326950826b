"""Features of a graph whose nodes are renumbered, read where they are."""

from __future__ import annotations

from torch import Tensor

from headrace.ops.errors import FeatureError
from headrace.ops.features.gather import gather_rows
from headrace.pipeline.data.arrays import as_ids
from headrace.pipeline.data.digest import sampled_digest
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.storage.feature_source import SourceLike, in_contract
from headrace.pipeline.storage.over_source import OverSource
from headrace.pipeline.storage.rows import Rows


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

    def __init__(self, source: SourceLike, order: Tensor) -> None:
        if len(order) != source.num_rows:
            raise FeatureError(f"ReorderedRows: expected an order of {source.num_rows} rows, got {len(order)} ids")
        self._source = in_contract(source)
        self._order = order

    @property
    def place(self) -> Place:
        """Where the rows are."""
        return self._source.place

    @property
    def foresight(self) -> int:
        """Rows of reads to come that the source wants to know of."""
        return self._source.foresight

    def foresees(self, place: Place) -> bool:
        """Whether reads of the source to a place gain by that."""
        return self._source.foresees(place)

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
        self._source.update(gather_rows(self._order, as_ids(ids, "ids", FeatureError)), rows)

    def expect(self, ids: Tensor) -> None:
        """Tell the source of a read to come."""
        self._source.expect(gather_rows(self._order, ids))

    def expect_nothing(self) -> None:
        """Let the source forget the reads to come."""
        self._source.expect_nothing()

    def content_digest(self) -> str:
        """Return a fingerprint of the rows and of their order."""
        return f"{self._source.content_digest()} in order {sampled_digest([('order', self._order)])}"
