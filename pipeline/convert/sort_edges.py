"""Edges sorted by destination in bounded memory: a count, buckets of destinations on the disk, a sort of each.

Files are written from their beginnings to their ends; what is scattered is scattered in memory. Edges of one
destination keep the order of their ids, so those of a type follow each other. The result is that of `Graph.from_coo`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import coo_to_csc
from headrace.pipeline.convert.memory import rows_within
from headrace.pipeline.convert.raw_array import RawArray
from headrace.pipeline.convert.unique_edges import EdgeKinds, EdgesToOne, count_repeats, to_leave_out
from headrace.pipeline.convert.work_folder import Facts, WorkFolder

#: Bins of destinations that are counted, of which buckets are made.
_BINS = 1 << 18

#: Files of buckets that are open at a time.
MOST_BUCKETS = 400

#: Edges that one sort has at least.
LEAST_AT_ONCE = 1024

#: What a sort takes for each edge of a bucket beside three times its record: the order, and what the kernel returns.
_SORT_BYTES = 40

#: What it takes for each destination of a bucket.
_ROW_BYTES = 32


@dataclass(frozen=True, eq=False)
class NodeNumbers:
    """The numbers of all nodes of a type, as a column of ends."""

    def rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return some numbers."""
        return np.arange(start, stop)


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
    src: RawArray | NodeNumbers
    dst: RawArray | NodeNumbers
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


@dataclass(frozen=True, eq=False)
class SortedEdges:
    """Files of a graph in CSC form.

    Parameters
    ----------
    indptr: int64[num_nodes + 1]
    indices, edge_ids: [num_edges]
        int32 or int64, as they need.
    attributes
        By name, [num_edges].
    """

    indptr: RawArray
    indices: RawArray
    edge_ids: RawArray
    attributes: Mapping[str, RawArray]


@dataclass(frozen=True, eq=False)
class EdgeSorter:
    """Sorts the edges of a graph.

    Parameters
    ----------
    dtypes
        Of the attributes by name.
    room
        Bytes of memory.
    kinds
        What edges are, by their ids, and which of those between the same nodes stay.
    """

    work: WorkFolder
    segments: Sequence[Segment]
    num_nodes: int
    dtypes: Mapping[str, np.dtype[Any]]
    room: int
    kinds: EdgeKinds

    @property
    def num_edges(self) -> int:
        """The number of edges."""
        return sum(one.num_edges for one in self.segments)

    @property
    def record(self) -> np.dtype[np.void]:
        """The dtype of an edge between passes."""
        return record_dtype(self.num_nodes, self.num_edges, self.dtypes)

    @property
    def files(self) -> SortedEdges:
        """The files of the result."""
        names = [
            RawArray(self.work.file(f"csc.attribute{place}"), one) for place, one in enumerate(self.dtypes.values())
        ]
        return SortedEdges(
            RawArray(self.work.file("csc.indptr"), np.dtype(np.int64)),
            RawArray(self.work.file("csc.indices"), index_dtype(self.num_nodes)),
            RawArray(self.work.file("csc.edge_ids"), index_dtype(self.num_edges)),
            dict(zip(self.dtypes, names, strict=True)),
        )

    @property
    def at_once(self) -> int:
        """How many edges one sort may have."""
        return max(LEAST_AT_ONCE, self.room // (3 * self.record.itemsize + _SORT_BYTES))

    @property
    def dropped(self) -> RawArray:
        """The ids of the edges that are left out, of one bucket behind those of the other."""
        return RawArray(self.work.file("csc.dropped"), np.dtype(np.int64))

    def run(self, bar: Callable[[str, int | None], Any]) -> Facts:
        """Sort the edges.

        Returns
        -------
        Facts
            Numbers of ``edges`` in the result and of edges ``dropped``, whether they were ``sorted`` already, and for
            each type how many ``repeats`` of edges between the same nodes its tables have.

        Parameters
        ----------
        bar
            Makes a progress bar of a pass over some edges.
        """
        bounds = self.work.once("count edges", lambda: self._count(bar))["bounds"]
        buckets = [RawArray(self.work.file(f"bucket{place}"), self.record) for place in range(len(bounds) - 1)]
        counts = [self.num_edges]
        if not self._fits(range(bounds[0], bounds[1])):
            counts = self.work.once("distribute edges", lambda: self._distribute(bounds, buckets, bar))["counts"]
        done: Facts = {"edges": 0, "dropped": 0, "sorted": True, "last": -1, "repeats": [0] * self.kinds.num_types}
        with bar("sort edges", self.num_edges) as progress:
            for place, (bucket, count) in enumerate(zip(buckets, counts, strict=True)):
                rows = range(bounds[place], bounds[place + 1])
                done = self.work.once(f"sort edges {place}", lambda: self._sort(rows, bucket, count, done))  # noqa: B023
                bucket.remove()
                progress.update(count)
        return done

    def _fits(self, rows: range) -> bool:
        """Whether one sort takes the edges of all nodes, which then need no files of buckets."""
        return rows == range(self.num_nodes) and self.num_edges <= self.at_once

    def _records(self) -> Iterator[np.ndarray]:
        at_a_time = rows_within(self.room // 8, 2 * self.record.itemsize + 32)
        return records(self.segments, self.record, list(self.dtypes), at_a_time)

    def _count(self, bar: Callable[[str, int | None], Any]) -> Facts:
        """Count the edges by bins of destinations, and return the bounds of buckets of whole bins."""
        width = -(-self.num_nodes // _BINS)
        most_rows = max(width, self.room // 4 // _ROW_BYTES)
        if self.num_edges <= self.at_once and self.num_nodes <= most_rows:
            return {"bounds": [0, self.num_nodes]}
        num_bins = -(-self.num_nodes // width)
        bins = np.zeros(num_bins, np.int64)
        with bar("count edges", self.num_edges) as progress:
            for one in self.segments:
                for start in range(0, one.num_edges, 1 << 18):
                    dst = one.dst.rows(start, min(start + (1 << 18), one.num_edges))
                    bins += np.bincount((dst.astype(np.int64) + one.dst_start) // width, minlength=num_bins)
                    progress.update(len(dst))
        fitting = max(self.at_once, -(-self.num_edges // MOST_BUCKETS) * 2)
        bounds, held = [0], 0
        for place, count in enumerate(bins.tolist()):
            if (held and held + count > fitting) or (place + 1) * width - bounds[-1] > most_rows:
                bounds.append(place * width)
                held = 0
            held += count
        return {"bounds": [*bounds, self.num_nodes]}

    def _distribute(self, bounds: list[int], buckets: list[RawArray], bar: Callable[[str, int | None], Any]) -> Facts:
        """Write each edge to the bucket of its destination."""
        counts = np.zeros(len(buckets), np.int64)
        uppers = np.array(bounds[1:-1])
        with ExitStack() as stack, bar("distribute edges", self.num_edges) as progress:
            writers = [stack.enter_context(one.writer()) for one in buckets]
            for some in self._records():
                if len(buckets) == 1:
                    writers[0].append(some)
                    counts[0] += len(some)
                else:
                    of_bucket = np.searchsorted(uppers, some["dst"], side="right").astype(np.uint16)
                    # A radix sort, as there are 16 bits; of records `take` is five times as fast as an index.
                    ordered = some.take(np.argsort(of_bucket, kind="stable"))
                    sizes = np.bincount(of_bucket, minlength=len(buckets))
                    counts += sizes
                    start = 0
                    for place in np.flatnonzero(sizes).tolist():
                        writers[place].append(ordered[start : start + sizes[place]])
                        start += int(sizes[place])
                progress.update(len(some))
        return {"counts": counts.tolist()}

    def _sort(self, rows: range, bucket: RawArray, count: int, done: Facts) -> Facts:
        """Sort one bucket, and append it to the result."""
        start, is_sorted, last = done["edges"], done["sorted"], done["last"]
        files, repeats, hub = self.files, np.array(done["repeats"], np.int64), -1
        with ExitStack() as stack:
            indptr = stack.enter_context(files.indptr.writer(rows.start + 1 if rows.start else 0))
            if not rows.start:
                indptr.append(np.zeros(1, np.int64))
            ends = np.zeros(len(rows), np.int64)
            dropped = stack.enter_context(self.dropped.writer(done["dropped"]))
            columns = {"src": files.indices, "id": files.edge_ids}
            columns |= {f"a{place}": one for place, one in enumerate(files.attributes.values())}
            writers = {name: stack.enter_context(one.writer(start)) for name, one in columns.items()}
            for part, found in self._parts(rows, bucket, count):
                edges = found
                if len(part) == 1:  # perhaps one piece of many
                    if part.start != hub:
                        hub, edges_of_hub = part.start, EdgesToOne(self.num_nodes, self.kinds)
                    gone, counts = edges_of_hub.next(edges)
                elif self.kinds.leave_out:
                    gone, counts = to_leave_out(edges, part, self.num_nodes, self.kinds)
                else:
                    gone, counts = None, count_repeats(edges, part, self.num_nodes, self.kinds)
                if gone is not None and self.kinds.leave_out:
                    dropped.append(edges["id"][gone])
                    edges = edges.take(np.flatnonzero(~gone))
                repeats += counts
                local = edges["dst"] - edges["dst"].dtype.type(part.start)
                sources = None
                if len(part) == 1:  # in the order of ids already
                    order = None
                    ends[part.start - rows.start] += len(edges)
                else:
                    # Sources are sorted along where they are ids of these nodes.
                    is_whole = len(part) == self.num_nodes
                    csc = coo_to_csc(edges["src"] if is_whole else local, local, len(part))
                    sources = csc.indices.numpy() if is_whole else None
                    order = None if csc.edge_ids is None else csc.edge_ids.numpy()
                    ends[part.start - rows.start : part.stop - rows.start] = np.diff(csc.indptr.numpy())
                    del csc
                del local
                for name, writer in writers.items():
                    if name == "src" and sources is not None:
                        column = sources
                    else:
                        column = edges[name] if order is None else edges[name].take(order)
                    if name == "id" and is_sorted and len(column):
                        is_sorted = last < int(column[0]) and bool((column[1:] > column[:-1]).all())
                        last = int(column[-1])
                    writer.append(column)
                start += len(edges)
            np.cumsum(ends, out=ends)
            ends += done["edges"]
            indptr.append(ends)
            num_dropped = dropped.num_rows
        return {"edges": start, "dropped": num_dropped, "sorted": is_sorted, "last": last, "repeats": repeats.tolist()}

    def _parts(self, rows: range, bucket: RawArray, count: int) -> Iterator[tuple[range, np.ndarray]]:
        """Yield the edges of a bucket, whole if they fit, or by runs of destinations; of one destination in pieces."""
        if self._fits(rows):
            found, start = np.empty(count, self.record), 0
            for some in self._records():
                found[start : start + len(some)] = some
                start += len(some)
            yield rows, found
            return
        if count <= self.at_once:
            yield rows, bucket.rows(0, count)
            return
        sizes = np.zeros(len(rows), np.int64)
        at_a_time = max(LEAST_AT_ONCE, self.at_once // 2)
        for some in bucket.pieces(count, at_a_time):
            sizes += np.bincount(some["dst"] - rows.start, minlength=len(rows))
        first = 0
        while first < len(rows):
            last, held = first + 1, int(sizes[first])
            while last < len(rows) and held + sizes[last] <= self.at_once:
                held += int(sizes[last])
                last += 1
            part = range(rows.start + first, rows.start + last)
            inside = (
                some.take(np.flatnonzero((some["dst"] >= part.start) & (some["dst"] < part.stop)))
                for some in bucket.pieces(count, at_a_time)
            )
            if len(part) == 1:
                yield from ((part, some) for some in inside)
            else:
                yield part, np.concatenate(list(inside))
            first = last
