"""The arrays of a data set, from the files between passes and from the tables, as `save_dataset` names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.attributes import joined_attributes
from headrace.pipeline.convert.description import Columns, EdgeTable, EdgeType, NodeTable
from headrace.pipeline.convert.external_ids import OrderOfKeys, external_texts, integer_keys
from headrace.pipeline.convert.feature_rows import KeptRows, Kind, added_pieces, feature_pieces, kind_of, time_pieces
from headrace.pipeline.convert.graph_arrays import SortedEdges
from headrace.pipeline.convert.item_rows import ItemRun
from headrace.pipeline.convert.report import edges_text
from headrace.pipeline.convert.sorted_edges import index_dtype
from headrace.pipeline.data.reverse_types import reverse_type
from headrace.pipeline.storage.dataset.files import ArrayFile, FeatureFile, GraphFiles, IdFiles, ItemFiles
from headrace.pipeline.storage.dataset.manifest import Manifest

if TYPE_CHECKING:
    from headrace.pipeline.convert.conversion import Conversion


class ArraysOfDataset:
    """Writes the arrays of a conversion whose edges are sorted."""

    def __init__(self, conversion: Conversion) -> None:
        self._conversion = conversion
        self._tables = conversion.tables
        self._output = conversion.output

    def write(self, items: Mapping[str, Sequence[ItemRun]], notes: Mapping[str, Any]) -> Manifest:
        """Write all arrays, and return the manifest."""
        conversion, typed = self._conversion, self._tables.is_typed
        num_nodes, num_edges = conversion.num_nodes, conversion.num_edges
        graph = self._graph(sum(num_nodes.values()), sum(num_edges.values()))
        of_nodes, of_edges = tuple(self._node_features()), tuple(self._edge_features())
        features = (*of_nodes, *of_edges, *self._of_reverse_types(of_edges))
        return Manifest(
            sum(num_nodes.values()),
            sum(num_edges.values()),
            tuple(num_nodes.items()) if typed else None,
            tuple((name, count) for name, count in num_edges.items() if name is not None) if typed else None,
            graph,
            features,
            self._items(items),
            tuple(self._external_ids()),
            notes,
        )

    def _graph(self, num_nodes: int, num_edges: int) -> GraphFiles:
        """Write the graph from edges that come sorted, and count those that repeat another one."""
        attributes = self._conversion.edge_attributes
        arrays: dict[str, tuple[Sequence[str], np.dtype[Any], tuple[int, ...]]] = {
            "indptr": (("graph", "indptr"), np.dtype(np.int64), (num_nodes + 1,)),
            "src": (("graph", "indices"), index_dtype(num_nodes), (num_edges,)),
            "edge": (("graph", "edge_ids"), index_dtype(num_edges), (num_edges,)),
        }
        for place, (name, one) in enumerate(attributes.items()):
            arrays[f"attribute{place}"] = (("edge_attribute", name), one.dtype, (num_edges,))
        edges = SortedEdges(self._conversion.base, self._conversion.graph_edges, num_nodes)
        files, facts = self._output.write_together(
            "graph",
            arrays,
            edges.pieces,
            lambda: {"sorted": edges.are_in_order, "repeats": edges.num_repeats},
        )
        for edge_type, count in zip(self._tables.edges, facts["repeats"], strict=True):
            self._conversion.graph_edges.count(edge_type, "that repeat another one, kept", count)
        of_edges = {name: files[f"attribute{place}"] for place, name in enumerate(attributes)}
        edge_ids = None if facts["sorted"] else files["edge"]
        return GraphFiles(files["indptr"], files["src"], edge_ids, None, of_edges, self._node_times(num_nodes))

    def _node_times(self, num_nodes: int) -> dict[str, ArrayFile]:
        nodes, counts = self._tables.nodes, self._conversion.num_nodes
        if all(one.time is None for one in nodes.values()):
            return {}
        null_times = self._tables.options.null_times
        added = any(counts[name] > self._conversion.ids(name).num_rows for name in nodes)
        attribute = joined_attributes(
            [(one.table, {} if one.time is None else {"time": one.time}) for one in nodes.values()],
            nulls_are_earliest=null_times == "earliest" or added,
            what="node",
        )["time"]
        pieces = chain.from_iterable(
            time_pieces(one.table, one.time, counts[name], attribute, null_times, self._conversion.room)
            for name, one in nodes.items()
        )
        return {"time": self._output.write(("node_attribute", "time"), attribute.dtype, (num_nodes,), pieces)}

    def _node_features(self) -> Iterator[FeatureFile]:
        for name, node in self._tables.nodes.items():
            of_type = name if self._tables.is_typed else None
            for feature, columns, is_label in _rows_of(node):
                assert node.table is not None
                kind = kind_of([(node.table, columns)], f"feature {feature!r} of {name!r}")
                count = self._conversion.num_nodes[name]
                room, counted = self._conversion.room, Counter[str]()
                rows = feature_pieces(node.table, columns, kind, labels=is_label, kept=None, room=room, counted=counted)
                num_added = count - self._conversion.ids(name).num_rows
                _refuse_labels_without_none(node.table.name, feature, kind, num_added if is_label else 0)
                added = added_pieces(num_added, kind, labels=is_label)
                yield self._feature("node", of_type, feature, kind, count, chain(rows, added), counted)
                self._conversion.count(f"labels {feature} of {name} that are missing", counted["missing"])

    def _edge_features(self) -> Iterator[FeatureFile]:
        for edge_type in self._tables.edges:
            ends = [one for one in self._conversion.ends if one[0] == edge_type]
            of_tables = [{name: (columns, label) for name, columns, label in _rows_of(edge)} for _, edge, _ in ends]
            for feature, (_, is_label) in of_tables[0].items():
                yield from self._edge_feature(edge_type, feature, ends, is_label)
            odd = sorted({name for one in of_tables for name in one} - set(of_tables[0]))
            if odd:
                raise InputError(
                    f"convert: expected feature {odd[0]!r} in all tables of {edge_type}, got none in "
                    f"{ends[0][1].table.name}"
                )

    def _edge_feature(
        self, edge_type: EdgeType | None, feature: str, ends: Sequence[Any], is_label: bool
    ) -> Iterator[FeatureFile]:
        columns = []
        for _, edge, _ in ends:
            some = {name: own for name, own, _ in _rows_of(edge)}
            if feature not in some:
                raise InputError(
                    f"convert: expected feature {feature!r} in all tables of {edge_type}, got none in {edge.table.name}"
                )
            columns.append(some[feature])
        tables = [edge.table for _, edge, _ in ends]
        kind = kind_of(list(zip(tables, columns, strict=True)), f"feature {feature!r} of {edge_type}")

        room, missing, base = self._conversion.room, Counter[str](), self._conversion.base

        def pieces(counted: Counter[str] | None = None) -> Iterator[NDArray[Any]]:
            for (_, edge, some), own in zip(ends, columns, strict=True):
                kept = None if some.num_rows == some.num_edges else KeptRows(base, some.name)
                yield from feature_pieces(edge.table, own, kind, labels=is_label, kept=kept, room=room, counted=counted)

        def added() -> Iterator[NDArray[Any]]:
            for (_, edge, some), own in zip(ends, columns, strict=True):
                kept = KeptRows(base, f"{some.name}_back")
                yield from feature_pieces(edge.table, own, kind, labels=is_label, kept=kept, room=room)

        twice = self._tables.options.reverse and edge_type is None
        src, dst = self._tables.ends(edge_type)
        num_loops = self._conversion.graph_edges.num_loops.get(edge_type, 0)
        _refuse_labels_without_none(tables[0].name, feature, kind, num_loops if is_label else 0)
        rows = chain(
            pieces(missing),
            pieces() if twice else (),
            added() if self._tables.options.undirected and src == dst else (),
            added_pieces(num_loops, kind, labels=is_label, fill=1),
        )
        yield self._feature("edge", edge_type, feature, kind, self._conversion.num_edges[edge_type], rows, missing)
        self._conversion.count(f"labels {feature} of {edges_text(edge_type)} that are missing", missing["missing"])

    def _of_reverse_types(self, features: Sequence[FeatureFile]) -> Iterator[FeatureFile]:
        """Yield the features of reverse types, which are the same arrays."""
        reverse = self._tables.are_reversed
        for one in features:
            if isinstance(one.type, tuple) and one.type in reverse:
                yield FeatureFile("edge", reverse_type((one.type[0], one.type[1], one.type[2])), one.name, one.rows)

    def _feature(
        self,
        of: str,
        of_type: Any,
        name: str,
        kind: Any,
        count: int,
        pieces: Iterator[NDArray[Any]],
        counted: Counter[str] | None = None,
    ) -> FeatureFile:
        label = of_type if isinstance(of_type, str) else ",".join(of_type or ())
        parts = (of, *([label] if label else []), name)
        return FeatureFile(of, of_type, name, self._output.write(parts, kind[0], (count, *kind[1]), pieces, counted))

    def _items(self, items: Mapping[str, Sequence[ItemRun]]) -> dict[str, tuple[ItemFiles, ...]]:
        found = {}
        for name, runs in items.items():
            for what in ("labels", "times"):
                without = [one.type for one in runs if getattr(one, what) is None]
                if 0 < len(without) < len(runs):
                    raise InputError(
                        f"convert: items {name!r}: expected {what} of all types or of none, got none of "
                        f"{without[0]!r}; add the column, or give the items of the types two names"
                    )
            files = []
            for run in runs:
                label = run.type if isinstance(run.type, str) else ",".join(run.type or ())
                parts = ("items", name, *([label] if label else []))
                ids = self._output.raw((*parts, "ids"), run.ids, run.num_items)
                labels, times = (
                    None if array is None else self._output.raw((*parts, what), array, run.num_items)
                    for what, array in (("labels", run.labels), ("times", run.times))
                )
                files.append(ItemFiles(run.type, ids, labels, times))
            found[name] = tuple(files)
        return found

    def _external_ids(self) -> Iterator[IdFiles]:
        base = self._conversion.base
        for name in self._tables.nodes:
            ids = self._conversion.ids(name)
            if ids.keys is None:
                continue
            of_type = name if self._tables.is_typed else "node"
            num_nodes = self._conversion.num_nodes[name]
            texts = external_texts(base, ids.keys) if ids.is_text else None
            int64, parts = np.dtype(np.int64), ("ids", of_type)
            arrays: dict[str, tuple[Sequence[str], np.dtype[Any], tuple[int, ...]]] = {}
            if texts is None:
                arrays["values"] = ((*parts, "values"), int64, (num_nodes,))
            else:
                arrays["values"] = ((*parts, "values"), np.dtype(np.uint8), (texts.num_bytes,))
                arrays["starts"] = ((*parts, "starts"), int64, (num_nodes + 1,))
            order = OrderOfKeys(base, ids.keys)
            pieces = integer_keys(base, ids.keys) if texts is None else texts.pieces()
            files, facts = self._output.write_together(
                f"ids of {of_type}",
                {**arrays, "order": ((*parts, "order"), int64, (num_nodes,))},
                lambda: chain(pieces, order.pieces()),  # noqa: B023
                lambda: {"sorted": order.is_ascending},  # noqa: B023
            )
            yield IdFiles(of_type, files["values"], files.get("starts"), None if facts["sorted"] else files["order"])


def _refuse_labels_without_none(table: str, name: str, kind: Kind, num_added: int) -> None:
    """Refuse to add what has no label where the dtype has no number for that.

    Raises
    ------
    InputError
        If something is added to labels that are booleans or unsigned.
    """
    if num_added and kind[0].kind in "bu":
        raise InputError(
            f"convert: {table}: expected labels {name!r} of floating point or signed integers, as {num_added} without "
            f"a label are added, got {kind[0]}; convert the column"
        )


def _rows_of(one: NodeTable | EdgeTable) -> list[tuple[str, Columns, bool]]:
    """Return names, columns, and whether they are labels, of the features of a table."""
    features = [(name, columns, False) for name, columns in one.features.items()]
    return features + [(name, column, True) for name, column in one.labels.items()]
