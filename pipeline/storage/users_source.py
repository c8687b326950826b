"""Sources of users' classes: headrace reads them through a check of what they declare and return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.ops.gpu import device_of
from headrace.pipeline.data.arrays import describe, expected, refuse_gradient, whole_number
from headrace.pipeline.data.checks import as_counts
from headrace.pipeline.data.own_methods import check_methods, check_takes
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.storage.feature_source import Adapted, FeatureSource, SourceLike
from headrace.pipeline.storage.rows import Rows
from headrace.pipeline.storage.rows_of_users import ReturnedMemory

if TYPE_CHECKING:
    from headrace.pipeline.storage.decoding import Decoding


class UsersSource(Adapted):
    """A source of a user's class: its members, the defaults of those it lacks, and a check of each answer.

    Reads get ids of their own, so that writes to them change no batch. Rows in memory that the source holds as well are
    copied.

    Parameters
    ----------
    given
        The source.
    what
        What to call it in errors, such as "node feature 'x'".
    """

    def __init__(self, given: SourceLike, what: str = "") -> None:
        super().__init__(given)
        self._what = what
        self._memory = ReturnedMemory()
        self._declared: tuple[Any, tuple[int, ...]] = None, ()  # a shape, and that as a tuple of sizes

    @property
    def as_given(self) -> SourceLike:
        """The source as its user knows it."""
        return self.given

    def _take_name(self, what: str) -> None:
        self._what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return UsersSource, (self.given, self._what)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows together; see `FeatureSource`."""
        shape = self._asked("shape")
        last, sizes = self._declared
        if shape is last and type(shape) is tuple:
            return sizes
        listed = shape.tolist() if isinstance(shape, np.ndarray | Tensor) else shape
        if not isinstance(listed, tuple | list) or not len(listed):
            raise self._refused("shape to be a tuple of sizes, the number of rows first", shape)
        sizes = tuple([self._count("shape", size) for size in listed])
        self._declared = shape, sizes
        return sizes

    @property
    def dtype(self) -> torch_dtype:
        """Element type of the rows; see `FeatureSource`."""
        dtype = self._asked("dtype")
        if not isinstance(dtype, torch_dtype):
            raise self._refused("dtype to be a dtype of torch", dtype)
        return dtype

    @property
    def num_rows(self) -> int:
        """Number of rows; see `FeatureSource`."""
        num_rows, shape = self._count("num_rows", self._asked("num_rows")), self.shape
        if num_rows != shape[0]:
            raise self._refused(f"num_rows to be that of its shape, {list(shape)}", num_rows)
        return num_rows

    @property
    def row_bytes(self) -> int:
        """Bytes of one row; see `FeatureSource`."""
        return self._count("row_bytes", self._asked("row_bytes"))

    @property
    def place(self) -> Place:
        """The place of the rows; see `FeatureSource`."""
        place = self._asked("place")
        if not isinstance(place, Place):
            raise self._refused("place to be an hr.Place", place)
        return place

    @property
    def foresight(self) -> int:
        """Rows of coming reads to announce; see `FeatureSource`."""
        return self._count("foresight", self._asked("foresight"))

    @property
    def rows_in_place(self) -> Tensor | None:
        """All rows as one tensor; see `FeatureSource`."""
        rows = self._asked("rows_in_place")
        if rows is None:
            return None
        shape, dtype = self.shape, self.dtype
        if not isinstance(rows, Tensor) or not _is_dense(rows) or rows.shape != shape or rows.dtype != dtype:
            raise self._refused(f"rows_in_place to be {_text(dtype, shape)}, as its dtype and shape are", rows)
        refuse_gradient(rows, self._name("rows_in_place"))
        return rows

    def _check_declared(self) -> None:
        """Check all that the source declares, before anything is read.

        Raises
        ------
        InputError
            Naming the source and the member.
        """
        # A source that reads to CPU memory alone need not know of places; a digest may be an attribute.
        check_methods(self.given, FeatureSource, self._name("read").removesuffix(".read"), InputError, free=_FREE)
        rows = self._asked("rows_in_place")  # by which others may be declared
        if rows is not None and not isinstance(rows, Tensor):
            raise self._refused("rows_in_place to be a tensor of all rows, or None", rows)
        digest = self._asked("content_digest")
        if callable(digest):
            check_takes(digest, self._name("content_digest"), InputError)
        else:
            self.content_digest()
        for member in ("shape", "dtype", "num_rows", "row_bytes", "place", "foresight", "rows_in_place"):
            getattr(self, member)
        if rows is None and getattr(self._asked("read"), "__func__", None) is FeatureSource.read:
            raise InputError(
                f"{self._expected('read')} to be a method of its own, or rows_in_place to be a tensor of all rows, got "
                "neither; define one"
            )

    def version_reader(self) -> Callable[[], int | None] | None:
        """Return what returns the version; see `FeatureSource`."""
        reader: Callable[[], int | None] | None = self._asked("version_reader")()
        if reader is not None and not callable(reader):
            raise self._refused("version_reader to return a function that returns the version, or None", reader)
        return reader

    def content_digest(self) -> str:
        """Return a string that differs when the rows differ; it may be an attribute."""
        digest = self._asked("content_digest")
        digest = digest() if callable(digest) else digest
        if not isinstance(digest, str | int | bytes):
            raise self._refused("content_digest to return a string, a number or bytes", digest)
        return digest.hex() if isinstance(digest, bytes) else str(digest)

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return the rows of `ids`, checked; see `FeatureSource`."""
        places = {} if to is CPU else {"to": to}  # sources that read there alone need not know of places
        return self._rows("read", ids, to, self.dtype, num_threads=num_threads, **places)

    def read_in_place(self, ids: Tensor, to: Place) -> Rows:
        """Return rows that a GPU read, checked; see `FeatureSource`."""
        if not self._has_own("read_in_place"):
            return FeatureSource.read_in_place(self, ids, to)
        return self._rows("read_in_place", ids, to, self.dtype, to)

    def read_decoded(self, ids: Tensor, decoding: Decoding, *, num_threads: int = 1) -> Rows:
        """Return rows as they are wanted, checked; see `FeatureSource`."""
        if not self._has_own("read_decoded"):
            return FeatureSource.read_decoded(self, ids, decoding, num_threads=num_threads)
        return self._rows("read_decoded", ids, CPU, decoding.dtype, decoding, num_threads=num_threads)

    def read_into(
        self, ids: Tensor, out: Tensor, *, places: Tensor | None = None, num_threads: int = 1
    ) -> Mapping[str, int]:
        """Write rows to their destination; its counts are checked. See `FeatureSource`."""
        if not self._has_own("read_into"):
            return FeatureSource.read_into(self, ids, out, places=places, num_threads=num_threads)
        places = None if places is None else places.clone()
        counts = self._call("read_into", ids.clone(), out, places=places, num_threads=num_threads)
        return as_counts(counts, self._name("read_into"), InputError)

    def reading_order(self, ids: Tensor) -> Tensor:
        """Return the order in which to read rows, each once; see `FeatureSource`."""
        order = self._call("reading_order", ids.clone())
        numbers = torch.arange(len(ids), device="cpu")
        if (
            not isinstance(order, Tensor)
            or order.dtype != torch.int64
            or order.shape != numbers.shape
            or not torch.equal(order.sort().values.cpu(), numbers)
        ):
            got = describe(order)
            if isinstance(order, Tensor) and order.dtype == torch.int64 and order.shape == numbers.shape:
                found, times = Counter(order.tolist()).most_common(1)[0]
                got = f"{found} {times} times" if times > 1 else f"{int(order.min())} to {int(order.max())}"
            raise InputError(
                f"{self._expected('reading_order')} to return the numbers 0 to {len(ids) - 1}, each once, as int64, "
                f"got {got}; see help(hr.FeatureSource)"
            )
        return order

    def expect(self, ids: Tensor) -> None:
        """Announce a coming read; see `FeatureSource`."""
        self._call("expect", ids.clone())

    def _rows(self, member: str, ids: Tensor, to: Place, dtype: torch_dtype, /, *args: Any, **options: Any) -> Rows:
        """Return the rows of ids that a member returns, if they are that, in memory that nobody else holds."""
        method = self._asked(member)

        def read() -> tuple[Any, ...]:
            returned = method(ids.clone(), *args, **options)
            if not isinstance(returned, tuple) or not 1 <= len(returned) <= 2 or isinstance(returned[0], tuple):
                kind = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
                if isinstance(returned, tuple) and returned and isinstance(returned[0], tuple):
                    kind = f"a tuple around {type(returned[0]).__name__}, as of a comma behind it"
                raise InputError(
                    f"{self._expected(member)} to return rows and counts, got {kind}; return hr.Rows(rows), or "
                    "hr.Rows(rows, counts) with what loader.stats() is to show"
                )
            self._check(member, returned[0], ids, to, dtype)
            return returned

        returned = self._memory.own_rows(read)
        counts = returned[1] if len(returned) > 1 else _NO_COUNTS
        if counts is _NO_COUNTS:
            return Rows(returned[0])
        return Rows(returned[0], as_counts(counts, self._name(member), InputError))

    def _check(self, member: str, rows: Any, ids: Tensor, to: Place, dtype: torch_dtype) -> None:
        """Refuse what are not the rows of ids that the source declares."""
        shape = (ids.shape[0], *self.shape[1:])
        if (
            isinstance(rows, Tensor)
            and _is_dense(rows)
            and rows.dtype == dtype
            and rows.shape == shape
            and _is_at(rows, to)
        ):
            if rows.requires_grad:
                refuse_gradient(rows, f"{self._name(member)}: rows")
            return
        kind = describe(rows) if isinstance(rows, Tensor) else type(rows).__name__
        layout = f" of layout {rows.layout}" if isinstance(rows, Tensor) and not _is_dense(rows) else ""
        wrong = ""
        if isinstance(rows, Tensor):
            differs = {"device": not _is_at(rows, to), "layout": not _is_dense(rows), "dtype": rows.dtype != dtype}
            wrong = f", of another {next((name for name, is_wrong in differs.items() if is_wrong), 'shape')}"
        raise InputError(
            f"{self._expected(member)} to return {_text(dtype, shape)} on {to} for {len(ids)} ids, as its dtype and "
            f"shape declare, got {kind}{layout}{wrong}; return a row for each id, in their order, or declare what "
            "it returns"
        )

    def _count(self, member: str, value: Any) -> int:
        return value if type(value) is int and value >= 0 else whole_number(value, self._name(member), 0, InputError)

    def _has_own(self, member: str) -> bool:
        """Whether the class of the source has a member of its own."""
        own = getattr(type(self.given), member, None)
        return hasattr(self.given, member) and own is not getattr(FeatureSource, member)

    def _asked(self, member: str) -> Any:
        value = getattr(self.given, member, _ABSENT)
        return getattr(super(), member) if value is _ABSENT else value

    def _call(self, member: str, /, *args: Any, **options: Any) -> Any:
        method: Callable[..., Any] = self._asked(member)
        return method(*args, **options)

    def _name(self, member: str) -> str:
        of_store = f"{self._what}: " if self._what else ""
        return f"{of_store}{type(self.given).__name__}.{member}"

    def _expected(self, member: str) -> str:
        return expected(self._name(member))

    def _refused(self, wanted: str, got: object) -> InputError:
        member, _, rest = wanted.partition(" ")
        text = repr(got) if got is None or isinstance(got, int | float | str | tuple | list) else describe(got)
        return InputError(f"{self._expected(member)} {rest}, got {text}; see help(hr.FeatureSource)")


_ABSENT = object()

#: The counts of rows that have none.
_NO_COUNTS = Rows._field_defaults["counts"]

#: What sources need not have as `FeatureSource` has it.
_FREE = frozenset({"to", "content_digest"})


def _is_at(rows: Tensor, place: Place) -> bool:
    if place.on_host:
        return rows.is_cpu
    return device_of(rows) is not None and (rows.is_cpu or place.index in (None, rows.device.index))


def _is_dense(rows: Tensor) -> bool:
    return rows.layout == torch.strided and not rows.is_nested


def _text(dtype: torch_dtype, shape: tuple[int, ...]) -> str:
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}"
