"""Edges of all types in the order of their ids, in the one id space of all nodes, read from files piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.pipeline.convert.raw_array import RawArray


@dataclass(frozen=True, eq=False)
class Segment:
    """Edges that follow each other, of one type.

    Parameters
    ----------
    src, dst
        Node numbers within their types.
    src_start, dst_start
        The first ids of these types.
    attributes
        By name a file, or the value of all edges.
    """

    num_edges: int
    src: RawArray
    dst: RawArray
    src_start: int
    dst_start: int
    attributes: Mapping[str, RawArray | float | int]


def index_dtype(largest: int) -> np.dtype[np.signedinteger]:
    """Return the dtype of ids below a number: int32 where they fit."""
    return np.dtype(np.int32 if largest <= np.iinfo(np.int32).max else np.int64)


def record_dtype(num_nodes: int, num_edges: int, attributes: Mapping[str, np.dtype[np.generic]]) -> np.dtype[np.void]:
    """Return the dtype of an edge between passes: its ends, its id, and its attributes by place."""
    of_node, of_edge = index_dtype(num_nodes), index_dtype(num_edges)
    fields = [("dst", of_node), ("src", of_node), ("id", of_edge)]
    return np.dtype([*fields, *((f"a{place}", one) for place, one in enumerate(attributes.values()))])


def records(
    segments: Sequence[Segment], dtype: np.dtype[np.void], names: Sequence[str], at_a_time: int
) -> Iterator[np.ndarray]:
    """Yield all edges as records, by their ids."""
    first = 0
    for one in segments:
        for start in range(0, one.num_edges, at_a_time):
            stop = min(start + at_a_time, one.num_edges)
            found = np.empty(stop - start, dtype)
            np.add(one.src.rows(start, stop), one.src_start, out=found["src"], casting="unsafe")
            np.add(one.dst.rows(start, stop), one.dst_start, out=found["dst"], casting="unsafe")
            found["id"] = np.arange(first + start, first + stop)
            for place, name in enumerate(names):
                rows = one.attributes[name]
                found[f"a{place}"] = rows.rows(start, stop) if isinstance(rows, RawArray) else rows
            yield found
        first += one.num_edges
