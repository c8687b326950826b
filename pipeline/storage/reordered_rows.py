"""Features of a graph whose nodes are renumbered, read where they are."""

from __future__ import annotations

from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import FeatureError
from headrace.ops.features.gather import gather_rows
from headrace.pipeline.data.digest import sampled_digest
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.storage.features import FeatureSource
from headrace.pipeline.storage.rows import Rows


class ReorderedRows:
    """A feature source whose row i is row ``order[i]`` of another one: no copy of features larger than memory.

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

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return self._source.num_rows

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
        """Return the shape, num_rows first."""
        return self._source.shape

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return the rows of `ids`, [num_ids, ...], where the source can read them to."""
        return self._source.read(gather_rows(self._order, ids), num_threads=num_threads, to=to)

    def content_digest(self) -> str:
        """Return a fingerprint of the rows and of their order."""
        return f"{self._source.content_digest()} in order {sampled_digest([('order', self._order)])}"
