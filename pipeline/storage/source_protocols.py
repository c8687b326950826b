"""What a feature source of any class has, as protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor
from torch import dtype as torch_dtype

from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.storage.rows import Rows

_NEEDED = ("read", "num_rows", "row_bytes", "dtype", "shape", "content_digest")


class SourceLike(Protocol):
    """What a feature source cannot be without."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""

    @property
    def dtype(self) -> torch_dtype:
        """Element type of the rows."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows together."""

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return rows and counts."""

    def content_digest(self) -> str:
        """Return a string that differs when the rows differ."""


@runtime_checkable
class PlacingSource(SourceLike, Protocol):
    """A feature source that writes rows where they are wanted: `FeatureSource.read_into`.

    >>> import torch
    >>> import headrace as hr
    >>> x = hr.FeatureStore(node={"x": torch.eye(3)}).node["x"]
    >>> isinstance(x, hr.PlacingSource)
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
    """A feature source that gains by knowing what will be read: `FeatureSource.foresight`.

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


def is_source_like(given: object) -> bool:
    """Whether something has what a source cannot be without."""
    # Some tensors answer to being asked for members with an error of torch's own.
    return not isinstance(given, Tensor) and all(hasattr(given, name) for name in _NEEDED)
