"""What reading from a source returns: rows, and what was counted on the way."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.features.gather import empty_rows
from headrace.ops.gpu import resolved
from headrace.pipeline.data import CPU, Place, describe
from headrace.pipeline.data.checks import as_present_device

if TYPE_CHECKING:
    from headrace.pipeline.storage.decoding import Decoding
    from headrace.pipeline.storage.feature_source import FeatureSource


class Rows(NamedTuple):
    """Rows that a feature source read, and its counts, which ``loader.stats()`` adds up for the stage that fetches.

    Bytes are counted by the kind of their place, as ``bytes_from_cpu``; a cache adds its hits and misses.

    >>> import torch
    >>> import headrace as hr
    >>> store = hr.FeatureStore(node={"x": torch.eye(3)})
    >>> rows, counts = store.node["x"].read(torch.tensor([2, 0]))
    >>> rows.tolist(), counts
    ([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], {'bytes_from_cpu': 24})

    Parameters
    ----------
    rows: [num_ids, ...]
        The rows.
    counts
        Numbers by name.
    """

    rows: Tensor
    counts: Mapping[str, int] = MappingProxyType({})


def add_counts(totals: dict[str, int], counts: Mapping[str, int]) -> None:
    """Add counts to totals."""
    for name, count in counts.items():
        totals[name] = totals.get(name, 0) + count


def read_rows(
    source: FeatureSource,
    ids: Tensor,
    totals: dict[str, int],
    *,
    num_threads: int,
    to: Place = CPU,
    decoding: Decoding | None = None,
) -> Tensor:
    """Return the rows of `ids`; add their number, their bytes and what the source counted to `totals`.

    Rows in CPU memory may be decoded on the way; their bytes are those that are stored.
    """
    if decoding is None:
        rows, counts = read_to(source, ids, num_threads=num_threads, to=to)
        num_bytes = rows.nbytes
    else:
        rows, counts = source.read_decoded(ids, decoding, num_threads=num_threads)
        num_bytes = len(rows) * source.row_bytes
    totals["rows"] = totals.get("rows", 0) + rows.shape[0]
    totals["bytes"] = totals.get("bytes", 0) + num_bytes
    for name, count in counts.items():  # not by add_counts: small batches feel each call
        totals[name] = totals.get(name, 0) + count
    return rows


def read_to(source: FeatureSource, ids: Tensor, *, num_threads: int, to: Place = CPU) -> Rows:
    """Return the rows of `ids` at a place, and what was counted."""
    if to is CPU:
        return source.read(ids, num_threads=num_threads)
    if source.rows_in_place is not None:
        return source.read_in_place(ids, to)
    return source.read(ids, num_threads=num_threads, to=to)


def place_rows(
    source: FeatureSource,
    ids: Tensor,
    out: Tensor,
    *,
    totals: dict[str, int],
    places: Tensor | None = None,
    num_threads: int,
) -> None:
    """Let a source write the rows of `ids` into `out`, and add what it counted to `totals`."""
    add_counts(totals, source.read_into(ids, out, places=places, num_threads=num_threads))


def read_by_writing(source: FeatureSource, ids: Tensor, *, num_threads: int, to: Place) -> Rows:
    """Return the rows of `ids`, which the `read_into` of a source writes to CPU memory.

    Raises
    ------
    InputError
        For another place, for what is no tensor of ids, and as of `read_into`.
    """
    check_to(source, to)
    out = empty_rows((num_ids(ids, source), *source.shape[1:]), source.dtype)
    return Rows(out, source.read_into(ids, out, num_threads=num_threads))


def num_ids(ids: object, source: object) -> int:
    """Return how many ids are asked for; what is no tensor of one dimension is refused.

    Raises
    ------
    InputError
        Naming the source.
    """
    if not isinstance(ids, Tensor) or ids.ndim != 1:
        raise InputError(
            f"{type(source).__name__}.read: expected ids to be int32 or int64 in one dimension, got {describe(ids)}"
        )
    return len(ids)


def check_to(source: object, to: Place) -> None:
    """Refuse to read to another place than CPU memory, for sources that know no other.

    Raises
    ------
    InputError
        Saying what to do instead.
    """
    if to is not CPU and not isinstance(to, Place):
        raise InputError(
            f"{type(source).__name__}.read: expected to to be an hr.Place, got {type(to).__name__}; write "
            "hr.Place.parse('cpu')"
        )
    if to is not CPU and to != CPU:
        raise InputError(
            f"{type(source).__name__}.read: expected to=cpu, where ids are and it can read rows to, got to={to}; read "
            "them to cpu, and let copy_to move them"
        )


def refuse_absent_cache(source: object) -> None:
    """Refuse a cache on a GPU that is not here, through which nothing would be read.

    Raises
    ------
    HeadraceError
        If torch finds no such GPU, and nothing stands in for it.
    """
    while source is not None:
        place = getattr(source, "cache_place", None)
        if isinstance(place, Place) and place.kind == "cuda":
            as_present_device(resolved(str(place)), "CachedFeature")
        source = getattr(source, "source", None)
