"""The passes of a conversion in their order: ids of nodes, ends of edges, items, the sort, and the arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.ops import InputError
from headrace.ops.forks import cached_property
from headrace.ops.warn_user import warn_user
from headrace.pipeline.convert.attributes import Attribute, joined_attributes
from headrace.pipeline.convert.checked import Checked, attributes_of
from headrace.pipeline.convert.database import Database, drop
from headrace.pipeline.convert.description import EdgeTable, EdgeType, NodeTable
from headrace.pipeline.convert.edges import GraphEdges
from headrace.pipeline.convert.ends import Ends, columns_of_attributes, num_shared, read_rows, take_ends
from headrace.pipeline.convert.formats.other_rows import WithoutRows
from headrace.pipeline.convert.ids import NodeIds, are_texts, find_keys, repeats_of
from headrace.pipeline.convert.item_rows import (
    ItemColumns,
    ItemRun,
    columns_of_nodes,
    read_edge_split,
    read_items,
    read_node_splits,
    runs_of,
)
from headrace.pipeline.convert.output import Output
from headrace.pipeline.convert.report import edges_text
from headrace.pipeline.convert.unused_ids import advice_of, has_row_numbers, unused_id, warning_of
from headrace.pipeline.convert.work_folder import Facts, WorkFolder
from headrace.pipeline.convert.write_arrays import ArraysOfDataset
from headrace.pipeline.storage.dataset.manifest import Manifest

#: A larger number of nodes, without a table of them, must have edges for some of them.
MOST_NODES_UNTOLD = 1 << 28

Bar = Callable[[str, int | None], Any]


class Conversion:
    """The passes over tables that were checked.

    Parameters
    ----------
    tables
        What to read.
    work
        The passes that are finished, and files between passes.
    base
        Tables between passes.
    room
        Bytes of memory for arrays.
    bar
        Makes a progress bar of a pass over a number of rows.
    check
        Called behind each pass over tables, and at the end: refuses files that have changed.
    """

    def __init__(
        self, tables: Checked, work: WorkFolder, base: Database, room: int, bar: Bar, check: Callable[[], None]
    ) -> None:
        self.tables = tables
        self.base = base
        self.work = work
        self.room = room
        self.bar = bar
        self.output = Output(work, bar)
        self.num_nodes: dict[str, int] = {}
        self.num_edges: dict[EdgeType | None, int] = {}
        self.warnings: list[str] = []
        self._check = check
        self._ids: dict[str, NodeIds] = {}
        self._ends: list[tuple[EdgeType | None, EdgeTable, Ends]] = []
        self._largest: list[dict[str, int]] = []
        self._largest_of_items: list[tuple[str, int]] = []
        self._counts: dict[str, int] = {}

    def run(self, notes: Mapping[str, Any]) -> Manifest:
        """Run the passes that are not finished, and return the manifest of what they have written."""
        _ = self.edge_attributes  # which refuses some tables
        for place, (name, node) in enumerate(self.tables.nodes.items()):
            self._look_for_ids(node)
            self._ids[name] = self._find_ids(place, node)
        self._read_edges()
        items = self._read_items()
        self._count_nodes()
        self.graph_edges.run()
        manifest = ArraysOfDataset(self).write(self._with_splits(items), {**notes, "counts": self._counts})
        self._check()
        return manifest

    def source_pass(self, name: str, run: Callable[[], Facts]) -> Facts:
        """Run a pass that reads tables, unless it is finished."""

        def checked_run() -> Facts:
            facts = run()
            self._check()
            return facts

        return self.work.once(name, checked_run)

    def ids(self, node_type: str) -> NodeIds:
        """Return the ids of a type."""
        return self._ids[node_type]

    def count(self, what: str, number: int) -> None:
        """Take a number into the report, unless it is 0."""
        if number:
            self._counts[what] = self._counts.get(what, 0) + number

    def warn(self, text: str) -> None:
        """Warn of something now, which the report names too: later passes may take hours."""
        self.warnings.append(text)
        warn_user(f"convert: {text}")

    @property
    def ends(self) -> list[tuple[EdgeType | None, EdgeTable, Ends]]:
        """The tables of edges with what stays of them."""
        return self._ends

    @cached_property
    def edge_attributes(self) -> dict[str, Attribute]:
        """The attributes of all edges."""
        return joined_attributes(
            [(one.table, attributes_of(one)) for _, one in self.tables.edge_tables()],
            nulls_are_earliest=self.tables.options.null_times == "earliest",
            what="edge",
            some_added=self.tables.options.loops == "add",
        )

    @cached_property
    def graph_edges(self) -> GraphEdges:
        """The edges of the graph: those of tables that were read, and those that are added."""
        return GraphEdges(self)

    def _look_for_ids(self, node: NodeTable) -> None:
        """Warn of a column that has the ids of nodes by its name, where nodes are numbered by their rows."""
        column, table = unused_id(node), node.table
        if column is not None and table is not None:
            found = self.source_pass(
                f"look at {column} of {node.type}", lambda: {"are_rows": has_row_numbers(table, column)}
            )
            if not found["are_rows"]:
                self.warn(warning_of(node, column))

    def _find_ids(self, place: int, node: NodeTable) -> NodeIds:
        """Find the ids of the nodes of a type, by a pass over tables if that takes one."""
        references = [one for one in self.tables.references() if one.type == node.type]
        options = self.tables.options
        create = options.unknown_ids == "create"
        is_text = are_texts(node, references)
        if is_text or node.external or (node.table is not None and node.id is not None):
            name = f"keys{place}"

            def run() -> Facts:
                tables = [] if node.table is None else [node.table]
                tables += [one.table for one in references] if create or node.table is None else []
                rows = [one.about_rows() for one in {id(one): one for one in tables}.values()]
                total = None if None in rows else sum(one or 0 for one in rows)
                with self.bar(f"find the ids of {node.type}", total) as progress:
                    arguments = (self.base, name, node, references)
                    return find_keys(*arguments, options=options, room=self.room, advance=progress.update)

            facts = self.source_pass(f"ids of {node.type}", run)
            _check_number(node, facts["num_rows"])
            if facts["repeats"]:
                self._leave_out_repeats(node, name, facts)
            keys = None if facts["are_numbers"] else name
            return NodeIds(facts["num_nodes"], facts["num_rows"], keys, is_text=is_text, is_key=True)
        if node.table is None:
            return NodeIds(None if create else node.num_nodes, node.num_nodes or 0)
        num_rows = node.table.num_rows
        if num_rows is None:
            num_rows = self.source_pass(f"rows of {node.type}", lambda: {"num_rows": _count_rows(node)})["num_rows"]
        _check_number(node, num_rows)
        return NodeIds(None if create else num_rows, num_rows, advice=advice_of(node))

    def _leave_out_repeats(self, node: NodeTable, keys: str, facts: Facts) -> None:
        """Read the rows of a type from now on without those that repeat an id."""
        assert node.table is not None
        batches = self.base.batches(f"SELECT row FROM {repeats_of(keys)}")
        rows = (batch.column(0).to_numpy() for batch in batches)
        table = WithoutRows(node.table, facts["num_rows"] + facts["repeats"], rows)
        self.tables = replace(self.tables, nodes={**self.tables.nodes, node.type: replace(node, table=table)})
        self.count(f"rows of {node.type} that repeat an id, left out", facts["repeats"])

    def _read_edges(self) -> None:
        reads = self.tables.edge_reads()
        is_needed = [False] * len(reads)
        for number, (edge_type, edge) in enumerate(self.tables.edge_tables()):
            of_table = next(place for place, one in enumerate(reads) if one.reads_with(edge))
            read = self.source_pass(
                f"read edges {of_table}",
                lambda: self._read_rows(of_table, edge_type, edge),  # noqa: B023
            )
            facts = self.work.once(
                f"ends of edges {number}",
                lambda: self._take_ends(number, of_table, edge_type, edge),  # noqa: B023
            )
            columns = columns_of_attributes(edge)
            self._ends.append(
                (edge_type, edge, Ends(f"ends{number}", columns, read["num_rows"], facts["num_edges"], facts["pairs"]))
            )
            is_needed[of_table] |= facts["needs_rows"]
            self._largest.append({side: facts[side] for side in ("src", "dst")})
            self.num_edges[edge_type] = self.num_edges.get(edge_type, 0) + facts["num_edges"]
            of_type = edges_text(edge_type)
            left, num_rows = facts["counts"]["unknown"], facts["num_rows"]
            if left and 2 * left >= num_rows:
                self.warn(
                    f"{left:,} of {num_rows:,} rows of {edge.table.name} are left out, as no node has their ids in "
                    f"{edge.src!r} or {edge.dst!r}; are src and dst swapped, or ids written differently?"
                )
            for what, text in (("unknown", "to unknown nodes left out"), ("loops", "that are loops left out")):
                self.count(f"{of_type} {text}", facts["counts"][what])
            self.count(f"{of_type}: held out as items alone", facts["counts"]["held out"])
            self.count(
                f"ids that are both in {edge.src!r} and in {edge.dst!r}, one node each (if they are of two types, "
                "describe these in TOML)",
                read["shared"],
            )
            done = "left out" if self.tables.options.null_times == "drop" else "made the earliest"
            self.count(f"{of_type} without a time {done}", facts["counts"]["null times"])
        for place, needed in enumerate(is_needed):
            if not needed:
                drop(self.base, f"rows{place}")

    def _read_rows(self, of_table: int, edge_type: EdgeType | None, edge: EdgeTable) -> Facts:
        with self.bar(f"read {edge.table.name}", edge.table.num_rows) as progress:
            arguments = (edge, self._ids_of_ends(edge_type), self.tables.options, self.room, progress.update)
            facts = read_rows(self.base, f"rows{of_table}", *arguments)
        num_nodes = self._ids[self.tables.ends(edge_type)[0]].num_nodes or 0
        # Of so many nodes that there is no room for two bits of each nobody is told.
        is_counted = self._may_be_of_two_types(edge) and num_nodes < self.room // 8
        return {**facts, "shared": num_shared(self.base, f"rows{of_table}", num_nodes) if is_counted else 0}

    def _may_be_of_two_types(self, edge: EdgeTable) -> bool:
        """Whether nothing tells that the two columns of a table of edges, which are keys, have ids of one type."""
        name, node = next(iter(self.tables.nodes.items()))
        is_told = self.tables.is_typed or node.table is not None or edge.src == edge.dst
        return not is_told and self._ids[name].is_key

    def _take_ends(self, number: int, of_table: int, edge_type: EdgeType | None, edge: EdgeTable) -> Facts:
        types = self.tables.ends(edge_type)
        return take_ends(
            self.base,
            f"ends{number}",
            f"rows{of_table}",
            edge,
            self._ids_of_ends(edge_type),
            self.edge_attributes,
            self.tables.options,
            same_type=types[0] == types[1],
        )

    def _ids_of_ends(self, edge_type: EdgeType | None) -> tuple[NodeIds, NodeIds]:
        src, dst = self.tables.ends(edge_type)
        return self._ids[src], self._ids[dst]

    def _read_items(self) -> list[tuple[str, ItemRun]]:
        found, references = [], {one.key: one for one in self.tables.references()}
        for number, items in enumerate(self.tables.items):
            key = f"items{number}"
            mine = [one for side in ("src", "dst") if (one := references.get(f"{key}.{side}"))]
            columns = ItemColumns(items.table, items.labels, items.time, self.tables.options.null_times)
            ids = [self._ids[one.type] for one in mine]

            def run() -> Facts:
                with self.bar(f"read {items.table.name}", items.table.num_rows) as progress:  # noqa: B023
                    arguments = (self.base, self.work, key, items, ids, columns, self.tables.options, self.room)  # noqa: B023
                    return read_items(*arguments, progress.update)

            facts = self.source_pass(f"read {key}", run)
            self.count(f"items {items.name} of unknown nodes left out", facts["counts"]["unknown"])
            if self.tables.options.null_times == "drop":
                self.count(f"items {items.name} without a time left out", facts["counts"]["null times"])
            self.count(f"labels {items.labels} of items {items.name} that are missing", facts["counts"]["missing"])
            self._largest_of_items += zip((one.type for one in mine), facts["largest"], strict=True)
            found += runs_of(self.work, key, items.type, len(mine), columns, facts)
        return found

    def _num_ends(self) -> int:
        return sum(ends.num_edges for *_, ends in self._ends)

    def _count_nodes(self) -> None:
        """Find how many nodes each type has: also of types whose largest number only edges and items tell."""
        for name, ids in self._ids.items():
            largest = [one for of_type, one in self._largest_of_items if of_type == name]
            for (edge_type, *_), of_sides in zip(self._ends, self._largest, strict=True):
                src, dst = self.tables.ends(edge_type)
                largest += [of_sides[side] for side, of_type in (("src", src), ("dst", dst)) if of_type == name]
            if ids.num_nodes is None and max(largest, default=-1) >= max(MOST_NODES_UNTOLD, 100 * self._num_ends()):
                raise InputError(
                    f"convert: {name}: expected integer ids to be numbers of nodes, got {max(largest)}, so that "
                    "most nodes would have no edge; pass --external (in TOML: external = true) for ids with gaps, or "
                    "give num_nodes in TOML"
                )
            self.num_nodes[name] = (
                max(ids.num_rows, max(largest, default=-1) + 1) if ids.num_nodes is None else ids.num_nodes
            )
            if ids.num_rows:
                self.count(f"nodes of {name} added", self.num_nodes[name] - ids.num_rows)
        if sum(self.num_nodes.values()) < 1:
            raise InputError("convert: expected at least one node, got tables without rows; give num_nodes")

    def _with_splits(self, items: list[tuple[str, ItemRun]]) -> dict[str, list[ItemRun]]:
        by_name: dict[str, list[ItemRun]] = {}
        for name, run in [*self._splits(), *items]:
            runs = by_name.setdefault(name, [])
            if any(one.type == run.type or one.ids.shape != run.ids.shape for one in runs):
                raise InputError(
                    f"convert: expected items {name!r} once for a type, and of nodes or of pairs alone, got them of "
                    f"{[one.type for one in runs]} and of {run.type}; give them another name"
                )
            runs.append(run)
        return by_name

    def _splits(self) -> Iterator[tuple[str, ItemRun]]:
        options, typed = self.tables.options, self.tables.is_typed
        for place, (name, node) in enumerate(self.tables.nodes.items()):
            if node.splits is not None and node.table is not None:
                of_nodes = columns_of_nodes(node, options)
                key = f"splits{place}"
                facts = self.source_pass(
                    f"read {key}",
                    lambda: read_node_splits(self.work, key, node, of_nodes, self.room),  # noqa: B023
                )
                yield from runs_of(self.work, key, name if typed else None, 1, of_nodes, facts)
        for place, (edge_type, edge, ends) in enumerate(self._ends):
            if edge.split is not None:
                split = edge.split
                label = next(iter(edge.labels.values())) if len(edge.labels) == 1 else None
                columns = ItemColumns(edge.table, label, edge.time, options.null_times)
                key = f"pairs{place}"
                facts = self.source_pass(
                    f"read {key}",
                    lambda: read_edge_split(self.base, self.work, key, split, ends, columns, self.room),  # noqa: B023
                )
                if options.held_out == "drop":
                    self._warn_of_other_splits(edge_type, [name for name, _ in facts["items"]])
                yield from runs_of(self.work, key, edge_type, 2, columns, facts)

    def _warn_of_other_splits(self, edge_type: EdgeType | None, names: Sequence[str]) -> None:
        others = [name for name in names if name not in ("train", "val", "test")]
        if others:
            self.warn(
                f"{edges_text(edge_type)} in the splits {', '.join(map(repr, others))} stay in the graph: "
                "held_out='drop' takes those of val and test out of it; write these names"
            )


def _check_number(node: NodeTable, num_rows: int) -> None:
    if node.table is not None and node.num_nodes not in (None, num_rows):
        raise InputError(
            f"convert: expected {node.num_nodes} nodes of type {node.type!r}, got {num_rows} rows in "
            f"{node.table.name}; correct num_nodes"
        )


def _count_rows(node: NodeTable) -> int:
    assert node.table is not None
    column = next(iter(node.table.columns))
    return sum(len(chunk[column]) for chunk in node.table.arrow_chunks([column], 1 << 16))
