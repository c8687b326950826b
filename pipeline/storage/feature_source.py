"""The contract of a feature source: what stages, caches and passes ask of one, with a default for each answer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.borrowed import Borrowed
from headrace.ops.errors import FeatureError
from headrace.ops.features.gather import gather_rows
from headrace.ops.features.pinned import Pinned, is_readable_in_place
from headrace.pipeline.data.arrays import version_of_tensor
from headrace.pipeline.data.digest import sampled_digest
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.storage.rows import Rows, check_to, checked_read

if TYPE_CHECKING:
    default = property
else:

    class default:  # noqa: N801 - a decorator, as property
        """A property that a subclass, or an instance, may replace by a plain attribute."""

        def __init__(self, value: Callable[[Any], Any]) -> None:
            self._value = value
            self.__doc__ = value.__doc__

        def __get__(self, source: Any, of: Any = None) -> Any:
            return self if source is None else self._value(source)


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


class _SourceType(type):
    """The type of `FeatureSource`, whose instances are all objects with what a source cannot be without."""

    def __instancecheck__(cls, instance: object) -> bool:
        return super().__instancecheck__(instance) or (cls is FeatureSource and is_source_like(instance))


class FeatureSource(metaclass=_SourceType):
    """Rows addressed by id, and what stages, caches and passes ask of them.

    A source is a subclass, or any other object with ``read``, ``num_rows``, ``row_bytes``, ``dtype``, ``shape`` and
    ``content_digest``, which may have the other members, too. A subclass that has `rows_in_place` needs nothing else.
    Members without arguments may be attributes, of the class or of an object, or properties.

    Passes go by what a source says of itself: rows whose `place` is on disk get a cache in memory and are read for
    several batches at once, those that say `rows_in_place` are read by a GPU where they are, and get a cache there.
    Prefetching calls `read` from several threads at once.

    >>> import torch
    >>> import headrace as hr
    >>> class Squares(hr.FeatureSource):  # computed as they are asked for
    ...     dtype, shape = torch.int64, (10,)
    ...
    ...     def read(self, ids, *, num_threads=1, to=hr.Place("cpu")):
    ...         return hr.Rows(ids * ids, {"computed": len(ids)})
    ...
    ...     def content_digest(self):
    ...         return "squares"
    >>> store = hr.FeatureStore(node={"x": Squares()})
    >>> loader = hr.ItemSampler(4, batch_size=2).fetch_feature(store, node=["x"]).loader()
    >>> [batch.x.tolist() for batch in loader], loader.stats()["fetch_feature"]["computed"]
    ([[0, 1], [4, 9]], 4)
    """

    _pinned: tuple[Pinned, Borrowed] | None = None

    @default
    def rows_in_place(self) -> Tensor | None:
        """All rows as one tensor, in CPU memory or of a mapped file; None if there is none.

        Rows of it are those that `read` returns. A GPU reads them in place, if the tensor is contiguous.
        """
        return None

    @default
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows together, num_rows first."""
        return tuple(self._whole("shape").shape)

    @default
    def dtype(self) -> torch_dtype:
        """Element type of the rows."""
        return self._whole("dtype").dtype

    @default
    def num_rows(self) -> int:
        """How many rows there are; ids run from 0 to num_rows - 1."""
        return self.shape[0]

    @default
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize if self.num_rows else 0

    @default
    def place(self) -> Place:
        """Where the rows are: in CPU memory, where another place is not said."""
        return CPU

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return the rows of `ids` (int64[num_ids] or int32[num_ids]), repeated ids included, as [num_ids, ...].

        They lie at the place `to`; a source that reads to CPU memory alone refuses any other. With them come counts,
        by which ``loader.stats()`` says where rows came from.
        """
        check_to(self, to)
        rows = gather_rows(self._whole("read"), ids, num_threads=num_threads)
        return Rows(rows, {f"bytes_from_{self.place.kind}": rows.nbytes})

    def content_digest(self) -> str:
        """Return a string that differs when the rows differ."""
        return sampled_digest([("rows", self._whole("content_digest"))])

    def read_into(
        self, ids: Tensor, out: Tensor, *, places: Tensor | None = None, num_threads: int = 1
    ) -> Mapping[str, int]:
        """Write the rows of `ids` to the rows `places` of `out`, int64[num_ids] and distinct; by default one by one.

        `out` is [num_ids or more, ...], contiguous and of the dtype of the source. Returns the counts of `read`. A
        source that has this itself writes rows where they are wanted, and reads one again at little cost: ranks that
        make batches together then need no copies between reading rows and sending them.
        """
        rows, counts = checked_read(self, ids, num_threads=num_threads)
        out = out[: len(ids)] if places is None else out
        gather_rows(rows, torch.arange(len(ids), device="cpu"), out=out, places=places, num_threads=num_threads)
        return counts

    @default
    def places_rows(self) -> bool:
        """Whether `read_into` saves a copy: it does where the source has its own."""
        return type(self).read_into is not FeatureSource.read_into

    def reads_to(self, place: Place) -> bool:
        """Whether rows can be read right to a place: to CPU memory, or to a GPU, which may read `rows_in_place`."""
        if not isinstance(place, Place):
            check_to(self, place)  # refuses it
        if place == CPU:
            return True
        rows = self.rows_in_place
        return rows is not None and place.kind == "cuda" and self.place == CPU and is_readable_in_place(rows)

    def prepare(self, place: Place) -> None:
        """Make ready to read to a place: for a GPU `rows_in_place` are pinned, as long as this source lives.

        Raises
        ------
        DeviceError
            If they cannot be pinned.
        """
        rows = self.rows_in_place
        if place != CPU and rows is not None and (self._pinned is None or self._pinned[1].moved()):
            borrowed = Borrowed([rows])
            self._pinned = Pinned(rows), borrowed

    def read_in_place(self, ids: Tensor, to: Place) -> Rows:
        """Return rows of `rows_in_place`, read by the GPU that `ids` are on; all of them have rows."""
        self.prepare(to)  # anew where torch has moved the memory
        rows = gather_rows(self._whole("rows_in_place"), ids, trusted=True)
        return Rows(rows, {"bytes_from_pinned": rows.nbytes})

    @default
    def foresight(self) -> int:
        """Rows of reads to come that it wants to know of, as a look-ahead cache does; 0 if it gains nothing by that.

        A minibatch is a pure function of its index, so the loader knows the next ones, and says which rows they read.
        """
        return 0

    def foresees(self, place: Place) -> bool:
        """Whether reads to a place gain by that; where there is `foresight`, all do."""
        del place
        return True

    def expect(self, ids: Tensor) -> None:
        """Learn of a read to come, ids as of `read`, behind those that it has learnt of before."""

    def expect_nothing(self) -> None:
        """Forget the reads that are expected: an iteration has ended."""

    @default
    def version(self) -> int | None:
        """Another integer behind each write to the rows; None where nobody counts. See `FeatureStore`."""
        rows = self.rows_in_place
        return None if rows is None else version_of_tensor(rows)

    def version_reader(self) -> Callable[[], int | None] | None:
        """Return what returns `version`, faster; None where nobody counts."""
        return None if self.version is None else partial(getattr, self, "version")

    def update(self, ids: Tensor, rows: Tensor) -> None:
        """Change the rows of `ids`, int32[n] or int64[n] and each once, to `rows`, [n, ...].

        Raises
        ------
        FeatureError
            If nothing changes rows of such a source.
        """
        del ids, rows
        raise FeatureError(
            f"update: expected a source with a method update(ids, rows), got {name_of(self)}, which has none; change "
            "the rows there, and make anew what keeps copies of them"
        )

    def share_memory(self) -> None:
        """Move what is in memory to memory that processes share, where it can."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_pinned"}

    def _whole(self, member: str) -> Tensor:
        rows = self.rows_in_place
        if rows is None:
            raise FeatureError(
                f"expected {name_of(self)} to have {member!r}, or rows_in_place, got neither; define one"
            )
        return rows


class _Adapted(FeatureSource):
    """A source of another class, with the defaults for what it lacks."""

    def __init__(self, given: SourceLike) -> None:
        self.given = given

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Adapted) and bool(self.given == other.given)

    def __hash__(self) -> int:
        return hash(self.given)


def _adapted(name: str) -> property:
    """Return a member of `_Adapted`: that of the given source, or the default."""
    missing = inspect.getattr_static(FeatureSource, name)
    if name == "places_rows":
        return property(lambda adapted: getattr(adapted.given, name, hasattr(adapted.given, "read_into")))
    return property(
        lambda adapted: (
            getattr(adapted.given, name) if hasattr(adapted.given, name) else missing.__get__(adapted, FeatureSource)
        )
    )


for _member in [name for name in vars(FeatureSource) if not name.startswith("_")]:
    setattr(_Adapted, _member, _adapted(_member))


def is_source_like(given: object) -> bool:
    """Whether something has what a source cannot be without."""
    # Some tensors answer to being asked for members with an error of torch's own.
    return not isinstance(given, Tensor) and all(hasattr(given, name) for name in _NEEDED)


def in_contract(source: SourceLike) -> FeatureSource:
    """Return a source that has all members: the same, or one of another class with the defaults of those it lacks."""
    return source if issubclass(type(source), FeatureSource) else _Adapted(source)  # type: ignore[return-value]


def given_of(source: FeatureSource) -> FeatureSource:
    """Return the source as its user knows it."""
    return source.given if type(source) is _Adapted else source  # type: ignore[return-value]


def name_of(source: FeatureSource) -> str:
    """Return the name of the class that a source is of."""
    return type(given_of(source)).__name__
