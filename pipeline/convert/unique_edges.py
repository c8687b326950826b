"""Edges between the same nodes: found while edges of one destination are together, counted, and left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.convert.bit_set import BitSet
from headrace.pipeline.convert.edge_ends import EndFiles
from headrace.pipeline.convert.memory import rows_within
from headrace.pipeline.convert.raw_array import RawArray
from headrace.pipeline.convert.work_folder import Facts

#: Keys of edges are below.
_MOST_KEYS = 1 << 62


@dataclass(frozen=True, eq=False)
class EdgeKinds:
    """What edges of ranges of ids are.

    Parameters
    ----------
    starts: int64[num_ranges]
        The first id of each range, ascending.
    types: int64[num_ranges]
        A number for each edge type.
    are_added: bool[num_ranges]
        Whether edges stay only if none of a table is between the same nodes; they follow all others of their type.
    num_types
        How many types there are.
    drop_repeats
        Whether only the first edge of a type between two nodes stays.
    """

    starts: NDArray[np.int64]
    types: NDArray[np.int64]
    are_added: NDArray[np.bool_]
    num_types: int
    drop_repeats: bool

    @property
    def leave_out(self) -> bool:
        """Whether some edges may be left out."""
        return self.drop_repeats or bool(self.are_added.any())

    def of(self, ids: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the ranges of ids."""
        return np.searchsorted(self.starts, ids, side="right") - 1


def to_leave_out(
    edges: np.ndarray, rows: range, num_nodes: int, kinds: EdgeKinds
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which records go, and for each type how many edges of tables have one before them between the same nodes.

    Parameters
    ----------
    edges
        Records with "dst", "src" and "id", by their ids, with all those of a destination.
    rows
        The destinations of the records.
    """
    ranges = kinds.of(edges["id"])
    of_type, are_added = kinds.types[ranges], kinds.are_added[ranges]
    is_first = np.zeros(len(edges), bool)
    is_first[:1] = True
    keys = _keys(edges, rows, num_nodes, kinds)
    if keys is None:
        order = np.lexsort((edges["id"], of_type, edges["src"], edges["dst"]))
        for column in (edges["dst"], edges["src"], of_type):
            is_first[1:] |= column[order[1:]] != column[order[:-1]]
    else:
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        is_first[1:] = keys[1:] != keys[:-1]
    firsts = np.maximum.accumulate(np.where(is_first, np.arange(len(edges)), 0))
    added = are_added[order]
    is_repeat = ~is_first & ~added
    found = np.zeros(len(edges), bool)
    found[order] = ~is_first & (kinds.drop_repeats | (added & ~added[firsts]))
    return found, np.bincount(of_type[order[is_repeat]], minlength=kinds.num_types)


def count_repeats(edges: np.ndarray, rows: range, num_nodes: int, kinds: EdgeKinds) -> NDArray[np.int64]:
    """Return for each type how many records have one before them between the same nodes, where all stay.

    `to_leave_out` has the parameters.
    """
    keys = _keys(edges, rows, num_nodes, kinds)
    if keys is None:
        return to_leave_out(edges, rows, num_nodes, kinds)[1]
    keys.sort()
    same = keys[1:][keys[1:] == keys[:-1]]
    return np.bincount(same % kinds.num_types, minlength=kinds.num_types)


def _keys(edges: np.ndarray, rows: range, num_nodes: int, kinds: EdgeKinds) -> NDArray[np.int64] | None:
    """Return a number for each destination, source and type; None if there are too many of these."""
    if len(rows) * num_nodes >= _MOST_KEYS // max(1, kinds.num_types):
        return None
    keys: NDArray[np.int64] = (edges["dst"].astype(np.int64) - rows.start) * num_nodes + edges["src"]
    if kinds.num_types > 1:
        keys *= kinds.num_types
        keys += kinds.types[kinds.of(edges["id"])]
    return keys


class EdgesToOne:
    """Finds repeats among the edges to one node, which need not be in memory at a time but follow by their ids.

    It takes an eighth of a byte for each node.
    """

    def __init__(self, num_nodes: int, kinds: EdgeKinds) -> None:
        self._num_nodes, self._kinds = num_nodes, kinds
        self._type = -1
        self._seen = BitSet(0)

    def next(self, edges: np.ndarray) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return of the next records what `to_leave_out` returns of all."""
        ranges = self._kinds.of(edges["id"])
        of_type, are_added = self._kinds.types[ranges], self._kinds.are_added[ranges]
        gone, counts = np.zeros(len(edges), bool), np.zeros(self._kinds.num_types, np.int64)
        for number in np.unique(of_type).tolist():
            if number != self._type:  # of the next one
                self._type, self._seen = number, BitSet(self._num_nodes)
            for added in (False, True):  # the order of ids
                places = np.flatnonzero((of_type == number) & (are_added == added))
                if not len(places):
                    continue
                unique, firsts = np.unique(edges["src"][places], return_index=True)
                is_repeat = np.ones(len(places), bool)
                is_repeat[firsts] = self._seen.has(unique)
                if self._kinds.drop_repeats:
                    gone[places] = is_repeat
                elif added:  # each stays that no edge of a table precedes
                    gone[places] = self._seen.has(edges["src"][places])
                if self._kinds.drop_repeats or not added:
                    self._seen.add(unique)
                if not added:
                    counts[number] += int(is_repeat.sum())
        return gone, counts


def without(files: EndFiles, facts: Facts, staying: Callable[[int, int], NDArray[np.bool_]], room: int) -> Facts:
    """Write the ends of a table of edges again without some of them.

    Parameters
    ----------
    staying
        Returns which edges stay of those from one place to another, among the edges that stayed so far.

    Returns
    -------
    Facts
        Those of the `unique_files`, in which `EndFiles.kept` leaves these rows out too.
    """
    made = unique_files(files)
    with made.src.writer() as src, made.dst.writer() as dst:

        def write(place: int, stay: NDArray[np.bool_]) -> None:
            for old, writer in ((files.src, src), (files.dst, dst)):
                writer.append(old.rows(place, place + len(stay))[stay])

        count = write_kept(files, facts, staying, made.kept, room, also=write)
    return {**facts, "num_edges": count}


def write_kept(
    files: EndFiles,
    facts: Facts,
    staying: Callable[[int, int], NDArray[np.bool_]],
    target: RawArray,
    room: int,
    *,
    also: Callable[[int, NDArray[np.bool_]], None] | None = None,
) -> int:
    """Write which rows of a table of edges stay, and return how many do; `without` has the parameters."""
    everything = facts["num_rows"] == facts["num_edges"]
    at_a_time, place, total = rows_within(room // 8, 64), 0, 0
    with target.writer() as kept:
        for start in range(0, facts["num_rows"], at_a_time):
            stop = min(start + at_a_time, facts["num_rows"])
            flags = np.ones(stop - start, bool) if everything else files.kept.rows(start, stop)
            count = int(flags.sum())
            stay = staying(place, place + count)
            if also is not None:
                also(place, stay)
            flags[flags] = stay
            kept.append(flags)
            place += count
            total += int(stay.sum())
    return total


def unique_files(files: EndFiles) -> EndFiles:
    """Return the files that `without` writes."""

    def other(array: RawArray) -> RawArray:
        return replace(array, path=array.path.with_name(f"{array.path.name}.unique"))

    return replace(files, src=other(files.src), dst=other(files.dst), kept=other(files.kept))
