"""The edges of the graph by their ids: of tables, then those that are added, type by type; some are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.ops.forks import cached_property
from headrace.pipeline.convert.bit_set import BitSet
from headrace.pipeline.convert.description import EdgeType
from headrace.pipeline.convert.memory import rows_within
from headrace.pipeline.convert.report import edges_text
from headrace.pipeline.convert.sort_edges import EdgeSorter, NodeNumbers, Segment
from headrace.pipeline.convert.unique_edges import EdgeKinds, unique_files, without, write_kept
from headrace.pipeline.data.reverse_types import reverse_type

if TYPE_CHECKING:
    from headrace.pipeline.convert.conversion import Conversion

#: Returns which edges stay, of those from one place of a table to another.
Staying = Callable[[int, int], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class EdgeRun:
    """Edges that follow each other by their ids.

    Parameters
    ----------
    what
        "table"; "added" reverse edges of a table, and "loops", both in its type; or "reverse" of a table, in a type of
        its own.
    table
        The number of the table; None of loops.
    """

    what: Literal["table", "added", "loops", "reverse"]
    type: EdgeType | None
    table: int | None
    num_edges: int


@dataclass(frozen=True, eq=False)
class EdgesThatStay:
    """What the sort has found.

    Parameters
    ----------
    are_sorted
        Whether edges are in the order of their ids.
    dropped
        The ids of edges that were left out; None for none.
    num_loops
        How many loops were added to a type.
    """

    are_sorted: bool
    dropped: BitSet | None
    num_loops: dict[EdgeType | None, int]


class GraphEdges:
    """The edges of a conversion whose tables of edges were read, and whose nodes were counted."""

    def __init__(self, conversion: Conversion) -> None:
        self._conversion = conversion
        self._options = conversion.tables.options
        self._ends = list(conversion.ends)  # as they were read: those of the conversion lose repeats
        self._runs = list(self._all_runs())

    @cached_property
    def sorter(self) -> EdgeSorter:
        """What sorts the edges of all types."""
        conversion = self._conversion
        dtypes = {name: one.dtype for name, one in conversion.edge_attributes.items()}
        types = {name: number for number, name in enumerate(conversion.tables.edges)}
        numbers = [types[run.type] + len(types) * (run.what == "reverse") for run in self._runs]
        kinds = EdgeKinds(
            np.array([0, *accumulate(run.num_edges for run in self._runs)][:-1], np.int64),
            np.array(numbers, np.int64),
            np.array([run.what in ("added", "loops") for run in self._runs]),
            len(types) * (2 if conversion.tables.are_reversed else 1),
            self._options.duplicate_edges == "drop",
        )
        segments = [self._segment(run) for run in self._runs]
        num_nodes = sum(conversion.num_nodes.values())
        return EdgeSorter(conversion.work, segments, num_nodes, dtypes, conversion.room, kinds)

    def run(self) -> EdgesThatStay:
        """Sort the edges, leave some out, and count those of each type."""
        result = self.sorter.run(self._conversion.bar)
        for name, count in zip(self._conversion.tables.edges, result["repeats"], strict=False):
            done = "left out" if self._options.duplicate_edges == "drop" else "kept"
            self._count(name, f"that repeat another one, {done}", count)
        dropped = self._dropped(result["dropped"])
        return EdgesThatStay(result["sorted"], dropped, self._leave_out(dropped))

    def _all_runs(self) -> Iterator[EdgeRun]:
        ends = list(enumerate(self._ends))
        for edge_type in self._conversion.tables.edges:
            mine = [(number, facts["num_edges"]) for number, (name, _, _, facts) in ends if name == edge_type]
            yield from (EdgeRun("table", edge_type, *one) for one in mine)
            src, dst = self._conversion.tables.ends(edge_type)
            if self._options.undirected and src == dst:
                yield from (EdgeRun("added", edge_type, *one) for one in mine)
            if self._options.loops == "add" and src == dst:
                yield EdgeRun("loops", edge_type, None, self._conversion.num_nodes[src])
        reverse = self._conversion.tables.are_reversed
        for number, (name, _, _, facts) in ends:
            if name in reverse:
                yield EdgeRun("reverse", name, number, facts["num_edges"])

    def _segment(self, run: EdgeRun) -> Segment:
        conversion = self._conversion
        counts = conversion.num_nodes
        starts = dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))
        src, dst = (starts[one] for one in conversion.tables.ends(run.type))
        if run.table is None:
            rows: dict[str, Any] = {name: one.filled for name, one in conversion.edge_attributes.items()}
            return Segment(run.num_edges, NodeNumbers(), NodeNumbers(), src, dst, rows)
        _, _, files, _ = self._ends[run.table]
        rows = {
            name: files.attributes[name] if name in files.attributes else one.filled  # noqa: SIM401 - lazily
            for name, one in conversion.edge_attributes.items()
        }
        if run.what == "table":
            return Segment(run.num_edges, files.src, files.dst, src, dst, rows)
        return Segment(run.num_edges, files.dst, files.src, dst, src, rows)

    def _dropped(self, count: int) -> BitSet | None:
        """Return the ids of edges that were left out."""
        if not count:
            return None
        num_ids, room = self.sorter.num_edges, self._conversion.room
        if num_ids // 4 > room:
            raise InputError(
                f"convert: expected memory for {num_ids:,} edges of which some go, a quarter of a byte each, got room "
                f"for {4 * room:,}; give more memory"
            )
        found = BitSet(num_ids)
        for some in self.sorter.dropped.pieces(count, rows_within(room // 8, 48)):
            found.add(some)
        return found

    def _leave_out(self, dropped: BitSet | None) -> dict[EdgeType | None, int]:
        """Leave edges out of their tables, and return how many loops were added to a type."""
        conversion, first, loops = self._conversion, 0, {}
        conversion.num_edges = {}
        for run in self._runs:
            last = first + run.num_edges
            gone = 0 if dropped is None else int(np.diff(dropped.num_below(np.array([first, last])))[0])
            if run.table is None:
                loops[run.type] = run.num_edges - gone
                self._count(run.type, "that are loops added", loops[run.type])
            elif run.what == "table" and gone:
                self._write_fewer(run.table, _staying(first, dropped))
            elif run.what == "added":
                self._write_reversed(run.table, _staying(first, dropped))
                self._count(run.type, "that are reverse edges added", run.num_edges - gone)
            name = reverse_type(run.type) if run.what == "reverse" and run.type is not None else run.type
            conversion.num_edges[name] = conversion.num_edges.get(name, 0) + run.num_edges - gone
            first = last
        return loops

    def _write_fewer(self, number: int, staying: Staying) -> None:
        """Write the ends of a table again, without edges that go."""
        edge_type, edge, files, facts = self._ends[number]
        fewer = self._conversion.work.once(
            f"drop repeats {number}", lambda: without(files, facts, staying, self._conversion.room)
        )
        self._conversion.ends[number] = (edge_type, edge, unique_files(files), fewer)

    def _write_reversed(self, number: int, staying: Staying) -> None:
        """Write which rows of a table have a reverse edge that was added."""
        _, _, files, facts = self._ends[number]
        self._conversion.work.once(
            f"reverse edges {number}",
            lambda: {"added": write_kept(files, facts, staying, files.reversed, self._conversion.room)},
        )

    def _count(self, edge_type: EdgeType | None, what: str, number: int) -> None:
        self._conversion.count(f"{edges_text(edge_type)} {what}", number)


def _staying(first: int, dropped: BitSet | None) -> Staying:
    """Return what tells which edges stay of those from one place to another behind a first id."""

    def staying(start: int, stop: int) -> NDArray[np.bool_]:
        return np.ones(stop - start, bool) if dropped is None else ~dropped.between(first + start, first + stop)

    return staying
