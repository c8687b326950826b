"""The contract of feature sources: the members that stages, caches and passes use, each with a default."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops import InputError, gather_rows
from headrace.ops.borrowed import Borrowed
from headrace.ops.features.pinned import Pinned, is_readable_in_place
from headrace.pipeline.data.arrays import version_of_tensor
from headrace.pipeline.data.digest import content_mark, sampled_digest
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.data.seen import STRUCTURE_BELOW_BYTES, WHOLE_BELOW_BYTES
from headrace.pipeline.storage.rows import Rows, check_to, read_to

if TYPE_CHECKING:
    from headrace.pipeline.storage.decoding import Decoding, Quantization

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
    """The required members of a feature source."""

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
    """Rows addressed by id, with the members that stages, caches and passes use.

    A source is a subclass, or any other object with ``read``, ``num_rows``, ``row_bytes``, ``dtype``, ``shape`` and
    ``content_digest``, and optionally the other members. A subclass with `rows_in_place` needs nothing else. Members
    without arguments may be properties, or attributes of the class or the object.

    Passes read these members, never the class: rows with the `place` disk get a cache in memory and are read for
    several batches at once; sources with `rows_in_place` are read directly by a GPU, and get a cache there. Prefetching
    calls `read` from several threads at once.

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

        It has the rows that `read` returns. A GPU reads them in place if the tensor is contiguous.
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
        """Return the number of rows; ids are 0 to num_rows - 1."""
        return self.shape[0]

    @default
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize if self.num_rows else 0

    @default
    def quantization(self) -> Quantization | None:
        """Scale and zero point of rows that are codes, as of `hr.QuantizedFeature`; None of rows that are numbers."""
        return None

    @default
    def place(self) -> Place:
        """Return the place of the rows; by default CPU memory."""
        return CPU

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return the rows of `ids` (int64[num_ids] or int32[num_ids]), repeated ids included, as [num_ids, ...].

        The rows are a dense tensor of the `dtype` and the row `shape` of the source, without a gradient, at the place
        `to`; a source that only reads to CPU memory refuses any other. The counts, such as the bytes from each place,
        are finite numbers by name, and added up in ``loader.stats()``. A `InputError` that names the source refuses
        anything else that a user's `read` returns. It may write into `ids`, which are its own. Rows in memory that the
        source holds as well are copied, so that it may write there again.
        """
        check_to(self, to)
        rows = gather_rows(self._whole("read"), ids, num_threads=num_threads)
        return Rows(rows, {f"bytes_from_{self.place.kind}": rows.nbytes})

    def read_decoded(self, ids: Tensor, decoding: Decoding, *, num_threads: int = 1) -> Rows:
        """Return the rows of `ids` in CPU memory as ``decoding(rows)`` makes them, with the counts of `read`.

        A source with its own method decodes them in the pass that gathers them.
        """
        rows, counts = read_to(self, ids, num_threads=num_threads)
        return Rows(decoding(rows, num_threads=num_threads), counts)

    def content_digest(self) -> str:
        """Return a string that differs when the rows differ."""
        return sampled_digest([("rows", self._whole("content_digest"))])

    def read_into(
        self, ids: Tensor, out: Tensor, *, places: Tensor | None = None, num_threads: int = 1
    ) -> Mapping[str, int]:
        """Write the rows of `ids` to the rows `places` of `out`, int64[num_ids] and distinct; by default one by one.

        `out` is [num_ids or more, ...], contiguous and with the dtype of the source. It returns the counts of `read`. A
        source with its own method writes rows directly to their destination, at little cost for a repeated row: ranks
        that make batches together then copy nothing between reading rows and sending them.
        """
        rows, counts = read_to(self, ids, num_threads=num_threads)
        out = out[: len(ids)] if places is None else out
        gather_rows(rows, torch.arange(len(ids), device="cpu"), out=out, places=places, num_threads=num_threads)
        return counts

    def reading_order(self, ids: Tensor) -> Tensor:
        """Return the order in which to read rows, as positions in `ids`, int64[num_ids]; by default that of the ids."""
        return ids.argsort()

    @default
    def places_rows(self) -> bool:
        """Whether `read_into` saves a copy: true if the source has its own method."""
        return type(self).read_into is not FeatureSource.read_into

    def reads_to(self, place: Place) -> bool:
        """Whether rows can be read directly to a place: to CPU memory, or to a GPU that can read `rows_in_place`."""
        if not isinstance(place, Place):
            check_to(self, place)  # refuses it
        if place == CPU:
            return True
        rows = self.rows_in_place
        return rows is not None and place.kind == "cuda" and self.place == CPU and is_readable_in_place(rows)

    def prepare(self, place: Place) -> None:
        """Prepare reads to a place: for a GPU, pin `rows_in_place` for the lifetime of the source.

        Raises
        ------
        HeadraceError
            If they cannot be pinned.
        """
        rows = self.rows_in_place
        if place != CPU and rows is not None and (self._pinned is None or self._pinned[1].moved()):
            borrowed = Borrowed([rows])
            self._pinned = Pinned(rows), borrowed

    def read_in_place(self, ids: Tensor, to: Place) -> Rows:
        """Return rows of `rows_in_place`, read by the GPU with `ids`, all of which must have rows."""
        self.prepare(to)  # anew where torch has moved the memory
        rows = gather_rows(self._whole("rows_in_place"), ids, trusted=True)
        return Rows(rows, {"bytes_from_pinned": rows.nbytes})

    @default
    def foresight(self) -> int:
        """Return the number of rows of coming reads to announce, as for a look-ahead cache; 0 if it gains nothing.

        A minibatch is a pure function of its index, so the loader knows the next ones, and announces the rows that they
        read.
        """
        return 0

    def foresees(self, place: Place) -> bool:
        """Whether reads to a place gain by announcements; by default all do, with `foresight`."""
        del place
        return True

    def expect(self, ids: Tensor) -> None:
        """Take the ids of a coming `read`, after those announced before."""

    def expect_nothing(self) -> None:
        """Forget the announced reads, because an iteration has ended."""

    @default
    def version(self) -> int | None:
        """Return an integer that changes with each write; None if writes are not counted. See `FeatureStore`."""
        rows = self.rows_in_place
        return None if rows is None else version_of_tensor(rows)

    def version_reader(self) -> Callable[[], int | None] | None:
        """Return a faster function for `version`; None if writes are not counted."""
        return None if self.version is None else partial(getattr, self, "version")

    def content_mark(self) -> str | None:
        """Return a string that differs when the rows were written; None if nobody can tell.

        Caches and tiers compare it with that of the time of their copies, when an iteration begins. By default all
        bytes of `rows_in_place` are compared up to 1 GiB (0.1 s), or up to 16 MiB where they are on disk; above that, a
        sample. Rows that are nowhere in place have none: they count writes in `version`, or define this method.
        """
        rows = self.rows_in_place
        if rows is None:
            return None
        return content_mark(rows, WHOLE_BELOW_BYTES if self.place == CPU else STRUCTURE_BELOW_BYTES)

    def check_copies(self) -> None:
        """Drop copies of rows that were written since, or refuse to go on with them; called when an iteration begins.

        Sources without copies do nothing. A source over another one calls that of the other one.

        Raises
        ------
        InputError
            If there are such copies, and they cannot be dropped.
        """

    def update(self, ids: Tensor, rows: Tensor) -> None:
        """Change the rows of `ids`, int32[n] or int64[n] and each once, to `rows`, [n, ...].

        Raises
        ------
        InputError
            If the source does not support updates.
        """
        del ids, rows
        raise InputError(
            f"update: expected a source with a method update(ids, rows), got {name_of(self)}, which has none; change "
            "the rows there, and make anew what keeps copies of them"
        )

    def share_memory(self) -> None:
        """Move the rows to shared memory, if the source supports that."""

    def _take_name(self, what: str) -> None:
        """Take a name for errors: that of the store that the source was put into last."""

    def _check_declared(self) -> None:
        """Check what a user's class declares, before work starts; headrace's own is right."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_pinned"}

    def _whole(self, member: str) -> Tensor:
        rows = self.rows_in_place
        if rows is None:
            raise InputError(f"expected {name_of(self)} to have {member!r}, or rows_in_place, got neither; define one")
        return rows


class Adapted(FeatureSource):
    """A source that another one has the members of, with the defaults for what that lacks."""

    def __init__(self, given: SourceLike) -> None:
        self.given = given

    def _take_name(self, what: str) -> None:
        if isinstance(self.given, FeatureSource):
            self.given._take_name(what)  # noqa: SLF001 - of the same class

    def _check_declared(self) -> None:
        if isinstance(self.given, FeatureSource):
            self.given._check_declared()  # noqa: SLF001 - of the same class

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Adapted) and bool(self.given == other.given)

    def __hash__(self) -> int:
        return hash(self.given)


def _adapted(name: str) -> property:
    """Return a member of `Adapted`: that of the given source, or the default."""
    missing = inspect.getattr_static(FeatureSource, name)
    if name == "places_rows":
        return property(lambda adapted: getattr(adapted.given, name, hasattr(adapted.given, "read_into")))

    def member(adapted: Adapted) -> Any:
        try:
            return getattr(adapted.given, name)
        except AttributeError:
            if hasattr(type(adapted.given), name):  # it is there, and failed within
                raise
            return missing.__get__(adapted, FeatureSource)

    return property(member)


for _member in [name for name in vars(FeatureSource) if not name.startswith("_")]:
    setattr(Adapted, _member, _adapted(_member))


def is_source_like(given: object) -> bool:
    """Whether an object has the required members of a source."""
    # Some tensors answer to being asked for members with an error of torch's own.
    return not isinstance(given, Tensor) and all(hasattr(given, name) for name in _NEEDED)


def given_of(source: FeatureSource) -> FeatureSource:
    """Return the source as its user knows it."""
    given: FeatureSource = getattr(source, "as_given", source)
    return given


def name_of(source: object) -> str:
    """Return the name of the class that a source is of, as its user knows it."""
    return type(getattr(source, "as_given", source)).__name__
