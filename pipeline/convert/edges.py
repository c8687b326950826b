"""The edges of the graph by their ids: of tables, then those that are added, type by type; some are left out.

Edges are sorted by destination, and those of one destination by their ids: the order of `Graph.from_coo`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

import numpy as np

from headrace.ops.errors import InputError
from headrace.ops.forks import cached_property
from headrace.pipeline.convert.attributes import Attribute
from headrace.pipeline.convert.database import drop, literal, sql_type
from headrace.pipeline.convert.description import EdgeType
from headrace.pipeline.convert.ends import Ends
from headrace.pipeline.convert.report import edges_text
from headrace.pipeline.convert.work_folder import Facts
from headrace.pipeline.data.reverse_types import reverse_type

if TYPE_CHECKING:
    from headrace.pipeline.convert.conversion import Conversion


@dataclass(frozen=True, eq=False)
class EdgeRun:
    """Edges that follow each other by their ids.

    Parameters
    ----------
    what
        "table"; "added" reverse edges of a table, and "loops", both in its type; or "reverse" of a table, in a type of
        its own.
    type
        Of the table; None in a graph without types.
    rows
        The table of DuckDB, with the columns of `Ends`.
    attributes
        By attribute, its column there; others have their fill.
    """

    what: Literal["table", "added", "loops", "reverse"]
    type: EdgeType | None
    rows: str
    attributes: dict[str, str]
    num_edges: int


class GraphEdges:
    """The edges of a conversion whose tables of edges were read, and whose nodes were counted.

    Attributes
    ----------
    num_loops
        How many loops were added to a type.
    """

    def __init__(self, conversion: Conversion) -> None:
        self._conversion = conversion
        self._options = conversion.tables.options
        self.num_loops: dict[EdgeType | None, int] = {}
        self._num_added: dict[int, int] = {}

    @property
    def types(self) -> Iterable[EdgeType | None]:
        """The types of the tables of edges."""
        return self._conversion.tables.edges

    def run(self) -> None:
        """Leave edges out and add some, type by type; take into the conversion what stays."""
        conversion = self._conversion
        for place, edge_type in enumerate(conversion.tables.edges):
            ends = {number: one for number, (name, _, one) in enumerate(conversion.ends) if name == edge_type}
            facts = conversion.work.once(
                f"edges of type {place}",
                lambda: self._of_type(place, edge_type, ends),  # noqa: B023
            )
            for number, one in ends.items():
                kept = facts["kept"][str(number)]
                if str(number) in facts["once"]:
                    conversion.ends[number] = (*conversion.ends[number][:2], _once(one, kept))
                self._num_added[number] = facts["added"].get(str(number), 0)
            repeats = sum(one.num_edges for one in ends.values()) - sum(facts["kept"].values())
            what = "summed up in it" if self._options.duplicate_edges == "sum" else "left out"
            self.count(edge_type, f"that repeat another one, {what}", repeats)
            if "loops" in facts:
                self.num_loops[edge_type] = facts["loops"]
                self.count(edge_type, "that are loops added", facts["loops"])
            self.count(edge_type, "that are reverse edges added", sum(facts["added"].values()))
        conversion.num_edges = {}
        for run in self.runs:
            name = reverse_type(run.type) if run.what == "reverse" and run.type is not None else run.type
            conversion.num_edges[name] = conversion.num_edges.get(name, 0) + run.num_edges

    def count(self, edge_type: EdgeType | None, what: str, number: int) -> None:
        """Take a number of edges of a type into the report."""
        self._conversion.count(f"{edges_text(edge_type)} {what}", number)

    @cached_property
    def runs(self) -> list[EdgeRun]:
        """All edges in the order of their ids."""
        found, ends = [], list(enumerate(self._conversion.ends))
        for place, edge_type in enumerate(self._conversion.tables.edges):
            mine = [(number, one) for number, (name, _, one) in ends if name == edge_type]
            found += [EdgeRun("table", edge_type, one.name, dict(one.columns), one.num_edges) for _, one in mine]
            found += [
                EdgeRun("added", edge_type, f"{one.name}_back", dict(one.columns), self._num_added[number])
                for number, one in mine
                if self._num_added[number]
            ]
            if self.num_loops.get(edge_type):
                found.append(EdgeRun("loops", edge_type, f"loops{place}", {}, self.num_loops[edge_type]))
        reverse = self._conversion.tables.are_reversed
        return found + [
            EdgeRun("reverse", name, one.name, dict(one.columns), one.num_edges)
            for _, (name, _, one) in ends
            if name in reverse
        ]

    def in_order(self) -> str:
        """Return the query of all edges: ``src``, ``dst``, ``edge`` and a column of each attribute, in their order."""
        starts = list(accumulate((run.num_edges for run in self.runs), initial=0))
        of_runs = [self._select(run, start) for run, start in zip(self.runs, starts, strict=False)]
        return f"SELECT * FROM ({' UNION ALL '.join(of_runs)}) ORDER BY dst, edge" if of_runs else ""

    def _select(self, run: EdgeRun, first: int) -> str:
        """Return the query of a run, whose first edge has a given id."""
        conversion = self._conversion
        starts = dict(zip(conversion.num_nodes, accumulate(conversion.num_nodes.values(), initial=0), strict=False))
        src, dst = (
            f"{name} + {starts[of]}" for name, of in zip(("src", "dst"), conversion.tables.ends(run.type), strict=True)
        )
        ends = (dst, src) if run.what == "reverse" else (src, dst)
        values = [
            f"{run.attributes.get(name) or literal(one.filled, one.dtype)} AS attribute{place}"
            for place, (name, one) in enumerate(conversion.edge_attributes.items())
        ]
        columns = [f"{ends[0]} AS src", f"{ends[1]} AS dst", f"edge + {first} AS edge", *values]
        return f"SELECT {', '.join(columns)} FROM {run.rows}"

    def _of_type(self, place: int, edge_type: EdgeType | None, ends: dict[int, Ends]) -> Facts:
        base, options = self._conversion.base, self._options
        src, dst = self._conversion.tables.ends(edge_type)
        kept = {str(number): one.num_edges for number, one in ends.items()}
        once = {} if options.duplicate_edges == "keep" else self._without_repeats(ends)
        facts: Facts = {"kept": kept | once, "once": list(once), "added": {}}
        ends = {number: _once(one, once[str(number)]) if str(number) in once else one for number, one in ends.items()}
        pairs = " UNION ALL ".join(f"SELECT src, dst FROM {one.name}" for one in ends.values())
        if options.undirected and src == dst:
            for number, one in ends.items():
                values = _numbered_anew(one, "dst AS src", "src AS dst")
                base.execute(
                    f"CREATE OR REPLACE TABLE {one.name}_back AS SELECT {values} FROM {one.name} x "
                    f"WHERE NOT EXISTS (SELECT 1 FROM ({pairs}) y WHERE y.src = x.dst AND y.dst = x.src)"
                )
                facts["added"][str(number)] = base.value(f"SELECT count(*) FROM {one.name}_back")
        if options.loops == "add" and src == dst:
            base.execute(
                f"CREATE OR REPLACE TABLE loops{place} AS SELECT row_number() OVER (ORDER BY node) - 1 AS edge, "
                f"node AS src, node AS dst FROM range({self._conversion.num_nodes[src]}) r(node) "
                f"WHERE NOT EXISTS (SELECT 1 FROM ({pairs}) y WHERE y.src = node AND y.dst = node)"
            )
            facts["loops"] = base.value(f"SELECT count(*) FROM loops{place}")
        return facts

    def _without_repeats(self, ends: dict[int, Ends]) -> dict[str, int]:
        """Make tables of the first edge between each two nodes, where others repeat it; return how many each has."""
        base, sums = self._conversion.base, self._options.duplicate_edges == "sum"
        weight = self._conversion.edge_attributes["weight"] if sums else None
        starts = list(accumulate((one.num_edges for one in ends.values()), initial=0))
        numbered = list(zip(ends.items(), starts, strict=False))
        pairs = " UNION ALL ".join(
            f"SELECT edge + {start} AS edge, src, dst{_weight_of(one, weight)} FROM {one.name}"
            for (_, one), start in numbered
        )
        of_sums = ", src, dst, count(*) AS repeats" if sums else ""
        base.execute(
            f"CREATE OR REPLACE TABLE firsts AS SELECT min(edge) AS first{of_sums} FROM ({pairs}) GROUP BY src, dst"
        )
        if weight is not None:
            base.execute(
                "CREATE OR REPLACE TABLE sums AS SELECT first, sum(weight ORDER BY edge) AS weight "
                f"FROM ({pairs}) p JOIN firsts f ON f.src = p.src AND f.dst = p.dst AND repeats > 1 GROUP BY first"
            )
            self._check_sums(numbered, weight)
        kept = {}
        for (number, one), start in numbered:
            inside = f"first >= {start} AND first < {start + one.num_edges}"
            stay = base.value(f"SELECT count(*) FROM firsts WHERE {inside}")
            has_sums = weight is not None and base.value(f"SELECT count(*) > 0 FROM sums WHERE {inside}")
            if stay < one.num_edges or has_sums:
                kept[str(number)] = stay
                fewer, rows = _once(one, stay).name, one.name
                drop(base, fewer)
                if weight is not None:
                    column = one.columns["weight"]
                    of_sum = f"CAST(coalesce(weight, {column}) AS {sql_type(weight.dtype)}) AS {column}"
                    rows = f"(SELECT x.* REPLACE ({of_sum}) FROM {rows} x LEFT JOIN sums ON first = edge + {start})"
                base.execute(
                    f"CREATE TABLE {fewer} AS SELECT {_numbered_anew(one, 'src', 'dst')} FROM {rows} "
                    f"WHERE edge + {start} IN (SELECT first FROM firsts)"
                )
        base.execute("DROP TABLE firsts")
        base.execute("DROP TABLE IF EXISTS sums")
        return kept

    def _check_sums(self, numbered: Sequence[tuple[tuple[int, Ends], int]], weight: Attribute) -> None:
        """Refuse sums that the dtype of weights has not."""
        most = np.finfo(weight.dtype).max if weight.dtype.kind == "f" else np.iinfo(weight.dtype).max
        large = self._conversion.base.row(
            f"SELECT first, weight FROM sums WHERE weight > {most} ORDER BY first LIMIT 1"
        )
        if large is None:
            return
        (number, ends), start = next(one for one in reversed(numbered) if one[1] <= large[0])
        row = self._conversion.base.value(f"SELECT row FROM {ends.name} WHERE edge = {large[0] - start}")
        table = self._conversion.ends[number][1].table
        raise InputError(
            f"convert: {table.where(row)}: expected a sum of weights that fits {weight.dtype}, got {large[1]} of this "
            "edge and those that repeat it; write weights in a larger type"
        )


def _once(ends: Ends, num_edges: int) -> Ends:
    """Return the edges of a table without those that repeat another one, which are in a table of their own."""
    name = f"{ends.name}_once"
    return replace(ends, name=name, num_edges=num_edges, pairs=name if ends.pairs == ends.name else ends.pairs)


def _weight_of(ends: Ends, weight: Attribute | None) -> str:
    """Return in SQL the column of weights to sum up, after a comma; nothing where none are."""
    if weight is None:
        return ""
    return f", CAST({ends.columns['weight']} AS {'DOUBLE' if weight.dtype.kind == 'f' else 'HUGEINT'}) AS weight"


def _numbered_anew(ends: Ends, src: str, dst: str) -> str:
    """Return in SQL the columns of some of the edges of a table, which count from 0 in the order of its rows."""
    return ", ".join(["row", "row_number() OVER (ORDER BY row) - 1 AS edge", src, dst, *ends.columns.values()])
