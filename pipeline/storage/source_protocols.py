"""Feature sources with more than the required members, as protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor

from headrace.pipeline.storage.feature_source import SourceLike


@runtime_checkable
class PlacingSource(SourceLike, Protocol):
    """A feature source that writes rows directly to their destination: `FeatureSource.read_into`.

    >>> import torch
    >>> import headrace as hr
    >>> x = hr.FeatureStore(node={"x": torch.eye(3)}).node["x"]
    >>> isinstance(x, hr.ext.PlacingSource)
    True
    >>> out = torch.zeros(2, 3)
    >>> x.read_into(torch.tensor([2, 0]), out, places=torch.tensor([1, 0]))
    {'bytes_from_cpu': 24}
    >>> out.tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def read_into(
        self, ids: Tensor, out: Tensor, *, places: Tensor | None = None, num_threads: int = 1
    ) -> Mapping[str, int]:
        """See `FeatureSource.read_into`."""


@runtime_checkable
class ExpectingSource(SourceLike, Protocol):
    """A feature source that gains by knowing coming reads: `FeatureSource.foresight`.

    >>> import torch
    >>> import headrace as hr
    >>> class Squares(hr.FeatureSource):  # which could compute the rows of several reads at once
    ...     dtype, shape, foresight = torch.int64, (10,), 4
    ...
    ...     def __init__(self):
    ...         self.expected = []
    ...
    ...     def expect(self, ids):
    ...         self.expected.append(ids.tolist())
    ...
    ...     def expect_nothing(self):
    ...         self.expected.clear()
    ...
    ...     def read(self, ids, *, num_threads=1, to=hr.Place("cpu")):
    ...         print(self.expected)
    ...         self.expected.remove(ids.tolist())
    ...         return hr.Rows(ids * ids)
    ...
    ...     def content_digest(self):
    ...         return "squares"
    >>> store = hr.FeatureStore(node={"x": Squares()})
    >>> plan = hr.ItemSampler(6, batch_size=2).fetch_feature(store, node=["x"])
    >>> for batch in plan.loader(machine=hr.Machine(cores=1, memory=1 << 30)):
    ...     pass
    [[0, 1], [2, 3]]
    [[2, 3], [4, 5]]
    [[4, 5]]
    """

    @property
    def foresight(self) -> int:
        """See `FeatureSource.foresight`."""

    def expect(self, ids: Tensor) -> None:
        """See `FeatureSource.expect`."""

    def expect_nothing(self) -> None:
        """See `FeatureSource.expect_nothing`."""
